//! The published JSON Schemas of plans and manifests, with which editors complete and check them, against the documents
//! beside them.

use std::path::{Path, PathBuf};

use jsonschema::Validator;

use crate::docs::markdown::{read, root};

#[test]
fn plans_fit_the_schema_of_their_driver_and_wrong_ones_do_not() {
    let wrong = [
        ("[timeline]", "[timelin]"),
        ("drain = \"", "drian = \""),
        ("[driver]", "[driver]\nno_such_setting = 1"),
        ("name = \"", "nmae = \""),
        ("daemons = [\"", "daemons = [1, \""),
        ("measure = \"", "measure = 1 # \""),
        ("measure = \"10s\"", "measure = \"10\""),
        ("clients = ", "clients = -"),
        ("clients = ", "client = "),
        ("clients = 100\n", "clients = \"100\"\n"),
    ];
    let folders = entries(&root().join("configs")).into_iter();
    let sets = folders.map(|folder| {
        let plans = entries(&folder).into_iter();
        let plans = plans.filter(|path| path.extension().is_some_and(|it| it == "toml"));
        Documents::read(&folder.join("plan.schema.json"), plans)
    });
    let sets: Vec<Documents> = sets.collect();
    check(&sets, "#:schema ./plan.schema.json", &wrong);
}

#[test]
fn manifests_fit_their_schema_and_wrong_ones_do_not() {
    let folder = root().join("daemons");
    let manifests = entries(&folder).into_iter();
    let manifests = manifests.map(|entry| entry.join("daemon.toml"));
    let manifests = manifests.filter(|path| path.is_file());
    let set = Documents::read(&folder.join("daemon.schema.json"), manifests);
    let wrong = [
        ("serves ", "servs "),
        ("about ", "abuot "),
        ("ready   = {", "ready   = { nothing = 1,"),
        ("grace = \"5s\"", "grace = 5"),
    ];
    check(&[set], "#:schema ../daemon.schema.json", &wrong);
}

/// A schema, and the texts of the documents that follow it.
struct Documents {
    schema: Validator,
    texts: Vec<(PathBuf, String)>,
}

impl Documents {
    fn read(schema: &Path, paths: impl Iterator<Item = PathBuf>) -> Self {
        let schema = serde_json::from_str(&read(schema)).unwrap();
        let texts: Vec<_> = paths.map(|path| (path.clone(), read(&path))).collect();
        assert!(!texts.is_empty(), "there is no document");
        Self {
            schema: jsonschema::validator_for(&schema).unwrap(),
            texts,
        }
    }

    fn objections(&self, text: &str) -> Vec<String> {
        let document: toml::Table = text.parse().unwrap();
        let document = serde_json::to_value(document).unwrap();
        let errors = self.schema.iter_errors(&document);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Checks that documents fit their schema and name it in their first line, and that one with a mistake does not fit.
/// Each mistake is a text of some document, and what replaces it.
#[track_caller]
fn check(sets: &[Documents], directive: &str, mistakes: &[(&str, &str)]) {
    for set in sets {
        for (path, text) in &set.texts {
            let at = path.display();
            let names_schema = text.starts_with(&format!("{directive}\n"));
            assert!(names_schema, "{at} does not begin with {directive}");
            assert_eq!(set.objections(text), Vec::<String>::new(), "{at}");
        }
    }
    for (right, wrong) in mistakes {
        let mut count = 0;
        for set in sets {
            let mut texts = set.texts.iter();
            // The levels of a suite may set anything.
            let is_checked = |text: &str| text.split("levels = ").next().unwrap().contains(right);
            if let Some((_, text)) = texts.find(|(_, text)| is_checked(text)) {
                let broken = text.replacen(right, wrong, 1);
                let is_noticed = !set.objections(&broken).is_empty();
                assert!(is_noticed, "{right:?} replaced by {wrong:?} goes unnoticed");
                count += 1;
            }
        }
        assert!(count > 0, "no document has {right:?}");
    }
}
