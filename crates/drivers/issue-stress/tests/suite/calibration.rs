//! Calibration against a server whose delays are known: computed percentiles, and one stall.

use std::time::Duration;

use harness_testing::calibration::{Planned, calibrate, in_turn};
use null_peer::{Delays, Peer, Stall};

use crate::server::call;

/// Each statistic must be right, within 2 % or 3 ms, in one run of twenty.
fn comes_out_as_planned(delays: &Delays, duration: &str, creates: u64, planned: &[Planned]) {
    calibrate(20, planned, |_| {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let peer = Peer::issue(&socket).unwrap().start(delays.clone()).unwrap();
        let load = format!("--rate 100 --duration {duration} --quiet");
        let result = call(&socket, &load).run().result;
        let longer = peer.stop().unwrap().longest().saturating_sub(STALL.length);
        let started = result.operations("started");
        assert_eq!(started + result.operations("missed"), creates);
        assert_eq!(result.operations("ok"), started, "{}", result["errors"]);
        let most = 3.0 + longer.as_secs_f64() * 1e3;
        let right = move |planned: f64| planned * 0.98..=planned * 1.02 + most;
        // If it stood still at the end, the arithmetic does not apply.
        (started == creates).then_some((result, right))
    });
}

/// Of each hundred creates, 83 take 20 ms, 15 take 80 ms and 2 take 200 ms: p50, p90 and p99 lie in the middle of their
/// group. The 64 agents are never all busy.
#[test]
fn known_delays_come_out_where_they_were_put() {
    let delays = Delays::new(&in_turn([(83, 20), (15, 80), (2, 200)]), Stall::default());
    let planned = [
        ("operation", "p50_ns", 20.0),
        ("operation", "p90_ns", 80.0),
        ("operation", "p99_ns", 200.0),
        ("create", "p50_ns", 20.0),
        ("create", "p90_ns", 80.0),
        ("create", "p99_ns", 200.0),
    ];
    comes_out_as_planned(&delays, "3s", 300, &planned);
}

/// At 100/s, nothing is answered for 1 s, from 2 s after the first request of the check on. A hundred creates are due
/// within it, 10 ms apart: their times are 1000, 990, … 10 ms, or up to 10 ms less, though there are agents for 64. The
/// 305 others take next to no time, so that of 405 the 365th is the 60th of those hundred.
#[test]
fn a_stall_is_charged_to_every_create_that_was_due_in_it() {
    let planned = [
        ("operation", "p90_ns", 600.0),
        ("operation", "p95_ns", 800.0),
        ("operation", "p99_ns", 960.0),
        ("operation", "max_ns", 1000.0),
    ];
    comes_out_as_planned(&Delays::new(&[], STALL), "4050ms", 405, &planned);
}

const STALL: Stall = Stall {
    after: Duration::from_secs(2),
    length: Duration::from_secs(1),
};
