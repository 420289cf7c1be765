//! Calibration against a server whose delays are known: computed percentiles, and one stall.

use std::time::Duration;

use harness_testing::calibration::{Planned, calibrate, in_turn, lateness};
use harness_testing::program::Program;
use harness_testing::result::ResultFile;
use null_peer::{Delays, Peer, Stall};

/// A planned run with its expected result.
struct Case {
    delays: fn() -> Delays,
    arguments: &'static [&'static str],
    requests: u64,
    /// Expected values by series and statistic, in ms.
    planned: &'static [Planned],
}

/// Of each hundred requests, 83 take 20 ms, 15 take 80 ms and 2 take 200 ms: p50, p90 and p99 lie in the middle of
/// their group. There are more connections than are ever busy, so that no request waits for one.
const DELAYED: Case = Case {
    delays: || Delays::new(&in_turn([(83, 20), (15, 80), (2, 200)]), Stall::default()),
    arguments: &["-R", "100", "-d", "3s", "-c", "40", "--phases"],
    requests: 300,
    planned: &[
        ("response", "p50_ns", 20.0),
        ("response", "p90_ns", 80.0),
        ("response", "p99_ns", 200.0),
        ("service", "p50_ns", 20.0),
        ("service", "p99_ns", 200.0),
        ("waiting", "p50_ns", 20.0),
        ("waiting", "p99_ns", 200.0),
    ],
};

/// At 100/s over four connections, nothing is answered for 1 s, from 2 s after the first request of the check on. A
/// hundred requests are due within it, 10 ms apart: their times are 1000, 990, … 10 ms, or up to 10 ms less. The 305
/// others take next to no time, so that of 405 the 365th is the 60th of those hundred. The service time starts when a
/// request is sent, and only shows the four that were sent: a tool that measures from there would show a p95 of nothing.
const STALLED: Case = Case {
    delays: || Delays::new(&[], STALL),
    arguments: &["-R", "100", "-d", "4050ms", "-c", "4"],
    requests: 405,
    planned: &[
        ("response", "p90_ns", 600.0),
        ("response", "p95_ns", 800.0),
        ("response", "p99_ns", 960.0),
        ("response", "max_ns", 1000.0),
        ("service", "p90_ns", 0.0),
        ("service", "p95_ns", 0.0),
    ],
};

const STALL: Stall = Stall {
    after: Duration::from_secs(2),
    length: Duration::from_secs(1),
};

/// Runs the program on a server with these delays; returns its result, and by how many ms the stall was longer than
/// planned.
fn run(case: &Case, engine: &str) -> (ResultFile, f64) {
    let peer = Peer::http(([127, 0, 0, 1], 0).into()).unwrap();
    let address = peer.address().unwrap();
    let peer = peer.start((case.delays)()).unwrap();
    let load = ["--warmup", "0s", "--threads", "1", "--quiet"];
    let run = Program::new(env!("CARGO_BIN_EXE_http-load"))
        .args(load)
        .args(["--engine", engine])
        .args(case.arguments)
        .args([format!("http://{address}/1kb.txt")])
        .run();
    let longest = peer.stop().unwrap().longest();
    let longer = longest.saturating_sub(STALL.length);
    (run.result, longer.as_secs_f64() * 1e3)
}

/// Threads that are woken before a request ends: the driver when it is due, the server when it comes and when its delay
/// is over, the driver again.
const WAKES: f64 = 4.0;

/// Each statistic must be right in one run of twenty: within 2 %, 3 ms, or the lateness of the threads that wake one
/// another.
fn comes_out_as_planned(case: &Case, engine: &str) {
    calibrate(20, case.planned, |_| {
        let (late, (result, longer)) = lateness(|| run(case, engine));
        let started = result.operations("started");
        assert_eq!(started + result.operations("missed"), case.requests);
        assert_eq!(result.operations("ok"), started, "{}", result["errors"]);
        // If it stood still at the end, the arithmetic does not apply.
        let most = f64::max(3.0, WAKES * late) + longer;
        let right = move |planned: f64| planned * 0.98..=planned * 1.02 + most;
        (started == case.requests).then_some((result, right))
    });
}

#[test]
fn known_delays_come_out_where_they_were_put() {
    comes_out_as_planned(&DELAYED, "wire");
}

#[test]
fn a_stall_is_charged_to_every_request_that_was_due_in_it() {
    comes_out_as_planned(&STALLED, "wire");
}
