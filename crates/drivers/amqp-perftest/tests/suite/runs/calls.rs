//! Calls that are refused, and what a right one prints.

use std::path::Path;
use std::process::Command;

use amqp_perftest::settings::Settings;
use harness_testing::assert_contains;
use null_broker::{Fault, NullBroker, Script};

use super::program;
use crate::support;

#[test]
fn a_call_that_cannot_be_right_is_refused_with_field_and_remedy() {
    support::refused(
        super::ENGINE,
        "
            --set driver.size=27 => --size … 28 bytes
            --multi-ack-every 5 => --multi-ack-every … --prefetch
            --prefetch 9 --multi-ack-every 5 --auto-ack => --multi-ack-every … auto_ack
            --consumer-latency 1s --auto-ack => --consumer-latency … auto_ack
            --multi-ack-every 0 => --multi-ack-every
            --confirm 0 => --confirm … at least 1
            --rate -3 => rate
            --producers 0 --consumers 0 => groups
            --nack 1.5 => --nack … between 0 and 1
            --queue '' => --queue
            --queue-pattern q --queue-pattern-to 3 => --queue-pattern … %d
            --body /nowhere/body => --body … /nowhere/body
            --variable-size 100 => BYTES:SECONDS
            --variable-rate 9 => RATE:SECONDS
            --variable-rate 9:1 --rate 3 => --variable-rate … --rate
            --message-properties priority=300 => priority must be 0 to 255
            --churn queue --confirms => --confirm … churn
            --churn queue --predeclared => --predeclared … binding
            --churn queue --consumers 2 => --churn … --consumers
            --churn channel --producers 5000 => --producers … 1 to 1,000
            --stream-queue --auto-ack => queue_type … acknowledgements
            --consumers 1 => --uri amqp://127.0.0.1:1/ … no process listens
        ",
    );
}

#[test]
fn a_broker_that_refuses_is_quoted_with_the_remedy() {
    let broker = NullBroker::start(Script::with_queue("there")).unwrap();
    let address = broker.uri().split_once('@').unwrap().1.to_owned();
    let wrong = |uri: String, arguments: &str, names: &[&str]| {
        let names = [names, &["--uri"]].concat();
        program(&uri).call(arguments).refused(2, &names);
    };
    wrong(
        format!("amqp://guest:wrong@{address}"),
        "",
        &["403", "password"],
    );
    wrong(
        format!("amqp://guest:guest@{address}elsewhere"),
        "",
        &["530", "vhost"],
    );
    wrong(
        broker.uri(),
        "--queue there",
        &["406", "--queue", "predeclared"],
    );
    wrong(broker.uri(), "--predeclared", &["404", "declare it first"]);
    wrong(
        "nonsense".to_owned(),
        "",
        &["amqp://localhost:5672/", "user and password"],
    );
    wrong(format!("amqps://{address}"), "", &["TLS"]);
}

#[test]
fn predeclared_queues_are_used_and_left() {
    let broker = NullBroker::start(Script::with_queue("there")).unwrap();
    // The second run finds it because the first has left it.
    for _ in 0..2 {
        let load = "--queue there --predeclared --pmessages 10";
        let run = program(&broker.uri()).call(load).run();
        assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
        run.result.counts(&[("consumed", 10), ("lost", 0)]);
    }
}

#[test]
fn the_final_block_is_that_of_the_seed() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let load = "-pmessages 50 -prefetch 10";
    let text = program(&broker.uri()).call(load).run().stdout;
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("=== Performance Test Results ==="));
    assert_contains(
        &text,
        &[
            "Duration: ",
            "Throughput:\n  Published: 50 messages (",
            "  Consumed:  50 messages (",
            "  Confirmed: 0 messages",
            "Consumer Latency:\n  min:    ",
            "  median: ",
            "  75th:   ",
            "  95th:   ",
            "  99th:   ",
            "  max:    ",
        ],
    );
}

#[test]
fn check_asks_everything_of_a_broker() {
    let good = (Script::default(), 0, "right, 12 cases");
    let lossy = Script::with_faults([(0, Fault::Drop)]);
    for (script, code, words) in [good, (lossy, 1, "WRONG: content")] {
        let broker = NullBroker::start(script).unwrap();
        let mut command = Command::new(support::PROGRAM);
        let command = command.args(["check", "--uri", &broker.uri()]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn every_plan_of_the_project_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../configs/amqp");
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let plans: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .collect();
    assert!(plans.len() >= 7);
    for path in plans {
        let plan = load::plan::load::<Settings>(&path, &[]).unwrap();
        Settings::validate(&plan).unwrap();
        if let Some(suite) = &plan.suite {
            suite.validate().unwrap();
        }
        let level = plan.level();
        assert!(
            level
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{level}"
        );
        assert_eq!(plan.name, path.file_stem().unwrap().to_str().unwrap());
    }
}
