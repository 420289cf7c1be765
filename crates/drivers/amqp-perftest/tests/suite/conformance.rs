//! The conformance cases: RabbitMQ and our broker pass them all, and a broker with one wrong answer fails the
//! corresponding case.

use std::process::{Command, Output};

use harness_testing::daemons::prepared;
use harness_testing::processes::wait_until;
use harness_testing::program::{ended_with, words};
use harness_testing::{peer, rows, skip};
use serde_json::Value;
use subject::daemon::{Options, Stopped};
use tokio::runtime::Runtime;

use crate::support::PROGRAM;

/// Runs the program. Returns its exit code, its output, and its notes.
fn conformance(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(PROGRAM);
    let Output {
        status,
        stdout,
        stderr,
    } = command.arg("conformance").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn passes_every_case(daemon: &str) {
    let (code, json, said) = conformance(&["--daemon", daemon, "--format", "json"]);
    if code == Some(2) && said.contains("needs") {
        return skip(format_args!("{daemon}: {said}"));
    }
    let report: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{said}"));
    let cases = report["cases"].as_array().unwrap();
    let failed: Vec<String> = cases
        .iter()
        .filter(|case| case["outcome"] != "passed")
        .map(|case| format!("{}: {}", case["name"], case["detail"]))
        .collect();
    let all = cases.len();
    assert!(failed.is_empty(), "of {all}:\n{}", failed.join("\n"));
    assert_eq!(code, Some(0), "{said}");
    assert!(all > 500, "only {all} cases");
}

#[test]
fn rabbitmq_passes_every_case() {
    passes_every_case("rabbitmq");
}

#[test]
fn our_broker_passes_every_case() {
    passes_every_case("broker-daemon");
}

/// Returns the remaining processes of a RabbitMQ node: each inherits the node's settings, whatever process group it is
/// in.
fn processes_on(port: u16) -> Vec<String> {
    let setting = format!("RABBITMQ_NODE_PORT={port}");
    let has_it = |environment: Vec<u8>| {
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == setting.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| std::fs::read(entry.path().join("environ")).is_ok_and(has_it))
        .map(|entry| std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default())
        .collect()
}

#[test]
fn two_rabbitmqs_run_side_by_side_and_leave_no_process_behind() {
    let Some(rabbitmq) = prepared("rabbitmq", "amqp") else {
        return;
    };
    assert!(rabbitmq.version().unwrap().starts_with("RabbitMQ 3."));
    let runtime = runtime();
    let options = Options::default();
    let (first, second) = runtime.block_on(async {
        tokio::join!(rabbitmq.start(&[], &options), rabbitmq.start(&[], &options))
    });
    let (mut first, second) = (first.unwrap(), second.unwrap());
    let ports = [&first, &second].map(|daemon| daemon.endpoint().port.unwrap());
    for port in ports {
        let running = processes_on(port);
        for name in ["beam.smp\n", "epmd\n"] {
            assert!(running.iter().any(|comm| comm == name), "{running:?}");
        }
    }
    let stopped = runtime.block_on(first.stop());
    assert_eq!((stopped.how, stopped.left), (Stopped::Terminated, 0));
    assert_eq!(stopped.status, "exited with status 0");
    // The other node is killed.
    drop(second);
    for port in ports {
        wait_until("the last process ends", || processes_on(port).is_empty());
    }
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// A row has a case, bytes of the broker, others to send instead, and words of the expected failure. A method begins with
/// its two ids; in `basic.get-ok`, the tag and whether the message is redelivered follow.
const WRONG: &str = r#"
    queue.declare: passive of a missing one is 404 => \0\x14\0\x28\x01\x94 -> \0\x14\0\x28\x01\x95 … 405
    connection.open: an unknown vhost is 530 => \0\x0a\0\x32\x02\x12 -> \0\x0a\0\x32\x01\xf8 … expected 530
    basic.return: mandatory and unroutable is 312 => \0\x3c\0\x32\x01\x38 -> \0\x3c\0\x32\x01\x39 … 313
    basic.reject: with requeue it is the first again, redelivered => \0\x3c\0\x47\0\0\0\0\0\0\0\x02\x01 -> \0\x3c\0\x47\0\0\0\0\0\0\0\x02\0 … false
    basic.get: says what is left, and counts its tags => \0\x3c\0\x47\0\0\0\0\0\0\0\x02 -> \0\x3c\0\x47\0\0\0\0\0\0\0\x03 … `get Q b delivery-tag=2 message-count=1`: delivery-tag: 3, expected 2
    content: all 256 bytes => \x06\x07\x08 -> \x06\x06\x08 … the body
    properties: priority => \x08\0\xff -> \x08\0\x03 … the properties
    queue.purge: counts what it removes => \0\x32\0\x1f\0\0\0\x03 -> \0\x32\0\x1f\0\0\0\x02 … `queue.purge Q = 3`: message-count: 2, expected 3
    connection.start: capability basic.nack => basic.nack -> basic.wack … None, expected
    confirm: tags count from 1 after confirm.select => \0\x3c\0\x50\0\0\0\0\0\0\0\x02 -> \0\x3c\0\x50\0\0\0\0\0\0\0\x01 … 1, expected 2
"#;

/// Returns the URI of a proxy to the broker at this port.
fn proxy(port: u16, from: &str, to: &str) -> String {
    format!("amqp://{}", peer::proxy(port, from, to))
}

#[test]
fn one_wrong_answer_fails_the_case_about_it_and_the_right_one_does_not() {
    let daemon = prepared("broker-daemon", "amqp").unwrap();
    let runtime = runtime();
    let daemon = runtime
        .block_on(daemon.start(&[], &Options::default()))
        .unwrap();
    let port = daemon.endpoint().port.unwrap();
    for (case, parts) in rows(WRONG) {
        let (from, to) = parts[0].split_once(" -> ").unwrap();
        let right = proxy(port, from, from);
        let (code, tap, said) = conformance(&["--uri", &right, "--only", case]);
        assert_eq!(code, Some(0), "{tap}{said}");
        assert!(tap.contains(&format!("\nok 1 - {case}")), "{tap}");
        let wrong = proxy(port, from, to);
        let (code, tap, said) = conformance(&["--uri", &wrong, "--only", case]);
        assert_eq!(code, Some(1), "{tap}{said}");
        assert!(tap.contains(&format!("\nnot ok 1 - {case}")), "{tap}");
        assert!(tap.contains(parts[1]), "{} is not in:\n{tap}", parts[1]);
    }
}

#[test]
fn a_broker_that_hangs_up_or_is_not_there_fails_every_case() {
    let mute = proxy(1, "a", "a");
    for uri in [mute, "amqp://127.0.0.1:1".to_owned()] {
        let (code, tap, said) = conformance(&[&uri, "--only", "tx.commit"]);
        assert_eq!(code, Some(1), "{tap}{said}");
        assert!(!tap.contains("\nok "), "{tap}");
    }
}

#[test]
fn a_call_that_cannot_be_right_is_refused_with_option_and_remedy() {
    for (call, parts) in rows(
        "
            => --daemon
            --daemon nonesuch => nonesuch … known daemons … rabbitmq
            --daemon rabbitmq --uri amqp://127.0.0.1 => --uri
            --daemon rabbitmq amqp://127.0.0.1 => --daemon
            amqp://127.0.0.1 --uri amqp://127.0.0.1 => --uri … one broker
            --uri 127.0.0.1:5672 => --uri … amqp://localhost:5672/
            --uri amqp://127.0.0.1 --only xyz => --only xyz … tx.commit
            --uri amqp://127.0.0.1 --format xml => --format … tap … json
        ",
    ) {
        let mut command = Command::new(PROGRAM);
        command.arg("conformance").args(words(call));
        let output = command.output().unwrap();
        ended_with(&output, 2, &parts, &command);
        assert!(output.stdout.is_empty(), "{call}");
    }
}
