//! Batches, exports and imports.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Folder, text};

const BATCH: &str = r#"{"operation":"create","args":{"id":"t-1","title":"one"}}

{"operation":"close","args":{"id":"nothing"}}
{"operation":"create","args":{"id":"t-3","title":"three"}}
"#;

#[test]
fn a_batch_keeps_what_its_mode_says() {
    for (mode, kept) in [("stop", 1), ("atomic", 0), ("continue", 2)] {
        let folder = Folder::new();
        fs::write(folder.path().join("batch.jsonl"), BATCH).unwrap();
        let output = folder.run(&format!("batch batch.jsonl --mode {mode}"));
        assert_eq!(output.status.code(), Some(1), "{mode}");
        let printed = text(&output.stdout);
        assert!(printed.contains("2  not_found: "), "{mode}: {printed}");
        assert!(
            text(&output.stderr).contains("operation 2 of 3 failed"),
            "{mode}"
        );
        assert_eq!(folder.json("stats")["total"], kept, "{mode}");
    }
    let folder = Folder::new();
    let output = folder.run_with(
        "batch - --json",
        &format!("[{}]", BATCH.lines().next().unwrap()),
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["results"][0]["data"]["id"], "t-1");
    let error = folder.run_with("batch -", "{}\n{\"operation\":");
    assert!(
        text(&error.stderr).contains("-, line 2: "),
        "{}",
        text(&error.stderr)
    );
}

#[test]
fn an_export_is_imported_as_it_was_also_if_issues_depend_on_later_ones() {
    let folder = Folder::new();
    let creates = (0..2_500).map(|number| {
        json!({"operation": "create", "args": {"id": format!("t-{number}"), "title": "a"}})
            .to_string()
            + "\n"
    });
    assert!(
        folder
            .run_with("batch -", &creates.collect::<String>())
            .status
            .success()
    );
    let creates = vec![json!({"operation": "create", "args": {"title": "a"}}); 1_001];
    let creates = serde_json::to_string(&creates).unwrap();
    let atomic = folder.run_with("batch - --mode atomic", &creates);
    assert_eq!(atomic.status.code(), Some(2), "it cannot be cut");
    folder.done("dep add t-0 t-2499");
    folder.done("dep add t-1 t-0 --kind parent-child");
    folder.done("comment add t-7 hello");
    folder.done("close t-5 --reason 'fixed in abc'");
    folder.done("export all.jsonl");
    assert!(
        folder
            .refused(2, "export all.jsonl")
            .contains("File exists")
    );
    let other = Folder::new();
    let file = folder.path().join("all.jsonl");
    let file = file.to_str().unwrap();
    let imported = other.json(&format!("import {file}"));
    assert_eq!(
        imported,
        json!({"created": 2_500, "replaced": 0, "skipped": 0, "kept": []})
    );
    let sorted = |folder: &Folder| {
        let mut records: Vec<Value> = folder
            .done("export")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        records.sort_by_key(|record| record["id"].as_str().unwrap().to_owned());
        for record in &mut records {
            record.as_object_mut().unwrap().remove("num");
            for comment in record["comments"].as_array_mut().into_iter().flatten() {
                comment.as_object_mut().unwrap().remove("id");
            }
            let events = record["events"].as_array_mut().unwrap();
            events.retain(|event| event["kind"] != "imported");
            for event in events {
                event.as_object_mut().unwrap().remove("id");
            }
        }
        records
    };
    assert_eq!(sorted(&folder), sorted(&other));
    assert_eq!(folder.json("stats"), other.json("stats"));
    let error = other.refused(1, &format!("import {file}"));
    assert!(
        error.contains("0 of 2500 issues were imported before it"),
        "{error}"
    );
    assert_eq!(
        other.json(&format!("import {file} --on-conflict skip"))["skipped"],
        2_500
    );
    assert_eq!(
        other.json(&format!("import {file} --on-conflict replace"))["replaced"],
        2_500
    );
    assert_eq!(sorted(&folder), sorted(&other));
}

#[test]
fn an_import_says_which_newer_issues_it_kept() {
    let folder = Folder::new();
    folder.done("create new --id t-1");
    let old = r#"{"id":"t-1","title":"old","status":"open","priority":2,"issue_type":"task",
        "created_at":"2001-02-03","updated_at":"2001-02-03"}"#
        .replace('\n', "");
    let output = folder.run_with("import - --on-conflict replace", &old);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(r#"["t-1"]"#));
    assert!(text(&output.stderr).contains("kept 1 issue "));
    assert_eq!(folder.json("show t-1")["title"], "new");
}

#[test]
fn a_file_that_is_no_export_is_refused_with_its_line() {
    let folder = Folder::new();
    let output = folder.run_with("import -", "\n{\"id\":\"a\"}\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("-, line 2: missing field"),
        "{}",
        text(&output.stderr)
    );
    assert!(
        folder
            .refused(2, "import none.jsonl")
            .contains("cannot read none.jsonl")
    );
}
