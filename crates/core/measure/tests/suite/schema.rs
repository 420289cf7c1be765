//! The result format: its published schema, and a file that an older version has written.

use std::path::Path;

use measure::exit;
use measure::report::FORMATS;
use measure::result::{RunResult, SCHEMA, schema};
use measure::spec::{CounterRole, ErrorCause, SeriesRole};
use measure::warning::{Verdict, Warning};
use serde_json::{Value, json};

use crate::example::{redis, result as example};

const PUBLISHED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../bench-results/result.schema.json"
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

/// Returns the objections of a validator of the published schema.
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
    for result in [example::full(), redis::with_redis()] {
        let result = serde_json::to_value(result).unwrap();
        assert_eq!(objections(&result), Vec::<String>::new());
    }
}

#[test]
fn a_result_without_services_is_stored_as_before() {
    let result = serde_json::to_value(example::full()).unwrap();
    assert_eq!(result.get("services"), None);
    let mut result = redis::with_redis();
    result.services.clear();
    assert_eq!(result, example::full());
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
fn a_stored_file_of_this_schema_is_read_and_shown_and_says_what_its_names_mean() {
    let file = format!("tests/data/result-{SCHEMA}.json");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let result: RunResult = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(result.schema, SCHEMA);
    let series = result.series("first_byte").unwrap();
    let values = series.distribution().unwrap();
    assert_eq!(
        (series.p99_ns, values.quantile(0.99)),
        (374_783, Some(374_783))
    );
    for format in FORMATS {
        let text = format.render(std::slice::from_ref(&result)).unwrap();
        // One screen and the formats for CI systems show no figure of every series.
        let shown = match format.name {
            "terminal" | "junit" | "github" => "fdpass-gen",
            _ => "first_byte",
        };
        assert!(text.contains(shown), "{format}: {text}");
    }
    assert_eq!(result.check_intact(), Ok(()));
    let headline = result.spec.series("first_byte").unwrap();
    assert_eq!(
        (headline.role, headline.label.as_ref()),
        (SeriesRole::Headline, "TTFB")
    );
    assert_eq!(result.spec.cause("aborted"), ErrorCause::Expected);
    assert_eq!(result.spec.cause("rejected"), ErrorCause::Failure);
    assert_eq!(
        result.counted(CounterRole::BytesReceived),
        Some(result.count("bytes"))
    );
    assert_eq!(result.phases.unwrap().measure_s, 3.0);
    assert_eq!(exit::code(&[&result]), exit::FAILED);
    let mut expected = result.clone();
    expected.errors = [("aborted".to_owned(), 3)].into();
    assert_eq!(
        exit::code(&[&expected]),
        exit::SUSPECT,
        "the plan asked for it"
    );
}

#[test]
fn a_result_whose_figures_do_not_fit_each_other_is_named_by_the_field() {
    assert_eq!(example::full().check_intact(), Ok(()));
    type Break = (&'static str, fn(&mut RunResult));
    let breaks: [Break; 10] = [
        ("verdict", |result| result.verdict = Verdict::Valid),
        ("operations.failed", |result| result.operations.failed = 2),
        ("operations.started", |result| {
            result.operations.unfinished = 0
        }),
        ("operations.ok", |result| {
            result.operations.ok = 998;
            result.operations.failed = 0;
            result.errors.clear();
        }),
        ("errors.rejected", |result| {
            let of = |name: &str| name.to_owned();
            result.errors = [(of("reset"), 2), (of("rejected"), 1)].into();
        }),
        ("counts.events", |result| {
            result.counts.insert("events".to_owned(), 1);
        }),
        ("series.handoff.p99_ns", |result| {
            result.series[0].p99_ns -= 1
        }),
        ("series.first_byte.mean_ns", |result| {
            result.series[1].mean_ns *= 0.99
        }),
        ("series.lag.count", |result| {
            result.lag.as_mut().unwrap().count -= 1
        }),
        ("series.stream.histogram", |result| {
            result.series[2].histogram.replace_range(..9, "!");
        }),
    ];
    for (field, apply) in breaks {
        let mut result = example::full();
        apply(&mut result);
        let damaged = result.check_intact().unwrap_err();
        assert_eq!(damaged.field, field, "{damaged}");
        assert!(
            damaged
                .to_string()
                .starts_with("the result was edited or damaged: `"),
            "{damaged}"
        );
    }
    // A driver with inconsistent counters has a warning, so its sums may differ.
    let mut result = example::full();
    result.operations.unfinished = 0;
    result.counts.remove("unfinished");
    result.warnings = vec![Warning::counts_disagree("operations", 1_000, 998)];
    assert_eq!(result.check_intact(), Ok(()));
}
