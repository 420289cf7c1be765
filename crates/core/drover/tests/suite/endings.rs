//! Tests suites that end early, and their continuation.

use std::fs;
use std::process::Command;

use harness_testing::processes::wait_until;
use harness_testing::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Project, Started, assert_contains, ends_with, has_exited, interrupt, json, messages, shown,
};

const ONE: &str = "[suite]\ndaemons = ['a', 'b']\nlevels = [{ name = '5', set = {} }, { name = '10', set = {} }]\n";

fn hanging(what: &str) -> Project {
    Project::new(&format!("[driver]\ndo = {{ 'b/10' = '{what}' }}\n{ONE}"))
}

#[test]
fn an_interrupted_suite_goes_on_where_it_has_ended() {
    let project = hanging("hang");
    let (child, driver) = project.hang("--force");
    interrupt(&child);
    let output = child.end();
    ends_with(&output, 3);
    assert!(has_exited(driver));
    let folder = project.suite("tiny/b/10/1");
    assert!(folder.join("interrupted.json").is_file() && !folder.join("result.json").exists());
    assert_contains(&messages(&output), &["repeat the command to continue"]);
    let page = fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    assert!(shown(&output).contains("report.html") && page.contains('5'));
    assert!(project.record()["ended_at"].is_null());
    assert_eq!(project.log(), ["a/5/1", "b/5/1", "b/10/1"]);

    let output = project.run("", 0);
    assert_contains(&messages(&output), &["2 of 4 runs are complete"]);
    assert_eq!(project.log()[3..], ["b/10/1", "a/10/1"]);
    assert_eq!(project.suites(), 1);
    assert!(project.record()["ended_at"].is_string());
}

#[test]
fn another_day_or_a_result_that_is_not_whole_does_not_keep_a_suite_from_going_on() {
    let project = hanging("hang");
    let (child, _) = project.hang("--force");
    interrupt(&child);
    child.end();
    let today = project.suite("");
    let name = today.file_name().unwrap().to_str().unwrap().to_owned();
    let earlier = today.with_file_name(format!("2020-01-01{}", &name[10..]));
    fs::rename(&today, &earlier).unwrap();
    fs::write(earlier.join("tiny/a/5/1/result.json"), "{ \"schema\": 1").unwrap();
    let output = project.run("", 0);
    assert_contains(&messages(&output), &["1 of 4 runs are complete"]);
    assert_eq!(project.log()[3..], ["a/5/1", "b/10/1", "a/10/1"]);
    assert!(!today.exists());
}

#[test]
fn fresh_begins_anew_beside_what_was_begun() {
    let project = hanging("hang");
    let (child, _) = project.hang("--force");
    interrupt(&child);
    child.end();
    project.run("--fresh", 0);
    assert_eq!((project.log().len(), project.suites()), (7, 2));
}

#[test]
fn a_second_interrupt_ends_a_driver_that_hears_nothing() {
    let project = hanging("deaf");
    let (child, driver) = project.hang("--force");
    interrupt(&child);
    interrupt_again(&project, &child, driver);
    let output = child.end();
    ends_with(&output, 3);
    assert!(has_exited(driver));
    assert!(project.suite("tiny/report.md").is_file());
    project.run("", 0);
    assert_eq!(project.log().len(), 5);
}

/// Interrupts a suite again. Two equal signals in quick succession merge to one, so the first must have been passed on
/// to the driver.
fn interrupt_again(project: &Project, child: &Started, driver: Pid) {
    wait_until("the driver gets the first signal", || {
        project.path("heard").exists()
    });
    assert!(!has_exited(driver));
    interrupt(child);
}

#[test]
fn a_suite_that_is_killed_takes_its_driver_along_and_goes_on_later() {
    let project = hanging("hang");
    let (child, driver) = project.hang("--force");
    kill(child.pid, Signal::SIGKILL).unwrap();
    child.end();
    wait_until("the end of the driver", || has_exited(driver));
    let folder = project.suite("tiny/b/10/1");
    assert!(folder.join("result.json").is_file());
    project.run("", 0);
    assert_eq!(project.suites(), 1);
    let record = project.record();
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(
        project.log()[2..],
        ["b/10/1", "b/10/1", "a/10/1"],
        "what the driver had when it was cut short is no result"
    );
    assert!(folder.join("interrupted.json").is_file() && folder.join("result.json").is_file());
}

