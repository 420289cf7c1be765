//! Tests the search for a capacity, run by run.

use std::fs;

use crate::support::{Project, assert_contains, ends_with, interrupt, messages, shown};

const SEARCH: &str = "[suite]\ndaemons = ['a', 'b']\n[suite.capacity]\nset = 'groups.0.clients'\nfrom = 100\nmost = 800\nconfirm = 1\nwithin_pct = 10\n";

fn project(what: &str) -> Project {
    let project = Project::new(&format!(
        "[driver]\ncapacity = {{ a = 330, b = 9999 }}\ndo = {{ {what} }}\n{SEARCH}"
    ));
    let plan = fs::read_to_string(project.path("configs/fake/tiny.toml")).unwrap();
    let with = plan.replacen(
        "name = \"tiny\"\n",
        "name = \"tiny\"\nthresholds = ['first_byte.p99 <= 50ms']\n",
        1,
    );
    project.file("configs/fake/tiny.toml", &with);
    project
}

const OF_A: [&str; 7] = [
    "a/100/1", "a/200/1", "a/400/1", "a/300/1", "a/350/1", "a/325/1", "a/325/2",
];

#[test]
fn it_doubles_bisects_and_confirms_and_the_answer_is_a_bracket_with_its_reason() {
    let project = project("");
    let output = project.run("", 0);
    assert_eq!(project.log()[..7], OF_A);
    assert_eq!(
        project.log()[7..],
        ["b/100/1", "b/200/1", "b/400/1", "b/800/1", "b/800/2"]
    );
    let found = &project.record()["found"];
    assert_eq!(
        (&found[0]["held"], &found[0]["missed"]),
        (&325.into(), &350.into())
    );
    assert_eq!(found[0]["reason"], "first_byte.p99 <= 50ms (350 us)");
    assert_eq!(
        (&found[1]["held"], found[1]["missed"].is_null()),
        (&800.into(), true)
    );
    assert_contains(&shown(&output), &["a: 325 held, 350 did not"]);
    let page = fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    assert_contains(&page, &["a: 325 held, 350 did not"]);
}

#[test]
fn a_search_that_was_cut_short_goes_on_from_its_files() {
    let project = project("'a/350' = 'hang'");
    let (child, _) = project.hang("--force");
    interrupt(&child);
    ends_with(&child.end(), 3);
    let output = project.run("--daemon a,b", 0);
    assert_contains(&messages(&output), &["4 runs are complete"]);
    assert_eq!(project.log()[5..8], OF_A[4..]);
    assert_eq!(project.record()["found"][0]["held"], 325);
}

#[test]
fn failures_that_the_driver_lets_pass_are_no_miss() {
    let project = project("'a/100' = 'allowed', 'a/325' = 'allowed'");
    project.run("--daemon a", 0);
    assert_eq!(project.log(), OF_A);
    assert_eq!(project.record()["found"][0]["held"], 325);
}

#[test]
fn a_run_that_was_lost_is_made_again_and_counts_no_other_twice() {
    let project = project("'b/100' = 'hang'");
    let (child, _) = project.hang("--force");
    interrupt(&child);
    ends_with(&child.end(), 3);
    fs::remove_file(project.suite("tiny/a/325/1/result.json")).unwrap();
    project.run("", 0);
    assert_eq!(project.log()[8..10], ["a/325/1", "b/100/1"]);
    assert_eq!(project.record()["found"][0]["held"], 325);
}

#[test]
fn a_limit_of_the_machine_bounds_the_search_and_failures_are_no_answer() {
    let project =
        project("'b/800' = 'limit', 'b/600' = 'errors', 'b/500' = 'suspect', 'a/200' = 'fail'");
    project.run("", 1);
    let record = project.record();
    let found = record["found"].as_array().unwrap();
    assert_eq!(
        found.len(),
        1,
        "nothing is said of a daemon that failed: {found:?}"
    );
    assert_eq!(
        (&found[0]["daemon"], &found[0]["missed"]),
        (&"b".into(), &600.into())
    );
    assert_eq!(found[0]["reason"], "3 failed");
    assert!(found[0]["held"].as_u64().unwrap() >= 550, "{found:?}");
    assert_eq!(project.log()[..2], OF_A[..2]);
}

#[test]
fn a_run_that_the_driver_spoiled_is_made_again_and_is_no_miss() {
    let project = project("'a/200' = 'late once', 'a/325' = 'late once'");
    let output = project.run("--daemon a", 0);
    let again = [
        "a/100/1", "a/200/1", "a/200/2", "a/400/1", "a/300/1", "a/350/1", "a/325/1", "a/325/2",
        "a/325/3",
    ];
    assert_eq!(project.log(), again);
    let answer = " capacity  a: 325 held, 350 did not (first_byte.p99 <= 50ms (350 us)).";
    assert_contains(&shown(&output), &[answer]);
    let page = fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    let spoiled = "at 200, 1 of 2 runs inconclusive: it began late → give it cores";
    assert_contains(&page, &[spoiled]);
}

#[test]
fn where_the_driver_is_the_limit_the_search_ends_and_says_so() {
    let project = project("'a/400' = 'late', 'b/100' = 'late'");
    let output = project.run("", 3);
    assert_eq!(
        project.log(),
        [
            "a/100/1", "a/200/1", "a/400/1", "a/400/2", "a/400/3", "a/200/2", "b/100/1", "b/100/2",
            "b/100/3"
        ]
    );
    let found = &project.record()["found"];
    assert_eq!(
        (&found[0]["held"], &found[0]["unjudged"]["level"]),
        (&200.into(), &400.into())
    );
    assert!(found[0]["missed"].is_null() && found[1]["held"].is_null());
    let why = ": 3 inconclusive runs, limited by driver or machine, not the daemon: it began late → give it cores; then rerun with --fresh.";
    let page = fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    // The screen wraps its lines.
    let screen = shown(&output);
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [&screen, &page] {
        let held = format!("a: 200 held; 400{why}");
        let nothing = format!("b: no load held for certain; 100{why}");
        assert_contains(text, &[&held, &nothing]);
    }
    assert_contains(&page, &["400 is inconclusive: it began late"]);
}

#[test]
fn a_search_that_ends_at_its_first_level_has_its_answer_on_the_screen() {
    let project = project("'a/100' = 'late'");
    let output = project.run("--daemon a", 3);
    assert_eq!(project.log(), ["a/100/1", "a/100/2", "a/100/3"]);
    let answer = "  capacity  a: no load held for certain; 100: 3 inconclusive runs, ";
    assert_contains(&shown(&output), &[answer]);
}
