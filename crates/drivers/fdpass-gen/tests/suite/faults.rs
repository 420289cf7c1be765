//! Killed and paused daemons, several daemons side by side, and thresholds.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use harness_testing::assert_contains;
use harness_testing::processes::wait_until;
use harness_testing::program::{ended_with, words};
use harness_testing::result::live_seconds;
use measure::result::RunResult;
use measure::warning::Kind;
use nix::sys::socket::SockType;

use crate::target::{self, Target, right};
use crate::{drive, faulty};

/// Runs a plan on the embedded daemon.
fn launched(plan: &str, arguments: &str) -> (Output, RunResult, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (file, json) = (
        folder.path().join("plan.toml"),
        folder.path().join("output.json"),
    );
    std::fs::write(&file, plan).unwrap();
    let mut program = drive::program(folder.path());
    program
        .current_dir(drive::root())
        .arg("--plan")
        .arg(&file)
        .arg("--output")
        .arg(&json);
    let output = program.args(words(arguments)).output().unwrap();
    let text = std::fs::read_to_string(&json)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let keys: serde_json::Value = serde_json::from_str(&text).unwrap();
    let result = serde_json::from_value(keys["result"].clone()).unwrap();
    (output, result, folder)
}

/// Returns a plan with an open loop of short streams.
fn plan(rate: u32, seconds: u32, rest: &str, driver: &str) -> String {
    format!(
        "name = 'test'\ndaemon = 'rust-streaming'\n[timeline]\nmeasure = '{seconds}s'\ndrain = '20s'\n\
         [[groups]]\nname = 'open'\nrate = {rate}.0\n{rest}\n[driver]\n{driver}\n"
    )
}

fn has(result: &RunResult, kind: Kind) -> bool {
    result.warnings.iter().any(|warning| warning.kind == kind)
}

fn fault(signal: &str, at: &str, back_after: &str) -> String {
    format!("[[faults]]\nat = '{at}'\nsignal = '{signal}'\nback_after = '{back_after}'")
}

/// Checks that the daemon's scratch directory, which holds its socket, was removed.
fn nothing_is_left(result: &RunResult) {
    for socket in result.daemon.target.split(", ") {
        let scratch = Path::new(socket).parent().unwrap();
        assert!(scratch.starts_with("/tmp") && !scratch.exists(), "{socket}");
    }
}

#[test]
fn a_fault_that_comes_after_the_last_stream_is_reported() {
    let plan = "name = 'test'\ndaemon = 'rust-streaming'\n[timeline]\nmeasure = '1h'\ndrain = '20s'\n\
                [[groups]]\nname = 'few'\nclients = 5\nops = 1\n[[faults]]\nat = '50m'\nsignal = 'KILL'\nback_after = '1s'\n[driver]\n";
    let (_, result, _folder) = launched(plan, "--quiet");
    assert_eq!((result.operations.ok, result.faults.len()), (5, 0));
    let warnings = &result.warnings;
    let mut reported = warnings.iter();
    let reported = reported.find(|warning| warning.kind == Kind::FaultsNotInjected);
    let reported = reported.unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(reported.message.contains("KILL"), "{}", reported.message);
}

