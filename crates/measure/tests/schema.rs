//! The result format: its published schema, and files that older versions wrote.

#[path = "example/result.rs"]
mod example;

use std::path::Path;

use measure::report::FORMATS;
use measure::result::{RunResult, SCHEMA, schema};
use serde_json::{Value, json};

const PUBLISHED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../bench-results/result.schema.json"
);

#[test]
fn the_published_schema_is_that_of_the_code() {
    if std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(PUBLISHED, schema()).unwrap();
    }
    let published = std::fs::read_to_string(PUBLISHED).unwrap();
    assert!(
        published == schema(),
        "the result format changed: is it a new SCHEMA number? DROVER_BLESS=1 rewrites {PUBLISHED}"
    );
}

/// What a validator of the published schema objects to.
fn objections(result: &Value) -> Vec<String> {
    let published = std::fs::read_to_string(PUBLISHED).expect("the schema is published");
    let published: Value = serde_json::from_str(&published).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&published).expect("the schema is one");
    validator
        .iter_errors(result)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn a_full_result_fits_the_schema() {
    let result = serde_json::to_value(example::full()).unwrap();
    assert_eq!(objections(&result), Vec::<String>::new());
}

#[test]
fn a_broken_result_does_not_fit_the_schema() {
    let breaks: [fn(&mut Value); 5] = [
        |result| drop(result.as_object_mut().unwrap().remove("operations")),
        |result| result["operations"]["ok"] = json!(-1),
        |result| result["verdict"] = json!("GOOD"),
        |result| result["seconds"][0]["series"][0]["p99_ns"] = json!("12 ms"),
        |result| result["warnings"][0]["kind"] = json!("Tired"),
    ];
    for (place, apply) in breaks.iter().enumerate() {
        let mut result = serde_json::to_value(example::full()).unwrap();
        apply(&mut result);
        assert!(
            !objections(&result).is_empty(),
            "break {place} went unnoticed"
        );
    }
}

#[test]
fn a_file_of_schema_1_is_still_read_and_shown() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/result-1.json");
    let result: RunResult = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(result.schema, 1);
    assert_eq!(result.series("first_byte").unwrap().p99_ns, 374_783);
    assert_eq!(
        result
            .series("first_byte")
            .unwrap()
            .distribution()
            .unwrap()
            .quantile(0.99),
        Some(374_783)
    );
    assert_eq!(result.usage.daemon.as_ref().unwrap().rss_peak_kb, 4_640);
    for format in FORMATS {
        let text = format.render(std::slice::from_ref(&result)).unwrap();
        assert!(text.contains("first_byte"), "{format}: {text}");
    }
}

#[test]
fn every_schema_number_has_a_file_that_is_read() {
    for number in 1..=SCHEMA {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/result-{number}.json"));
        assert!(path.exists(), "{} is missing", path.display());
    }
}
