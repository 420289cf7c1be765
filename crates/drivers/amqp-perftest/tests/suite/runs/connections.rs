//! Connections and channels that end, block or fall silent, and what is declared again after them.

use std::time::Duration;

use harness_testing::assert_contains;
use harness_testing::processes;
use harness_testing::program::{CompletedRun, Program};
use nix::sys::signal::Signal;
use null_broker::{Fault, NullBroker, Script};

use super::{nothing_failed, program, run};
use crate::support::{self, wall_s};

/// Ten times the duration of runs that must end by themselves, in seconds.
const FOREVER_S: f64 = 60.0;
/// Printed if a broker does not answer the end of a connection.
const CLOSE_TIMED_OUT: &str = "did not answer connection.close";

#[test]
fn a_connection_that_is_cut_is_made_again_and_the_gap_is_counted() {
    let load = "--rate 1000 --duration 2s --confirm 20 --reconnect-after 100ms --drain 5s";
    let (code, result) = run(Script::with_faults([(500, Fault::Cut)]), load);
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
    let (code, result) = run(
        Script::with_faults([(100, Fault::Block)]),
        "--pmessages 2000 --producers 2 --prefetch 10 --confirm 10",
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
fn a_wait_that_the_broker_asks_for_is_a_sentence_on_the_screen() {
    let broker = NullBroker::start(Script::with_faults([(100, Fault::Block)])).unwrap();
    let engine = format!("--engine {} --uri {}", super::ENGINE, broker.uri());
    let run = Program::new(support::PROGRAM)
        .call(&format!(
            "{engine} --pmessages 500 --prefetch 10 --confirm 10"
        ))
        .run();
    for piece in [
        "the broker blocked publishers ",
        " s summed over connections (connection.blocked): check its alarms",
    ] {
        assert!(run.stdout.contains(piece), "{}", run.stdout);
    }
    let notes = run.stdout.lines().find(|line| line.starts_with("  notes"));
    let has_subject = notes.is_some_and(|notes| notes.contains("blocked publishers"));
    assert!(has_subject, "{}", run.stdout);
    let mut lines = run.stdout.lines();
    let line = lines.find(|line| line.ends_with(", blocked by the broker"));
    assert!(
        line.is_some_and(|line| line.starts_with("published: ")),
        "{}",
        run.stdout
    );
}

#[test]
fn a_broker_that_goes_away_ends_the_run_in_time_with_a_result() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let uri = broker.uri();
    let address = uri.split_once('@').unwrap().1.trim_end_matches('/');
    let load = "--rate 500 --duration 3s --drain 1s --confirms";
    let mut running = Program::new(support::PROGRAM)
        .call(&format!("--engine {} --uri {uri}", super::ENGINE))
        .call(load)
        // The lines are on stdout with the report for people.
        .call("--format json")
        .start();
    let mut said = running.lines();
    let line = said
        .find(|line| line.as_ref().unwrap().starts_with("published: "))
        .unwrap()
        .unwrap();
    assert_contains(&line, &[" msg/s, consumed: ", ", confirmed: "]);
    drop(broker);
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let CompletedRun { code, result, .. } = running.end();
    assert_eq!(code, 1, "{rest:?}");
    result.adds_up();
    assert!(wall_s(&result) < FOREVER_S);
    assert_eq!(result.count("disconnects"), 2);
    assert_eq!(result.error("lost"), 0, "nobody can say what it kept");
    let why = result["warnings"].to_string();
    assert_contains(
        &why,
        &[&format!(
            "not reestablished by the end: {address}: Connection refused"
        )],
    );
}

#[test]
fn a_broker_that_does_nothing_more_holds_no_run_up() {
    let script = Script::with_faults([(300, Fault::Halt)]);
    for confirms in ["--confirms", ""] {
        let (code, result) = run(
            script.clone(),
            &format!("--rate 500 --duration 1s --drain 500ms {confirms}"),
        );
        // The location of the messages is unknown.
        assert_eq!((code, result.error("lost")), (3, 0), "{confirms:?}");
        // A busy driver misses some of those that it could not finish.
        let [unfinished, missed] = ["unfinished", "missed"].map(|name| result.operations(name));
        assert!(unfinished + missed >= 190, "{unfinished}, {missed}");
        // 1.5 s as planned, 2 s for closing, half a second for queries.
        assert!(wall_s(&result) < FOREVER_S, "{}", wall_s(&result));
    }
}

#[test]
fn a_broker_that_closes_no_connection_holds_no_run_up() {
    let script = Script {
        keeps_open: true,
        ..Script::default()
    };
    let ran = run_closing(script);
    ran.result.counts(&[("consumed", 100), ("lost", 0)]);
    assert!(ran.stderr.contains(CLOSE_TIMED_OUT), "{}", ran.stderr);
    assert!(wall_s(&ran.result) < FOREVER_S, "{}", wall_s(&ran.result));
}

/// On RabbitMQ, a run used to end 2 s later: it waited for the end of the socket too.
#[test]
fn a_connection_whose_end_is_answered_is_closed_at_once() {
    let script = Script {
        lingers: true,
        ..Script::default()
    };
    let ran = run_closing(script);
    assert!(!ran.stderr.contains(CLOSE_TIMED_OUT), "{}", ran.stderr);
}

/// Runs the program on a broker that ends connections in a special way.
fn run_closing(script: Script) -> CompletedRun {
    let broker = NullBroker::start(script).unwrap();
    let load = "--pmessages 100 --prefetch 10";
    let ran = program(&broker.uri()).call(load).run();
    nothing_failed(ran.code, &ran.result);
    ran.result.adds_up();
    ran
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
    // They take 4 s, in which a heartbeat of each open connection is due twice a second.
    let load = "--producers 100 --consumers 100";
    let broker = NullBroker::start(script).unwrap();
    let ran = program(&broker.uri())
        .call(load)
        .call("--pmessages 5")
        .run();
    ran.result.counts(&[("published", 500), ("consumed", 500)]);
    // Each opening takes 20 ms or more, so they are due after every 26th at the latest: 26 + 52 + … + 182.
    let heartbeats = broker.heartbeats_before_messages();
    assert!(heartbeats >= 700, "{heartbeats}");
}

#[test]
fn a_broker_that_sends_no_heartbeat_is_gone() {
    let load = "--rate 400 --duration 300s --drain 300ms";
    let broker = NullBroker::start(Script::with_faults([(200, Fault::Halt)])).unwrap();
    let running = program(&broker.uri())
        .call(load)
        .call("--heartbeat 1 --confirms")
        .start();
    running.wait_for("failed", 1);
    processes::send(&running.child, Signal::SIGINT);
    let CompletedRun { code, result, .. } = running.end();
    result.adds_up();
    assert_eq!(code, 1);
    assert!(result.count("disconnects") >= 1, "{}", result["counts"]);
    assert!(result.error("connection_lost") >= 1);
    assert_eq!(result.error("lost"), 0, "nobody can say so");
}

#[test]
fn a_channel_that_the_broker_closes_is_no_lost_connection() {
    let script = Script::with_faults([(100, Fault::CloseChannel)]);
    let (code, result) = run(
        script,
        "--rate 400 --duration 1s --confirm 10 --reconnect-after 50ms --drain 2s",
    );
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
        .call("--size 200000 --pmessages 3")
        .call("--reconnect-after 60s --drain 300ms")
        .run();
    let said = run.stderr;
    assert_eq!(run.code, 1, "{said}");
    assert!(said.contains("larger than negotiated"), "{said}");
    run.result.counts(&[("protocol", 1), ("disconnects", 1)]);
}

#[test]
fn queues_that_a_broker_did_not_keep_are_declared_again() {
    let script = Script::with_faults([(50, Fault::Forget)]);
    // Those after it have a queue.
    let end = "--cmessages 60 --drain 1s";
    let (_, result) = run(
        script,
        &format!("--rate 400 --duration 5min --confirm 10 {end} --reconnect-after 10ms"),
    );
    result.counts(&[("disconnects", 1), ("reconnects", 1), ("consumed", 60)]);
}
