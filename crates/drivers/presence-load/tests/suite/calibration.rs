//! Calibration against a server whose delays are known: computed percentiles, and one stall.

use std::sync::Arc;
use std::time::Duration;

use harness_testing::calibration::{Delays, Planned, calibrate, in_turn};
use harness_testing::program::Program;

use crate::server::{Script, Server};

/// Each statistic must be right, within 2 % or 3 ms, in one run of twenty.
fn comes_out_as_planned(
    delays: impl Fn() -> Delays,
    duration: &str,
    heartbeats: u64,
    planned: &[Planned],
) {
    calibrate(20, planned, |_| {
        let delays = Arc::new(delays());
        let server = Server::start(Script {
            delays: Arc::clone(&delays),
            ..Script::default()
        });
        // 40 users, each 2.5 heartbeats per second: none has two at once, unless the server stalls.
        let run = Program::new(env!("CARGO_BIN_EXE_presence-load"))
            .args([
                "--rooms",
                "20",
                "--users-per-room",
                "2",
                "--heartbeats-per-sec",
                "2.5",
            ])
            .args([
                "--ramp-up",
                "0s",
                "--ack-timeout",
                "10s",
                "--threads",
                "1",
                "--quiet",
            ])
            .args(["--duration", duration, &server.url()])
            .run();
        let result = run.result;
        let started = result.operations("started");
        assert_eq!(started + result.operations("missed"), heartbeats);
        assert_eq!(result.operations("ok"), started, "{}", result["errors"]);
        let longer = delays.excess_ms();
        let right = move |planned: f64| planned * 0.98..=planned * 1.02 + 3.0 + longer;
        (started == heartbeats).then_some((result, right))
    });
}

/// Of each hundred heartbeats, 83 take 20 ms, 15 take 80 ms and 2 take 200 ms: p50, p90 and p99 lie in the middle of
/// their group. The event of a heartbeat comes with its acknowledgement.
#[test]
fn known_delays_come_out_where_they_were_put() {
    let delays = || Delays::new(in_turn([(83, 20), (15, 80), (2, 200)]), None);
    let planned = [
        ("heartbeat", "p50_ns", 20.0),
        ("heartbeat", "p90_ns", 80.0),
        ("heartbeat", "p99_ns", 200.0),
        ("service", "p50_ns", 20.0),
        ("service", "p99_ns", 200.0),
        ("propagation", "p50_ns", 20.0),
        ("propagation", "p90_ns", 80.0),
        ("propagation", "p99_ns", 200.0),
    ];
    comes_out_as_planned(delays, "3s", 300, &planned);
}

/// At 100/s, nothing is carried out for 1 s from heartbeat number 100 on. A hundred are due within it, 10 ms apart: their
/// times are 1000, 990, … 10 ms. The 305 others take next to no time, so that of 405 the 365th is the 60th of those
/// hundred.
#[test]
fn a_stall_is_charged_to_every_heartbeat_that_was_due_in_it() {
    let delays = || Delays::new(Vec::new(), Some((100, Duration::from_secs(1))));
    let planned = [
        ("heartbeat", "p90_ns", 600.0),
        ("heartbeat", "p95_ns", 800.0),
        ("heartbeat", "p99_ns", 960.0),
        ("heartbeat", "max_ns", 1000.0),
        ("propagation", "p90_ns", 600.0),
        ("propagation", "max_ns", 1000.0),
    ];
    comes_out_as_planned(delays, "4050ms", 405, &planned);
}
