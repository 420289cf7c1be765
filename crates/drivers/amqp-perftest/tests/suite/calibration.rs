//! Calibration against a broker with known delays: computed percentiles, and one stall.

use std::time::Duration;

use harness_testing::calibration::{Planned, calibrate, in_turn, lateness};
use harness_testing::program::Program;
use harness_testing::result::ResultFile;
use null_broker::{Delays, NullBroker, Script, Stall};

/// Ten producers with a queue and a consumer each, so that none is delayed by another.
const LOAD: &str = "--producers 10 --consumers 10 --queue-pattern q-%d --queue-pattern-from 1 --queue-pattern-to 10";

/// A run with known results.
struct Case {
    script: Script,
    arguments: &'static str,
    messages: u64,
    /// Threads that are woken before a message ends: the driver when it is due, the broker when it comes and when its
    /// delay is over, the driver again. With lapin there is one thread more each time.
    wakes: f64,
    /// Tolerated deviation of a figure, as a share of the planned value.
    share: f64,
    /// Planned values by series and figure, in ms.
    planned: &'static [Planned],
}

/// Three hundred messages, 250 ms apart on each queue: of each hundred 83 are confirmed after 20 ms, 15 after 80 and 2
/// after 200; as many are delivered after 30, 100 and 220 ms. So p50, p90 and p99 lie in the middle of their group,
/// where a few messages delayed by the machine change nothing.
fn delayed() -> Case {
    Case {
        script: Script {
            confirm_after: in_turn([(83, 20), (15, 80), (2, 200)]),
            deliver_after: in_turn([(83, 30), (15, 100), (2, 220)]),
            ..Script::default()
        },
        arguments: "--rate 40 --duration 7500ms --confirm 10",
        messages: 300,
        wakes: 4.0,
        share: 0.01,
        planned: &[
            ("confirm", "p50_ns", 20.0),
            ("confirm", "p90_ns", 80.0),
            ("confirm", "p99_ns", 200.0),
            ("end_to_end", "p50_ns", 30.0),
            ("end_to_end", "p90_ns", 100.0),
            ("end_to_end", "p99_ns", 220.0),
        ],
    }
}

/// The same, but each message is confirmed and delivered after one delay: 20, 80 or 200 ms.
fn delayed_alike() -> Case {
    Case {
        script: Script {
            delays: Delays::new(&in_turn([(83, 20), (15, 80), (2, 200)]), Stall::default()),
            ..Script::default()
        },
        planned: &[
            ("confirm", "p50_ns", 20.0),
            ("confirm", "p90_ns", 80.0),
            ("confirm", "p99_ns", 200.0),
            ("end_to_end", "p50_ns", 20.0),
            ("end_to_end", "p90_ns", 80.0),
            ("end_to_end", "p99_ns", 200.0),
        ],
        ..delayed()
    }
}

/// At 100/s the broker stalls for 1 s at one message. A hundred are due within it, 10 ms apart: they read 1000, 990, …
/// 10 ms, though the window lets only forty out. The 305 others read almost nothing, so that of 405 the 365th is the
/// 60th of those hundred.
fn stalled() -> Case {
    Case {
        script: Script {
            stall: vec![(100, STALL)],
            ..Script::default()
        },
        arguments: "--rate 100 --duration 4050ms --confirm 4",
        messages: 405,
        // Messages held back by the window have another round trip.
        wakes: 8.0,
        // The hundred are processed one after the other, which takes this unoptimised program some 5 ms.
        share: 0.02,
        planned: &[
            ("confirm", "p90_ns", 600.0),
            ("confirm", "p95_ns", 800.0),
            ("confirm", "p99_ns", 960.0),
            ("confirm", "max_ns", 1000.0),
            ("end_to_end", "p90_ns", 600.0),
            ("end_to_end", "p95_ns", 800.0),
            ("end_to_end", "p99_ns", 960.0),
            ("end_to_end", "max_ns", 1000.0),
        ],
    }
}

const STALL: Duration = Duration::from_secs(1);

/// Runs the program on a broker with this script. Returns its result, and by how many ms the broker stalled longer than
/// planned.
fn run(engine: &str, script: Script, arguments: &str) -> (ResultFile, f64) {
    let broker = NullBroker::start(script).unwrap();
    let run = Program::new(env!("CARGO_BIN_EXE_amqp-perftest"))
        .call(&format!("--uri {} --engine {engine} --quiet", broker.uri()))
        .call(LOAD)
        .call(arguments)
        .run();
    let longer = broker.stalled().saturating_sub(STALL).as_secs_f64() * 1e3;
    (run.result, longer)
}

/// The number of runs; at least one must have a figure right.
const ATTEMPTS: u32 = 8;

fn calibrates(engine: &str, case: fn() -> Case) {
    calibrate(ATTEMPTS, case().planned, |attempt| {
        let case = case();
        let (late, (result, longer)) =
            lateness(|| run(engine, case.script.clone(), case.arguments));
        let counts = &result["counts"];
        for name in ["published", "confirmed", "consumed"] {
            let as_planned = counts[name] == case.messages;
            assert!(as_planned, "{name}, attempt {attempt}: {counts}");
        }
        let wakes = match engine {
            "lapin" => 2.0 * case.wakes,
            _ => case.wakes,
        };
        // Within 1 ms, a share of the value, or the lateness of the threads that wake one another.
        let right = move |planned: f64| {
            let planned = planned + longer;
            let allowed = f64::max(1.0, planned * case.share).max(wakes * late);
            planned - allowed..=planned + allowed
        };
        Some((result, right))
    });
}

#[test]
fn known_delays_of_confirms_and_deliveries_come_out_with_frames_by_hand() {
    calibrates("wire", delayed);
}

#[test]
fn known_delays_of_confirms_and_deliveries_come_out_with_lapin() {
    calibrates("lapin", delayed);
}

#[test]
fn one_delay_of_a_message_comes_out_in_its_confirm_and_in_its_delivery() {
    calibrates("wire", delayed_alike);
}

#[test]
fn a_stall_is_charged_to_every_message_that_was_due_in_it_with_frames_by_hand() {
    calibrates("wire", stalled);
}

#[test]
fn a_stall_is_charged_to_every_message_that_was_due_in_it_with_lapin() {
    calibrates("lapin", stalled);
}
