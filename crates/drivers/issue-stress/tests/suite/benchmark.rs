//! The benchmark of single operations.

use std::process::Command;

use harness_testing::assert_contains;
use harness_testing::program::beside;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_issue-stress");

#[test]
fn each_operation_is_timed_in_each_way() {
    if beside(PROGRAM, ["issue-daemon", "issue"]).is_none() {
        return;
    }
    let arguments = ["benchmark", "--rounds", "5", "--ops", "5", "--issues", "20"];
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{table}");
    let lines = |word: &str| table.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!(
        ["create", "update", "list", "ping", "sync"].map(lines),
        [4, 4, 4, 2, 1],
        "{table}"
    );
    // Five rounds give an interval.
    assert_eq!(table.matches(" × (").count(), 10, "{table}");
    let output = Command::new(PROGRAM)
        .args(arguments)
        .arg("--json")
        .output()
        .unwrap();
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in figures["rows"].as_array().unwrap() {
        let medians = row["median_ns"].as_array().unwrap();
        assert!(
            medians.len() == 5 && medians.iter().all(|ns| ns.as_f64().unwrap() > 0.0),
            "{row}"
        );
    }
}

#[test]
fn a_missing_program_is_named_with_the_command_that_builds_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM)
        .args(["benchmark", "--programs"])
        .arg(folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_contains(
        &error,
        &["cargo build --release -p issue-cli -p issue-daemon"],
    );
}
