//! The published JSON Schemas of plans and manifests, with which editors complete and check them.

use std::path::{Path, PathBuf};

use amqp_perftest::driver::Perftest;
use fdpass_gen::driver::FdPass;
use http_load::HttpLoad;
use issue_stress::IssueStress;
use load::driver::Driver;
use load::plan::Plan;
use presence_load::PresenceLoad;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use subject::manifest::Manifest;

#[test]
fn the_schema_of_each_driver_s_plans_is_that_of_its_types() {
    let wrong = [
        ("[timeline]", "[timelin]"),
        ("drain = \"", "drian = \""),
        ("[driver]", "[driver]\nno_such_setting = 1"),
        ("name = \"", "nmae = \""),
        ("daemons = [\"", "daemons = [1, \""),
    ];
    check_plans::<HttpLoad>(&wrong);
    check_plans::<FdPass>(&wrong);
    check_plans::<Perftest>(&wrong);
    check_plans::<PresenceLoad>(&wrong);
    check_plans::<IssueStress>(&wrong);
    check_plans::<HttpLoad>(&[
        ("measure = \"10s\"", "measure = 10"),
        ("measure = \"10s\"", "measure = \"10\""),
        ("clients = 100", "clients = \"100\""),
        ("clients = 100", "clients = -1"),
        ("clients = 100", "client = 100"),
    ]);
}

#[test]
fn the_schema_of_manifests_is_that_of_their_type() {
    check_manifests(&[
        ("serves ", "servs "),
        ("about ", "abuot "),
        ("ready   = {", "ready   = { nothing = 1,"),
        ("grace = \"5s\"", "grace = 5"),
    ]);
}

/// Checks `configs/<protocol>/plan.schema.json` against the plans of a driver: it agrees with the types, the plans
/// beside it fit and name it in their first line, and each of the `wrong` plans does not. `DROVER_BLESS=1` writes it.
#[track_caller]
fn check_plans<D: Driver<Config: JsonSchema>>(wrong: &[(&str, &str)]) {
    let folder = root().join("configs").join(&*D::SPEC.protocol);
    let title = format!("A plan for {}", D::SPEC.driver);
    let path = folder.join("plan.schema.json");
    let schema = published(&path, &title, generate::<Plan<D::Config>>());
    let entries = std::fs::read_dir(&folder).unwrap();
    let plans = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "toml"));
    let plans: Vec<PathBuf> = plans.collect();
    check_documents(&schema, &plans, "#:schema ./plan.schema.json", wrong);
}

/// Checks `daemons/daemon.schema.json` against the manifests, as [`check_plans`] checks plans.
#[track_caller]
fn check_manifests(wrong: &[(&str, &str)]) {
    let folder = root().join("daemons");
    let path = folder.join("daemon.schema.json");
    let schema = published(&path, "The manifest of a daemon", generate::<Manifest>());
    let entries = std::fs::read_dir(&folder).unwrap();
    let manifests = entries
        .map(|entry| entry.unwrap().path().join("daemon.toml"))
        .filter(|path| path.is_file());
    let manifests: Vec<PathBuf> = manifests.collect();
    check_documents(&schema, &manifests, "#:schema ../daemon.schema.json", wrong);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Editors read draft 7 best.
fn generate<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft07();
    settings.into_generator().into_root_schema_for::<T>()
}

/// Returns the published schema, which must be the generated one.
#[track_caller]
fn published(path: &Path, title: &str, mut schema: Schema) -> Value {
    schema.insert("title".to_owned(), title.into());
    let mut text = serde_json::to_string_pretty(&schema).unwrap();
    text.push('\n');
    if std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(path, &text).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    let at = path.display();
    assert!(
        published == text,
        "{at} does not agree with the types: run this test with DROVER_BLESS=1"
    );
    serde_json::from_str(&published).unwrap()
}

/// Checks documents that fit the schema, and that each of `wrong` does not: a text of the first document, and what
/// replaces it.
#[track_caller]
fn check_documents(schema: &Value, paths: &[PathBuf], directive: &str, wrong: &[(&str, &str)]) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let objections = |text: &str| -> Vec<String> {
        let document: toml::Table = text.parse().unwrap();
        let document = serde_json::to_value(document).unwrap();
        let errors = validator.iter_errors(&document);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    };
    assert!(!paths.is_empty(), "there is no document");
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap();
        let at = path.display();
        assert!(
            text.starts_with(&format!("{directive}\n")),
            "{at} does not begin with {directive}"
        );
        assert_eq!(objections(&text), Vec::<String>::new(), "{at}");
    }
    for (right, by) in wrong {
        let texts = paths
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap());
        let text = texts
            .into_iter()
            .find(|text| text.contains(right))
            .unwrap_or_else(|| panic!("no document has {right:?}"));
        let broken = text.replacen(right, by, 1);
        assert!(
            !objections(&broken).is_empty(),
            "{right:?} replaced by {by:?} goes unnoticed"
        );
    }
}