#[test]
fn a_daemon_killed_on_purpose_comes_back_and_every_stream_is_accounted_for() {
    for signal in ["KILL", "TERM"] {
        let fault = fault(signal, "2s", "500ms");
        // Streams of 400 ms, 80 of them open; pauses of up to 5 s in all.
        let driver = "messages = 5\nmessage_delay = '100ms'\nretries = 9";
        let (output, result, _folder) = launched(&plan(200, 6, &fault, driver), "--quiet");
        let operations = &result.operations;
        // On a busy machine the last may fail.
        let due = operations.started + operations.missed;
        assert_eq!(due, 1_200, "{signal}: {operations:?}");
        assert!(operations.add_up(), "{operations:?}");
        let lost = result.errors.get("lost").copied().unwrap_or(0);
        assert_eq!(operations.failed, lost, "{signal}: {:?}", result.errors);
        // A killed daemon loses its open streams; a terminated one finishes them first.
        assert_eq!(lost > 40, signal == "KILL", "{signal}: {lost}");
        assert!(result.count("retries") > 50, "{:?}", result.counts);
        assert_eq!(result.faults.len(), 1);
        let fault = &result.faults[0];
        let back_s = fault.back_s.expect("it came back");
        // Not too early; a busy machine may be late.
        assert!(fault.at_s >= 2.0 && back_s >= fault.at_s + 0.5, "{fault:?}");
        assert!(
            !has(&result, Kind::DaemonDied) && !has(&result, Kind::CountsDisagree),
            "{:?}",
            result.warnings
        );
        let last = result.resources.last().unwrap();
        assert!(
            last.daemon.is_some_and(|cost| cost.rss_kb > 0),
            "the new process is looked at"
        );
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "what was asked for fails no run: {:?}",
            output.status
        );
        nothing_is_left(&result);
    }
}

/// A shell script with which the second of two daemons starts only once.
const ONCE: &str = "if [ -e {scratch}/was ] && [ -e {scratch}/second ]; then exec sleep 60; fi; touch {scratch}/was; \
    rm -f {socket}; mkdir {root}/one 2>/dev/null || touch {scratch}/second; \
    exec \"$0\" --exact is_the_daemon_where_it_was_launched_as_one --nocapture";

#[test]
fn a_daemon_that_never_comes_back_ends_the_run_and_is_named() {
    let program = std::env::current_exe().unwrap();
    let root = faulty::project_with(&format!(
        "about = 'starts once'\nserves = ['fdpass']\nrun = ['sh', '-c', '{ONCE}', '{}']\n\
         ready = {{ unix = '{{socket}}', timeout = '1s' }}\n\
         env = {{ FAULT = 'None', DAEMON_SOCKET_PATH = '{{socket}}', DAEMON_MESSAGE_DELAY = '0ms' }}\n",
        program.display()
    ));
    let fault = fault("KILL", "1s", "100ms");
    let rest = "daemon_env = { DAEMON_MESSAGE_DELAY = '0ms' }\ninstances = 2\n";
    let text = plan(20, 120, &fault, "messages = 1\nmessage_delay = '0s'");
    let text = text.replace("rust-streaming", "faulty");
    std::fs::write(root.path().join("plan.toml"), format!("{rest}{text}")).unwrap();
    let call = "--plan plan.toml --quiet --output output.json";
    let (code, _, said) = faulty::ended(faulty::program(root.path(), call));
    assert_eq!(code, Some(1), "{said}");
    let text = std::fs::read_to_string(root.path().join("output.json")).unwrap();
    let keys: serde_json::Value = serde_json::from_str(&text).unwrap();
    let result: RunResult = serde_json::from_value(keys["result"].clone()).unwrap();
    let mut reported = result.warnings.iter();
    let reported = reported.find(|warning| warning.kind == Kind::DaemonDied);
    let reported = &reported.expect("it is reported").message;
    assert_contains(reported, &["instance 2 of 2 took no connections within 1s"]);
    assert_eq!(result.faults[0].back_s, None);
    // Long before the planned end, and ten times what it takes.
    assert!(result.wall_s < 60.0, "the run ends: {}", result.wall_s);
}

/// Returns how many responses took between `from` and `to` ms.
fn between(result: &RunResult, from: u64, to: u64) -> u64 {
    let values = result
        .series("first_event")
        .unwrap()
        .distribution()
        .unwrap();
    values
        .histogram()
        .count_between(from * 1_000_000, to * 1_000_000 - 1)
}

/// Runs alone, because it measures.
mod calibration {
    use super::*;

