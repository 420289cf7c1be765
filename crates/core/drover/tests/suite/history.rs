//! `drover history`, and what Apache Otava finds in its files.

use std::process::Command;

use harness_testing::program::words;
use harness_testing::skip;
use serde_json::Value;

use crate::support::{Project, assert_contains, json, messages, shown};

/// Runs of a history, one a day.
const RUNS: usize = 24;
/// The run from which on the daemon `a` has more memory.
const CHANGED: usize = 12;

/// Returns memory that varies by some percent, without a trend.
fn noise(run: usize) -> usize {
    10_000 + [0, 170, 60, 230, 110, 20, 190][run % 7]
}

/// Creates a project with results of the daemons `a`, which changes, and `b`, which does not.
fn histories() -> Project {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a', 'b']\n");
    project.run("", 0);
    for daemon in ["a", "b"] {
        let mut result = json(&project.suite("tiny").join(daemon).join("5/1/result.json"));
        for run in 0..RUNS {
            let changed = daemon == "a" && run >= CHANGED;
            let memory = noise(run) * if changed { 12 } else { 10 } / 10;
            result["started_at"] = format!("2026-01-{:02}T12:00:00Z", run + 1).into();
            result["plan"]["name"] = "tiny".into();
            result["run_id"] = format!("{daemon}-{run}").into();
            result["machine"]["git_commit"] = format!("{run:08}").into();
            result["usage"]["daemon"]["rss_peak_kb"] = memory.into();
            let file = format!("history/{daemon}/{run}/result.json");
            project.file(&file, &result.to_string());
        }
    }
    project
}

#[test]
fn a_history_shows_the_course_of_each_metric_and_counts_what_it_leaves_out() {
    let project = histories();
    let mut invalid = json(&project.path("history/a/0/result.json"));
    invalid["verdict"] = "INVALID".into();
    let warning = serde_json::json!({ "kind": "GeneratorLate", "severity": "invalid", "message": "late", "hint": "" });
    invalid["warnings"] = Value::Array(vec![warning]);
    project.file("history/a/x/result.json", &invalid.to_string());
    let output = project.call("history history", 0);
    let text = shown(&output);
    assert_contains(
        &text,
        &[
            "tiny: a at 5, 24 runs, 2026-01-01 to 2026-01-24, on ",
            "tiny: b at 5, 24 runs",
            "TTFB p50",
            "9.77 MiB → 11.8 MiB (lowest 9.77 MiB, highest 12.0 MiB)",
            "--out-csv DIR",
        ],
    );
    assert_contains(&messages(&output), &["Runs that are left out: 1 INVALID."]);
    let mut without = json(&project.path("history/b/0/result.json"));
    without["usage"]["daemon"] = Value::Null;
    project.file("part/1/result.json", &without.to_string());
    let with = json(&project.path("history/b/1/result.json"));
    project.file("part/2/result.json", &with.to_string());
    let part = project.call("history part", 0);
    assert_contains(
        &shown(&part),
        &[
            "  TTFB p50  ▁▁",
            "  not measured in all runs: peak memory, CPU time",
        ],
    );
    let output = project.call("history part --metric daemon.rss.peak", 0);
    assert_contains(&shown(&output), &["tiny: b at 5, 1 run, 2026-01-02 to"]);
    assert_contains(&messages(&output), &["left out: 1 without the metrics"]);
    let one = project.call("history history/b --metric errors", 0);
    assert_contains(&shown(&one), &["  errors  ▁▁▁"]);
    let wrong = project.call("history history --metric daemon.rss.peek", 2);
    assert_contains(
        &messages(&wrong),
        &["--metric: unknown figure `daemon.rss.peek`: did you mean `daemon.rss.peak`?"],
    );
}

/// Returns the change points that Otava finds in a history, each with the run at which it is.
fn change_points(project: &Project, folder: &str) -> Vec<Value> {
    let config = project.path(folder).join("otava.yaml");
    let tests = json(&config)["tests"].as_object().unwrap().clone();
    let [name] = tests.keys().collect::<Vec<_>>()[..] else {
        panic!("one history: {tests:?}");
    };
    let mut otava = Command::new("otava");
    otava.args(words("analyze drover --output json --since 2026-01-01"));
    let output = otava.arg("--config-file").arg(&config).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    found[name].as_array().unwrap().clone()
}

/// The change is planted, and found by the real Otava.
#[test]
fn otava_finds_the_run_at_which_a_daemon_changed_and_nothing_in_a_flat_history() {
    if Command::new("otava").arg("--help").output().is_err() {
        return skip("otava: scripts/setup installs it");
    }
    let project = histories();
    for daemon in ["a", "b"] {
        let folder = format!("history/{daemon}");
        let metric = "daemon.rss.peak";
        let call = format!("history {folder} --out-csv {daemon} --metric {metric}");
        let output = project.call(&call, 0);
        assert_contains(&shown(&output), &["otava analyze drover --config-file "]);
    }
    let found = change_points(&project, "a");
    let [change] = &found[..] else {
        panic!("{found:?}");
    };
    let commit = format!("{CHANGED:08}");
    assert_eq!(change["attributes"]["commit"], commit.as_str(), "{change}");
    assert_eq!(change_points(&project, "b"), [] as [Value; 0]);
}
