//! Tests that INVALID runs are made again, and that nothing is hidden by it.

use crate::support::{Project, assert_contains, json, messages, shown};

const TWO: &str = "[suite]\ndaemons = ['a', 'b']\nrepeat = 2\n";

fn doing(what: &str) -> Project {
    Project::new(&format!("[driver]\ndo = {{ {what} }}\n{TWO}"))
}

#[test]
fn an_invalid_run_is_made_again_after_the_others_of_its_repetition() {
    let project = doing("'a/5' = 'late first'");
    let output = project.run("", 0);
    assert_eq!(
        project.log(),
        ["a/5/1", "b/5/1", "a/5/1", "b/5/2", "a/5/2", "a/5/2"]
    );
    assert_contains(
        &messages(&output),
        &[
            "run 1 of 4 · a · 5 · 1st of 2 · ",
            " · INVALID · 5 ok · to be made again",
            "run 1 of 4 · a · 5 · 1st of 2 · attempt 2 · ",
            "2 INVALID runs were made again",
        ],
    );
    let record = project.record();
    assert_eq!(record["runs"].as_array().unwrap().len(), 4);
    assert!(record["ended_at"].is_string());
    let aside = &record["set_aside"][0];
    assert_eq!(
        (&aside["daemon"], &aside["run"], &aside["attempt"]),
        (&"a".into(), &1.into(), &1.into())
    );
    assert_eq!(aside["reason"], "it began late");
    let attempt = project.suite("tiny/a/5/1.invalid-1/result.json");
    assert_eq!(json(&attempt)["verdict"], "INVALID");
}

#[test]
fn an_attempt_that_was_made_again_is_no_repetition_of_a_report() {
    let project = doing("'a/5' = 'late first'");
    project.run("", 0);
    let page = std::fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    assert_contains(&page, &["2 INVALID runs were made again"]);
    let results = |paths: &[&str]| {
        let paths = paths.iter().map(|path| project.suite(path));
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let output = project.call(&format!("report --format json {}", paths.join(" ")), 0);
        let results: serde_json::Value = serde_json::from_str(&shown(&output)).unwrap();
        // A single result is written as it is.
        results.as_array().map_or(1, Vec::len)
    };
    assert_eq!(results(&["tiny"]), 4);
    assert_eq!(results(&["tiny/a"]), 2, "read without the record");
    assert_eq!(results(&["tiny/a/5/1.invalid-1"]), 1, "named itself");
}

#[test]
fn a_run_that_stays_invalid_is_kept_after_two_more_attempts_and_tried_by_the_next_call() {
    let project = doing("'a/5' = 'late'");
    let output = project.run("--repeat 1", 3);
    assert_eq!(project.log(), ["a/5/1", "b/5/1", "a/5/1", "a/5/1"]);
    assert_contains(
        &messages(&output),
        &["1 run is INVALID: repeat the command to try again"],
    );
    assert!(project.record()["ended_at"].is_null());
    let kept = json(&project.suite("tiny/a/5/1/result.json"));
    assert_eq!(kept["verdict"], "INVALID");

    let output = project.run("--repeat 1 --retry-invalid 1", 3);
    assert_eq!(project.log()[4..], ["a/5/1"]);
    assert_contains(
        &messages(&output),
        &["2 of 2 runs are complete (1 INVALID, to be made again)"],
    );
    assert_eq!(project.record()["set_aside"][2]["attempt"], 3);

    project.run("--repeat 1 --retry-invalid 0", 3);
    assert_eq!((project.log().len(), project.suites()), (5, 1));
    assert!(
        project.record()["ended_at"].is_string(),
        "accepted as it is"
    );
}

#[test]
fn a_plan_whose_runs_are_expected_to_be_invalid_says_so() {
    let project = Project::new(
        "[driver]\ndo = { 'a/5' = 'late' }\n[suite]\ndaemons = ['a']\nretry_invalid = 0\n",
    );
    project.run("", 3);
    assert_eq!(project.log(), ["a/5/1"]);
    assert!(project.record()["ended_at"].is_string());
}

#[test]
fn a_failure_does_not_vanish_behind_an_attempt_that_goes_well() {
    let project = doing("'a/5' = 'late and failing'");
    project.run("--repeat 1", 1);
    assert_eq!(project.log(), ["a/5/1", "b/5/1"]);
}

#[test]
fn a_record_of_an_earlier_version_is_finished_if_its_results_are() {
    let project = doing("");
    project.run("", 0);
    let path = project.suite("tiny/suite.json");
    let mut record = project.record();
    record.as_object_mut().unwrap().remove("set_aside");
    for run in record["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("verdict").unwrap();
    }
    std::fs::write(&path, record.to_string()).unwrap();
    let output = project.run("", 0);
    assert_contains(&messages(&output), &["Nothing to do: all 4 runs"]);
    assert_eq!(project.record()["runs"][3]["verdict"], "VALID");
    assert_eq!(project.log().len(), 4);
}

#[test]
fn the_time_that_is_left_includes_the_attempts_that_will_be_made() {
    let project = doing("'a/5' = 'late', 'b/5' = 'late'");
    let output = project.run("--repeat 1", 3);
    let messages = messages(&output);
    let lines = messages.lines().filter(|line| line.starts_with("run "));
    let left: Vec<Option<&str>> = lines
        .map(|line| line.split_once(" · about ").map(|(_, left)| left))
        .collect();
    // A load takes 3.125 s, and its begin and end 3 s. Every attempt was INVALID, so each run takes three.
    let expected = ["30s left", "24s left", "18s left", "12s left", "6s left"];
    let expected: Vec<Option<&str>> = expected.map(Some).into_iter().chain([None]).collect();
    assert_eq!(left, expected, "{messages}");
}