    /// At 40 per second a stop of 500 ms delays 20 starts, the first by all of it, the last by almost nothing: 4 for each
    /// 100 ms. Then the daemon must catch up, which takes little time at so low a rate, also on a busy machine. If
    /// lateness is hidden, there are none at all.
    #[test]
    fn a_stop_of_half_a_second_delays_as_many_as_were_due_evenly() {
        let fault = fault("STOP", "2s", "500ms");
        let driver = "messages = 1\nmessage_delay = '0s'\nretries = 9";
        let (_, result, _folder) = launched(&plan(40, 4, &fault, driver), "--quiet");
        let operations = &result.operations;
        assert_eq!(operations.ok, operations.started);
        assert_eq!(operations.started + operations.missed, 160);
        assert!(!has(&result, Kind::CountsDisagree) && !has(&result, Kind::DaemonDied));
        let late = [100, 200, 300, 400].map(|from| between(&result, from, from + 100));
        assert!(late.iter().all(|late| (2..=8).contains(late)), "{late:?}");
    }
}

/// Returns a plan for 30 streams on three daemons.
fn on_three(limit: u32, messages: u32, delay: &str) -> String {
    format!(
        "name = 'test'\ndaemon = 'rust-streaming'\ninstances = 3\ndaemon_env = {{ DAEMON_MAX_CONNECTIONS = '{limit}' }}\n\
         [timeline]\nmeasure = '10s'\ndrain = '20s'\n[[groups]]\nname = 'fixed'\nclients = 30\nops = 1\n\
         [driver]\nmessages = {messages}\nmessage_delay = '{delay}'\n"
    )
}

#[test]
fn several_instances_share_the_load_evenly_whoever_drives_them() {
    for processes in ["1", "2"] {
        // Ten per daemon is the limit: an eleventh would be refused.
        let plan = on_three(10, 3, "700ms");
        let (_, result, folder) = launched(&plan, &format!("--quiet --processes {processes}"));
        assert_eq!(
            (result.operations.ok, &result.errors),
            (30, &[].into()),
            "{processes}"
        );
        assert_eq!(result.daemon.instances, 3);
        assert!(
            !has(&result, Kind::CountsDisagree),
            "the daemons' handoffs are summed: {:?}",
            result.warnings
        );
        let daemon = result.usage.daemon.as_ref().unwrap();
        assert_eq!(daemon.processes_peak, 3);
        // All may be seen before the first is accepted.
        assert!(daemon.backlog_peak.is_some_and(|most| most <= 30));
        nothing_is_left(&result);
        let mut logs = Vec::new();
        names(folder.path(), &mut logs);
        for log in ["daemon.log", "daemon-2.log", "daemon-3.log"] {
            assert!(logs.iter().any(|name| name == log), "{log}: {logs:?}");
        }
    }
}

#[test]
fn open_streams_of_several_instances_are_summed() {
    let plan = on_three(20, 400, "20ms");
    let (_, result, _) = launched(&plan, "--quiet");
    assert_eq!(result.operations.ok, 30, "{:?}", result.errors);
    // The clients of the check leave before the end of their streams, which each daemon notices at its next record.
    let peak = result.peak_of_daemon().unwrap();
    assert!((30.0..=33.0).contains(&peak), "{peak}");
    let mut looks = result.resources.iter();
    assert!(
        looks.any(|look| look.active == Some(30.0)),
        "{:?}",
        result.resources
    );
}

fn names(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        into.push(entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            names(&entry.path(), into);
        }
    }
}

#[test]
fn the_accept_queue_of_a_daemon_that_runs_already_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().to_owned();
    let target = Target::start(SockType::SeqPacket, move |handoff| {
        // Nothing is accepted until the driver has seen the queue.
        if handoff == 5 {
            wait_until("two more seconds after 40 streams have started", || {
                let seconds = live_seconds(&results);
                let started = seconds.iter().map(|second| second["started"].as_u64());
                // It looks at the queue once in each of its seconds.
                started.filter(|started| *started >= Some(40)).count() > 2
            });
        }
        right(1)
    });
    let load = "--rate 40 --ramp-up 0s --hold 4s --quiet --threshold 'backlog.peak > 20'";
    let (_, json) = drive::drive(folder.path(), target.path(), load);
    assert_eq!(
        json["result"]["thresholds"][0]["met"], true,
        "{}",
        json["result"]["resources"]
    );
}

