//! Connections and channels that end, block or fall silent, and what is declared again after them.

use std::time::Duration;

use harness_testing::program::{CompletedRun, Program};
use null_broker::{NullBroker, Script};

use super::{nothing_failed, program, run};
use crate::support;

#[test]
fn a_connection_that_is_cut_is_made_again_and_the_gap_is_counted() {
    let script = Script {
        cut: vec![500],
        ..Script::default()
    };
    let load = [
        "--rate",
        "1000",
        "--duration",
        "2s",
        "--confirm",
        "20",
        "--reconnect-after",
        "100ms",
        "--drain",
        "5s",
    ];
    let (code, result) = run(script, &load);
    assert_eq!(code, 1);
    result.counts(&[("disconnects", 1), ("reconnects", 1), ("duplicated", 0)]);
    assert!(result.error("connection_lost") >= 1, "{}", result["errors"]);
    assert!(result.count("gap_ms") >= 100);
    assert_eq!(
        result.error("lost"),
        0,
        "the broker lost no message that it confirmed"
    );
    let started = result["operations"]["started"].as_u64().unwrap();
    let missed = result["operations"]["missed"].as_u64().unwrap();
    assert_eq!(
        started + missed,
        2_000,
        "what was due in the gap was sent after it"
    );
}

#[test]
fn publishers_wait_where_the_broker_asks_them_to() {
    let script = Script {
        block: vec![100],
        ..Script::default()
    };
    let (code, result) = run(
        script,
        &[
            "--pmessages",
            "2000",
            "--producers",
            "2",
            "--prefetch",
            "10",
            "--confirm",
            "10",
        ],
    );
    nothing_failed(code, &result);
    result.counts(&[("published", 4_000), ("consumed", 4_000)]);
    assert!(
        result.count("blocked") >= 1 && result.count("blocked_ms") >= 100,
        "{}",
        result["counts"]
    );
}

#[test]
fn a_broker_that_goes_away_ends_the_run_in_time_with_a_result() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let load = [
        "--rate",
        "500",
        "--duration",
        "3s",
        "--drain",
        "1s",
        "--confirms",
    ];
    let mut running = Program::new(support::PROGRAM)
        .args(["--engine", super::ENGINE, "--uri", &broker.uri()])
        .args(load)
        .start();
    let mut said = running.lines();
    let line = said
        .find(|line| line.as_ref().unwrap().starts_with("published: "))
        .unwrap()
        .unwrap();
    assert!(
        line.contains(" msg/s, consumed: ") && line.contains(", confirmed: "),
        "{line}"
    );
    drop(broker);
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let CompletedRun { code, result, .. } = running.end();
    assert_eq!(code, 1, "{rest:?}");
    result.adds_up();
    assert!(result["wall_s"].as_f64().unwrap() < 20.0);
    assert_eq!(result.count("disconnects"), 2);
    assert_eq!(result.error("lost"), 0, "nobody can say what it kept");
    let why = result["warnings"].to_string();
    assert!(
        why.contains("not reestablished by the end: Connection refused"),
        "{why}"
    );
}

#[test]
fn a_broker_that_does_nothing_more_holds_no_run_up() {
    let script = Script {
        halt: vec![300],
        ..Script::default()
    };
    let load = ["--rate", "500", "--duration", "1s", "--drain", "500ms"];
    for confirms in [&["--confirms"][..], &[]] {
        let (code, result) = run(script.clone(), &[&load[..], confirms].concat());
        // The location of the messages is unknown.
        assert_eq!((code, result.error("lost")), (3, 0), "{confirms:?}");
        let unfinished = result["operations"]["unfinished"].as_u64().unwrap();
        assert!(unfinished >= 190, "{unfinished}");
        // 1.5 s as planned, 2 s for closing, half a second for queries.
        let wall_s = result["wall_s"].as_f64().unwrap();
        assert!(wall_s < 7.0, "{wall_s}");
    }
}

