//! Each scenario on a server that tells the truth, and on the daemons.

use std::path::Path;

use harness_testing::processes::{limit_open_files, send};
use harness_testing::program::{CompletedRun, Program};
use harness_testing::skip;
use nix::sys::signal::Signal;

use crate::server::{Server, call};

/// Each scenario, with its agents and the operations of each. Polling agents go on for a time.
const SCENARIOS: [(&str, u64, u64); 7] = [
    ("concurrent-agents", 8, 100),
    ("batch-operations", 4, 50),
    ("mixed-operations", 6, 50),
    ("timeouts", 4, 25),
    ("leaving-clients", 4, 25),
    ("unique-ids", 10, 100),
    (POLLING, 1, 1),
];
const POLLING: &str = "polling-agents";

/// Counters that are 0 if no answer contradicts the database.
pub(crate) const CONTRADICTIONS: [(&str, u64); 10] = [
    ("lost", 0),
    ("phantom", 0),
    ("duplicated", 0),
    ("duplicate_ids", 0),
    ("partial_batches", 0),
    ("wrong_counts", 0),
    ("not_linearizable", 0),
    ("altered", 0),
    ("foreign_listed", 0),
    ("unlisted", 0),
];

#[track_caller]
fn is_right(run: &CompletedRun, scenario: &str, least: u64) {
    let result = &run.result;
    result.counts(&CONTRADICTIONS);
    assert_eq!(
        result.error_kinds(),
        <[&str; 0]>::default(),
        "{scenario}: {}",
        run.stdout
    );
    assert!(
        result.operations("ok") >= least,
        "{scenario}: {}",
        run.stdout
    );
    result.adds_up();
}

#[test]
fn descriptors_that_run_out_are_no_failure_of_the_daemon() {
    let server = Server::start(None);
    // Each operation has a connection of its own.
    let arguments = "--scenario leaving-clients --duration 600s";
    let running = call(&server.socket(), arguments).start();
    running.wait_for("ok", 1);
    limit_open_files(running.child.id(), 3);
    running.wait_for("failed", 1);
    limit_open_files(running.child.id(), 1_024);
    send(&running.child, Signal::SIGTERM);
    let run = running.end();
    run.result.counts(&CONTRADICTIONS);
    assert_eq!(run.result.error_kinds(), ["descriptors"], "{}", run.stderr);
    assert!(
        run.result.warned().contains(&"DriverExhausted"),
        "{}",
        run.stderr
    );
    assert_eq!((run.code, &run.result["verdict"]), (3, &"INVALID".into()));
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for (scenario, agents, ops) in SCENARIOS {
        let server = Server::start(None);
        let more = match scenario {
            POLLING => "--duration 1s --batch-size 100",
            _ => "",
        };
        let call = call(&server.socket(), &format!("--scenario {scenario} {more}"));
        let run = call.run();
        is_right(&run, scenario, agents * ops);
    }
}

/// Runs the scenarios on a daemon that the driver launches, with a part of their operations. A debug build of the driver
/// would make a release build of the daemon, which the scenarios do not need: nothing is timed.
fn on_daemon(name: &str, part: u64) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    if let Err(missing) = subject::daemon::Daemon::check_tools(&root, name) {
        return skip(missing);
    }
    for (scenario, agents, ops) in SCENARIOS {
        let ops = ops.div_ceil(part);
        let length = match scenario {
            POLLING => "--duration 2s".to_owned(),
            _ => format!("--ops {ops}"),
        };
        let call = format!("--daemon {name} --scenario {scenario} {length}");
        let program = Program::new(env!("CARGO_BIN_EXE_issue-stress"));
        is_right(&program.call(&call).run(), scenario, agents * ops);
    }
}

#[test]
fn the_daemon_keeps_its_promises_in_all_scenarios() {
    on_daemon("issue-daemon", 1);
}

#[test]
fn so_do_processes_without_a_daemon() {
    // Each operation is a process, which takes far longer.
    on_daemon("issue-direct", 10);
}

#[test]
fn an_open_loop_with_preloaded_issues_is_as_right() {
    let server = Server::start(None);
    let arguments = "--rate 200 --duration 1s --preload 1500 --preload-dependencies 2";
    let run = call(&server.socket(), arguments).run();
    is_right(&run, "open loop", 1);
    let [started, missed] = ["started", "missed"].map(|name| run.result.operations(name));
    assert_eq!(started + missed, 200);
}
