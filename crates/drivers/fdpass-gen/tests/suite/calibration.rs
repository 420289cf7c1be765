//! Calibration against a target with known delays: computed percentiles, and one stall.

use std::time::Duration;

use fdpass_client::handoff::SocketType;
use harness_testing::calibration::{Planned, calibrate, in_turn, lateness};
use harness_testing::result::ResultFile;
use nix::sys::socket::SockType;
use null_peer::{Delays, Peer, Stall};

use crate::drive::drive;
use crate::target::{HEAD, Step, Target, close, record, write};

const STREAMS: usize = 300;
const STALL: Duration = Duration::from_millis(200);
/// The one stream that stalls, and before which record.
const STALLED: (usize, u32) = (150, 3);

/// Returns the delay of the first byte. Of 100 streams 80 answer after 5 ms, 18 after 20 ms and 2 after 60 ms: p50 is
/// 5, p90 is 20 and p99 is 60 ms.
fn first_byte(stream: usize) -> Duration {
    Duration::from_millis(match stream % 100 {
        0..80 => 5,
        80..98 => 20,
        _ => 60,
    })
}

/// Returns the gap before a record: one in forty is 100 ms, the others are 10 ms, so that p99 lies among the long ones.
/// Delaying one short gap in fifty does not change it.
fn gap(stream: usize, number: u32) -> Duration {
    Duration::from_millis(match (stream % 100, number) {
        (_, 0) => 0,
        (90.., 4) => 100,
        _ => 10,
    })
}

fn script(handoff: usize) -> Vec<Step> {
    // The first handoff is the check's.
    let stream = handoff.wrapping_sub(1);
    let mut after = if handoff == 0 {
        Duration::ZERO
    } else {
        first_byte(stream)
    };
    let mut steps = vec![write(after, HEAD)];
    for number in 0..5 {
        after += gap(stream, number);
        if (stream, number) == STALLED {
            after += STALL;
        }
        steps.push(write(after, record(&number.to_string())));
    }
    steps.push(write(after, "data: [DONE]\n\n"));
    steps.push(close(after));
    steps
}

const PLANNED: [Planned; 9] = [
    ("first_byte", "p50_ns", 5.0),
    ("first_byte", "p90_ns", 20.0),
    ("first_byte", "p99_ns", 60.0),
    ("gap", "p50_ns", 10.0),
    ("gap", "p99_ns", 100.0),
    ("gap", "max_ns", 210.0),
    ("stream", "p50_ns", 45.0),
    ("stream", "p99_ns", 190.0),
    ("stream", "max_ns", 245.0),
];

/// Threads that are woken before a time is taken: the target at the handoff and when its delay is over, then the
/// driver.
const WAKES: f64 = 3.0;

/// Within 1 ms, 1 % of the value, or the lateness of the threads that wake one another.
#[test]
fn known_delays_and_an_injected_stall_come_out_as_exactly_as_the_machine_wakes_threads() {
    calibrate(8, &PLANNED, |attempt| {
        let target = Target::start(SockType::SeqPacket, script);
        let streams = STREAMS.to_string();
        let load = format!("--connections {streams} --ramp-up 3s --quiet");
        let (late, (_, mut json)) = lateness(|| drive(target.folder(), target.path(), &load));
        assert_eq!(target.stop(), STREAMS + 1, "attempt {attempt}");
        assert_eq!(json["connections_completed"], STREAMS);
        assert_eq!(json["errors"]["timeout"], 0);
        let right = move |planned: f64| {
            let allowed = f64::max(1.0, planned * 0.01).max(WAKES * late);
            planned - allowed..=planned + allowed
        };
        Some((ResultFile(json["result"].take()), right))
    });
}

/// Of each hundred streams, 83 come after 20 ms, 15 after 80 ms and 2 after 200 ms, each at once and whole.
#[test]
fn known_delays_of_the_null_peer_come_out() {
    let planned = [
        ("first_byte", "p50_ns", 20.0),
        ("first_byte", "p90_ns", 80.0),
        ("first_byte", "p99_ns", 200.0),
        ("stream", "p50_ns", 20.0),
        ("stream", "p99_ns", 200.0),
    ];
    let delays = Delays::new(&in_turn([(83, 20), (15, 80), (2, 200)]), Stall::default());
    calibrate(8, &planned, |_| {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let peer = Peer::fdpass(&socket, SocketType::Auto, 3).unwrap();
        let _peer = peer.start(delays.clone()).unwrap();
        let load = "--connections 300 --ramp-up 3s --quiet";
        let (late, (_, mut json)) = lateness(|| drive(folder.path(), &socket, load));
        assert_eq!(json["connections_completed"], 300);
        let right = move |planned: f64| {
            let allowed = f64::max(1.0, planned * 0.01).max(WAKES * late);
            planned - allowed..=planned + allowed
        };
        Some((ResultFile(json["result"].take()), right))
    });
}
