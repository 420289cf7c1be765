//! Options that shape how a run publishes, consumes and ends, with both engines against the null broker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

use amqp_perftest::null_broker::{NullBroker, Script};
use serde_json::Value;

const ENGINES: [&str; 2] = ["wire", "lapin"];

fn output(engine: &str, uri: &str, into: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("amqp-perftest"));
    command
        .args(["--engine", engine, "--uri", uri, "--quiet", "--into"])
        .arg(into.join("run"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs the program on a broker; its result, every operation accounted for.
fn run_on(uri: &str, engine: &str, arguments: &[&str]) -> Value {
    let out = tempfile::tempdir().unwrap();
    let output = output(engine, uri, out.path(), arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    // 3: this machine is busy, or messages were left.
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 3)),
        "{engine} {arguments:?} {code:?}: {said}"
    );
    let text = std::fs::read_to_string(out.path().join("run/result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let of = |name: &str| result["operations"][name].as_u64().unwrap();
    let ended = of("ok") + of("failed") + of("unfinished");
    assert_eq!(of("started"), ended, "{engine} {}", result["operations"]);
    result
}

/// The same on a fresh null broker.
fn run(engine: &str, arguments: &[&str]) -> Value {
    let broker = NullBroker::start(Script::default()).unwrap();
    run_on(&broker.uri(), engine, arguments)
}

fn count(result: &Value, name: &str) -> u64 {
    result["counts"][name].as_u64().unwrap_or(0)
}

/// What is refused before anything starts, with field and remedy.
fn refused(arguments: &[&str], names: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    let output = output("auto", "amqp://127.0.0.1:1/", out.path(), arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    for name in names {
        assert!(
            said.contains(name),
            "{arguments:?} should name `{name}`: {said}"
        );
    }
}

#[test]
fn consumers_that_ask_get_every_message_once() {
    for engine in ENGINES {
        for acks in [
            &["--auto-ack"][..],
            &["--multi-ack-every", "7", "--confirms"],
            &["--consumer-latency", "1ms", "--threads", "2"],
        ] {
            let load = ["--polling", "--pmessages", "150", "--producers", "2"];
            let result = run(engine, &[&load, acks].concat());
            let figures = ["consumed", "lost", "duplicated"].map(|name| count(&result, name));
            assert_eq!(figures, [300, 0, 0], "{engine} {acks:?}");
        }
    }
}

#[test]
fn questions_keep_their_interval_and_those_without_a_message_are_counted() {
    for engine in ENGINES {
        let load = ["--rate", "20", "--duration", "1s"];
        let polling = ["--polling", "--polling-interval", "10ms"];
        let result = run(engine, &[&load[..], &polling].concat());
        let (consumed, empty) = (count(&result, "consumed"), count(&result, "empty_gets"));
        assert_eq!(consumed, 20, "{engine}");
        // One each 10 ms of the second that is measured, of which 20 found something.
        assert!((10..=81).contains(&empty), "{engine}: {empty}");
    }
}

#[test]
fn a_way_to_consume_that_cannot_be_is_refused() {
    refused(
        &["--polling-interval", "1s"],
        &["--polling-interval", "add polling"],
    );
    refused(
        &["--polling", "--prefetch", "10"],
        &["--prefetch", "asked for"],
    );
    refused(&["--polling", "--stream-queue"], &["--polling", "stream"]);
    refused(&["--polling", "--churn", "queue"], &["--polling", "churn"]);
}
