//! Calibration against a server whose delays are known: computed percentiles, and one stall.

use std::time::Duration;

use harness_testing::calibration::{Planned, calibrate, in_turn};
use harness_testing::program::Program;
use null_peer::{Delays, Peer, Stall};

const STALL: Stall = Stall {
    after: Duration::from_secs(2),
    length: Duration::from_secs(1),
};

/// Each statistic must be right, within 2 % or 3 ms, in one run of twenty.
fn comes_out_as_planned(delays: &Delays, duration: &str, heartbeats: u64, planned: &[Planned]) {
    calibrate(20, planned, |_| {
        let peer = Peer::presence(([127, 0, 0, 1], 0).into()).unwrap();
        let url = format!("http://{}", peer.address().unwrap());
        let peer = peer.start(delays.clone()).unwrap();
        // 40 users, each 2.5 heartbeats per second: none has two at once, unless the server stalls.
        let run = Program::new(env!("CARGO_BIN_EXE_presence-load"))
            .call("--rooms 20 --users-per-room 2 --heartbeats-per-sec 2.5 --ramp-up 0s")
            .call("--ack-timeout 10s --threads 1 --quiet")
            .args(["--duration", duration, &url])
            .run();
        let result = run.result;
        let longer = peer.stop().unwrap().longest().saturating_sub(STALL.length);
        let started = result.operations("started");
        assert_eq!(started + result.operations("missed"), heartbeats);
        assert_eq!(result.operations("ok"), started, "{}", result["errors"]);
        let most = 3.0 + longer.as_secs_f64() * 1e3;
        let right = move |planned: f64| planned * 0.98..=planned * 1.02 + most;
        (started == heartbeats).then_some((result, right))
    });
}

/// Of each hundred heartbeats, 83 take 20 ms, 15 take 80 ms and 2 take 200 ms: p50, p90 and p99 lie in the middle of
/// their group. The event of a heartbeat comes with its acknowledgement.
#[test]
fn known_delays_come_out_where_they_were_put() {
    let delays = Delays::new(&in_turn([(83, 20), (15, 80), (2, 200)]), Stall::default());
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
    comes_out_as_planned(&delays, "3s", 300, &planned);
}

/// At 100/s, nothing is carried out for 1 s, from 2 s after the heartbeat of the check on. A hundred are due within it,
/// 10 ms apart: their times are 1000, 990, … 10 ms, or up to 10 ms less. The 305 others take next to no time, so that of
/// 405 the 365th is the 60th of those hundred.
#[test]
fn a_stall_is_charged_to_every_heartbeat_that_was_due_in_it() {
    let planned = [
        ("heartbeat", "p90_ns", 600.0),
        ("heartbeat", "p95_ns", 800.0),
        ("heartbeat", "p99_ns", 960.0),
        ("heartbeat", "max_ns", 1000.0),
        ("propagation", "p90_ns", 600.0),
        ("propagation", "max_ns", 1000.0),
    ];
    comes_out_as_planned(&Delays::new(&[], STALL), "4050ms", 405, &planned);
}