#[test]
fn a_broker_that_closes_no_connection_holds_no_run_up() {
    let script = Script {
        keeps_open: true,
        ..Script::default()
    };
    let began = load::clock::now();
    let (code, result) = run(script, &["--pmessages", "100", "--prefetch", "10"]);
    nothing_failed(code, &result);
    result.counts(&[("consumed", 100), ("lost", 0)]);
    let took_s = (load::clock::now() - began) as f64 / 1e9;
    assert!(took_s < 8.0, "{took_s}");
}

/// On RabbitMQ, a run used to end 2 s later.
#[test]
fn a_connection_whose_end_is_answered_is_closed_at_once() {
    let took_s = || {
        let script = Script {
            lingers: true,
            ..Script::default()
        };
        let (code, result) = run(script, &["--pmessages", "100", "--prefetch", "10"]);
        nothing_failed(code, &result);
        result["wall_s"].as_f64().unwrap()
    };
    // On a busy machine one may take longer.
    assert!((0..4).any(|_| took_s() < 1.9));
}

#[test]
fn connections_that_are_made_say_that_they_are_there() {
    // lapin does it by itself.
    if super::ENGINE != "wire" {
        return;
    }
    let script = Script {
        heartbeat: 1,
        slow_open: Duration::from_millis(20),
        ..Script::default()
    };
    // They take 4 s, and the broker waits for 2.
    let load = ["--producers", "100", "--consumers", "100"];
    let (_, result) = run(script, &[&load[..], &["--pmessages", "5"]].concat());
    result.counts(&[("published", 500), ("consumed", 500)]);
    assert_eq!(result.count("disconnects"), 0, "{}", result["counts"]);
}

#[test]
fn a_broker_that_sends_no_heartbeat_is_gone() {
    let script = Script {
        halt: vec![200],
        ..Script::default()
    };
    let load = ["--rate", "400", "--duration", "6s", "--drain", "300ms"];
    let (code, result) = run(
        script,
        &[&load[..], &["--heartbeat", "1", "--confirms"]].concat(),
    );
    assert_eq!(code, 1);
    assert!(result.count("disconnects") >= 1, "{}", result["counts"]);
    assert!(result.error("connection_lost") >= 1);
    assert_eq!(result.error("lost"), 0, "nobody can say so");
}

#[test]
fn a_channel_that_the_broker_closes_is_no_lost_connection() {
    let script = Script {
        close_channel: vec![100],
        ..Script::default()
    };
    let load = ["--rate", "400", "--duration", "1s", "--confirm", "10"];
    let again = ["--reconnect-after", "50ms", "--drain", "2s"];
    let (code, result) = run(script, &[&load[..], &again].concat());
    assert_eq!(code, 1);
    result.counts(&[("channels_closed", 1), ("reconnects", 1)]);
    assert_eq!(result.count("disconnects"), 0);
    assert!(result.error("channel_closed") >= 1, "{}", result["errors"]);
    assert_eq!(result.error("connection_lost"), 0);
}

#[test]
fn a_frame_larger_than_negotiated_is_an_error_with_its_reason() {
    // lapin reads it.
    if super::ENGINE != "wire" {
        return;
    }
    let script = Script {
        large_frames: true,
        ..Script::default()
    };
    let broker = NullBroker::start(script).unwrap();
    let run = program(&broker.uri())
        .args(["--size", "200000", "--pmessages", "3"])
        .args(["--reconnect-after", "60s", "--drain", "300ms"])
        .run();
    let said = run.stderr;
    assert_eq!(run.code, 1, "{said}");
    assert!(said.contains("larger than negotiated"), "{said}");
    run.result.counts(&[("protocol", 1), ("disconnects", 1)]);
}

#[test]
fn queues_that_a_broker_did_not_keep_are_declared_again() {
    let script = Script {
        forget: vec![50],
        ..Script::default()
    };
    let load = [
        "--pmessages",
        "200",
        "--rate",
        "400",
        "--duration",
        "5s",
        "--reconnect-after",
        "10ms",
        "--confirm",
        "10",
    ];
    let (_, result) = run(script, &[&load[..], &["--drain", "1s"]].concat());
    result.counts(&[("disconnects", 1), ("reconnects", 1)]);
    assert!(
        result.count("consumed") >= 100,
        "those after it have a queue: {}",
        result["counts"]
    );
}