#[test]
fn a_second_suite_is_refused_with_the_pid_of_the_first() {
    let project = hanging("hang");
    let (child, _) = project.hang("");
    let refused = project.call("run configs/fake/tiny.toml --level 5 --no-wait", 2);
    assert_contains(
        &messages(&refused),
        &[
            "another drover run",
            "(pid ",
            "leave --no-wait out",
            "--force",
        ],
    );
    let same = project.run("", 2);
    assert_contains(&messages(&same), &["--fresh"]);
    project.run("--level 5", 0);
    interrupt(&child);
    ends_with(&child.end(), 3);
}

#[test]
fn a_full_disk_keeps_what_was_measured_and_says_so() {
    let project = Project::new(&format!("[driver]\n{ONE}"));
    let full = "mount -t tmpfs -o size=24k none full && \"$0\" run configs/fake/tiny.toml --force --out full; code=$?; find full -name result.json; exit $code";
    fs::create_dir(project.path("full")).unwrap();
    let may_mount = Command::new("unshare").args(["-m", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skip("the right to mount a file system");
    }
    let drover = env!("CARGO_BIN_EXE_drover");
    let mut command = project.drover("");
    let path: Vec<_> = command
        .get_envs()
        .map(|(key, value)| (key.to_owned(), value.map(ToOwned::to_owned)))
        .collect();
    command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", full])
        .arg(drover)
        .current_dir(project.path(""));
    for (key, value) in path {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let output = command.output().unwrap();
    ends_with(&output, 1);
    assert_contains(&messages(&output), &["No space left"]);
    assert_contains(&shown(&output), &["a/5/1/result.json"]);
}

/// Changes the result of the first run of a suite.
fn edit(project: &Project, change: impl FnOnce(&mut serde_json::Value)) {
    let path = project.suite("tiny/a/5/1/result.json");
    let mut result = json(&path);
    change(&mut result);
    fs::write(path, result.to_string()).unwrap();
}

#[test]
fn a_resumed_suite_exits_as_the_drivers_of_its_earlier_runs_did() {
    let project = hanging("hang");
    let (child, _) = project.hang("--force");
    interrupt(&child);
    child.end();
    // The suite ended before it could record the exit code of the driver, which follows from its result.
    let missed = serde_json::json!([{ "text": "rate > 10", "measured": "5.0/s", "met": false }]);
    edit(&project, |result| result["thresholds"] = missed);
    let mut record = project.record();
    record["runs"] = serde_json::json!([]);
    fs::write(project.suite("tiny/suite.json"), record.to_string()).unwrap();
    project.run("", 4);
    assert_eq!(project.log()[3..], ["b/10/1", "a/10/1"]);
}

#[test]
fn a_result_that_was_edited_is_named_and_measured_again() {
    let project = hanging("hang");
    let (child, _) = project.hang("--force");
    interrupt(&child);
    child.end();
    edit(&project, |result| result["operations"]["ok"] = 4.into());
    let folder = project.suite("tiny/a/5/1");
    let path = folder.join("result.json");
    let output = project
        .drover(&format!("report {}", path.to_str().unwrap()))
        .output();
    let output = output.unwrap();
    ends_with(&output, 2);
    let found = "edited or damaged: `operations.started` is 5, but 4";
    assert!(messages(&output).contains(found), "{}", messages(&output));
    let output = project.run("", 0);
    assert!(messages(&output).contains(found), "{}", messages(&output));
    assert_eq!(project.log()[3..], ["a/5/1", "b/10/1", "a/10/1"]);
    let edited = json(&folder.join("unreadable.json"));
    assert_eq!(edited["operations"]["ok"], 4);
}
