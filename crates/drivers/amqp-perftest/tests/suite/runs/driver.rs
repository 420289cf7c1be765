//! A driver that is stopped, or has no descriptors left.

use std::time::Duration;

use harness_testing::processes::{self, wait_until};
use harness_testing::program::{CompletedRun, Program};
use null_broker::{NullBroker, Script};

use super::program;
use crate::support;

/// Unpaced producers publish nothing while they are stopped: only the stall shows it.
#[test]
fn a_driver_that_was_stopped_has_stalled() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let running = program(&broker.uri())
        .call("--consumers 0 --confirms --duration 3s")
        .start();
    wait_until("the load is under way", || broker.taken() >= 100);
    processes::stop_for(&running.child, Duration::from_millis(300));
    let CompletedRun {
        code,
        result,
        stderr: said,
        ..
    } = running.end();
    result.adds_up();
    let stalls = &result["usage"]["disturbance"]["stalls"];
    let longest_ns = stalls["longest_ns"].as_u64();
    assert!(longest_ns > Some(250_000_000), "{stalls}");
    assert!(
        result.warned().contains(&"Stalled"),
        "{}",
        result["warnings"]
    );
    assert_eq!(code, 3, "{said}");
}

/// For a second, the program may open no file: each connection that it needs is a separate error.
#[test]
fn descriptors_that_run_out_are_no_failure_of_the_broker() {
    // The test is independent of the engine.
    if super::ENGINE != "wire" {
        return;
    }
    let broker = NullBroker::start(Script::default()).unwrap();
    let mut running = Program::new(support::PROGRAM)
        .call(&format!("--uri {} --churn connection", broker.uri()))
        .call("--producers 3 --duration 5s")
        // The lines are on stdout with the report for people.
        .call("--format json")
        .start();
    let mut said = running.lines();
    let mut a_second = || {
        let line = said.by_ref().map(Result::unwrap);
        let mut line = line.skip_while(|line| !line.contains("/s"));
        line.next().expect("it says what it does once a second")
    };
    a_second();
    processes::limit_open_files(running.child.id(), 3);
    a_second();
    a_second();
    processes::limit_open_files(running.child.id(), 1_024);
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let CompletedRun { code, result, .. } = running.end();
    result.adds_up();
    let errors = result["errors"].as_object().unwrap();
    let kinds: Vec<_> = errors.keys().collect();
    assert_eq!(kinds, ["descriptors"], "{rest:?}");
    assert!(result.warned().contains(&"DriverExhausted"), "{rest:?}");
    assert_eq!((code, &result["verdict"]), (3, &"INVALID".into()));
}