#[test]
fn a_threshold_that_is_missed_is_an_exit_code_of_its_own_and_stands_in_the_report() {
    let driver = "messages = 1\nmessage_delay = '0s'";
    let thresholds = "--threshold 'first_event.p99 <= 1ns' --threshold 'errors == 0'";
    let (output, result, _folder) = launched(&plan(100, 1, "", driver), thresholds);
    assert_eq!(output.status.code(), Some(4));
    let met: Vec<bool> = result
        .thresholds
        .iter()
        .map(|threshold| threshold.met)
        .collect();
    assert_eq!(met, [false, true], "{:?}", result.thresholds);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_contains(&shown, &["\n  missed    first_event.p99 <= 1ns ("]);
}

/// Returns the exit code of a run in which one stream in twenty is refused.
fn with_one_refused(threshold: &str) -> i32 {
    let target = Target::start(SockType::SeqPacket, |handoff| {
        let refused = vec![target::close(Duration::ZERO)];
        if handoff == 3 { refused } else { right(1) }
    });
    let arguments = format!("--connections 20 --ramp-up 100ms --quiet --threshold '{threshold}'");
    let (output, json) = drive::drive(target.folder(), target.path(), &arguments);
    assert_eq!(json["result"]["errors"]["rejected"], 1);
    target.stop();
    output.status.code().unwrap()
}

#[test]
fn errors_that_a_threshold_allows_fail_no_run() {
    assert!(matches!(with_one_refused("errors.rate <= 5%"), 0 | 3));
    assert_eq!(with_one_refused("errors.rate <= 4%"), 4);
    assert!(matches!(with_one_refused("errors.rejected <= 1"), 0 | 3));
    assert_eq!(
        with_one_refused("errors.lost == 0"),
        1,
        "it says nothing of those that were refused"
    );
    assert_eq!(
        with_one_refused("peak >= 1"),
        1,
        "it says nothing of errors"
    );
}

#[test]
fn wrong_faults_instances_and_figures_are_refused_before_the_run() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let plan_file = target.folder().join("plan.toml");
    let stop = fault("STOP", "500ms", "100ms");
    std::fs::write(&plan_file, plan(10, 1, &stop, "messages = 1")).unwrap();
    let late = fault("STOP", "5s", "100ms");
    let late_file = target.folder().join("late.toml");
    std::fs::write(&late_file, plan(10, 1, &late, "messages = 1")).unwrap();
    let overflowing = fault("STOP", "500ms", "18446744073709551615s");
    let overflowing_file = target.folder().join("overflowing.toml");
    std::fs::write(&overflowing_file, plan(10, 1, &overflowing, "messages = 1")).unwrap();
    let files = [&plan_file, &late_file, &overflowing_file].map(|file| file.display());
    for (arguments, parts) in [
        ("--instances 2", ["instances", "--socket"]),
        ("--instances 0", ["instances", "between 1 and"]),
        (&*format!("--plan {}", files[0]), ["faults", "--socket"]),
        (
            &*format!("--plan {}", files[1]),
            ["faults[0].at", "earlier"],
        ),
        (
            &*format!("--plan {}", files[2]),
            ["faults[0].back_after", "shorten"],
        ),
        (
            "--threshold 'first_bite.p99 <= 1ms'",
            ["did you mean `first_byte.p99`?", "thresholds[0]"],
        ),
        (
            "--threshold 'errors.rejcted == 0'",
            ["`rejcted`", "did you mean `rejected`?"],
        ),
        (
            "--threshold 'first_byte.p99 <= 1'",
            ["50ms", "first_byte.p99"],
        ),
    ] {
        let mut program = drive::on(&target);
        let output = program.args(words(arguments)).output().unwrap();
        ended_with(&output, 2, &parts, &arguments);
    }
    assert_eq!(target.stop(), 0, "nothing was handed over");
}
