//! When streams start: rates, warm-up, clients at once, and a driver that cannot.

use std::time::Duration;

use harness_testing::processes;
use harness_testing::program::words;
use harness_testing::result::{self, ResultFile};
use nix::sys::socket::SockType;
use serde_json::Value;

use crate::drive;
use crate::target::{Target, right};

/// Returns the result of a run on a target that answers at once, and the number of handoffs.
fn open_loop(arguments: &str) -> (ResultFile, usize) {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let load = format!("{arguments} --ramp-up 0s");
    let (_, mut json) = drive::drive(target.folder(), target.path(), &load);
    let result = ResultFile(json["result"].take());
    assert_eq!(json["connections_completed"], result["operations"]["ok"]);
    (result, target.stop())
}

#[test]
fn a_rate_is_held_whatever_the_streams_do() {
    let (result, _) = open_loop("--rate 200 --hold 2s");
    assert_eq!(result["operations"]["ok"], 400);
    let started = result["seconds"][0]["counts"]["started"].as_u64().unwrap();
    // A start at the very end of a second may fall into the next row, and so may those for which the driver was late.
    let late = 200.0 * result["lag"]["max_ns"].as_f64().unwrap() / 1e9;
    assert!(
        started.abs_diff(200) as f64 <= 1.0 + late,
        "{started} started, and {late} of them may be late"
    );
}

/// Stops a driver for a while after `after` handoffs. Returns its result, and how many handoffs the target took.
fn stopped_for(load: &str, after: usize, while_ms: u64) -> (ResultFile, usize) {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let mut program = drive::on(&target);
    program.args(words(load));
    let child = drive::start(&mut program);
    target.wait_for(after);
    processes::stop_for(&child, Duration::from_millis(while_ms));
    assert_eq!(
        child.wait_with_output().unwrap().status.code(),
        Some(3),
        "the result is doubtful"
    );
    let result = result::read(target.folder());
    (result, target.stop())
}

#[test]
fn a_driver_that_was_stopped_is_late_in_its_own_response_times() {
    let (result, handoffs) = stopped_for("--rate 200 --ramp-up 0s --hold 3s", 100, 300);
    assert_eq!(
        result["operations"]["ok"], 600,
        "what was due is made up for"
    );
    let max_ms = |series: &Value| series["max_ns"].as_f64().unwrap() / 1e6;
    let response = result.series("first_event").unwrap();
    assert!(
        max_ms(response) > 200.0,
        "charged from when it was due: {} ms",
        max_ms(response)
    );
    assert!(
        max_ms(&result["lag"]) > 200.0,
        "{} ms",
        max_ms(&result["lag"])
    );
    assert_eq!(handoffs, 601);
    let kinds = result.warned();
    assert!(kinds.contains(&"Stalled"), "{kinds:?}");
    let stalls = &result["usage"]["disturbance"]["stalls"];
    assert!(
        stalls["longest_ns"].as_u64() > Some(250_000_000),
        "{stalls}"
    );
}

/// Open streams use up the descriptors; once they have ended, there is room for the result.
#[test]
fn descriptors_that_the_driver_has_no_more_of_are_its_own_failure() {
    let slow = |_| {
        let mut steps = right(1);
        steps[0].after = Duration::from_secs(1);
        steps
    };
    let target = Target::start(SockType::SeqPacket, slow);
    let mut program = drive::on(&target);
    program.args(words("--rate 100 --ramp-up 0s --hold 1s"));
    let child = drive::start(&mut program);
    target.wait_for(5);
    processes::limit_open_files(child.id(), 60);
    let code = child.wait_with_output().unwrap().status.code();
    let result = result::read(target.folder());
    let errors = result["errors"].as_object().unwrap();
    assert!(errors["connect_EMFILE"].as_u64() > Some(0), "{errors:?}");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (code, &result["verdict"]),
        (Some(3), &Value::from("INVALID"))
    );
    assert!(result.warned().contains(&"DriverExhausted"));
}

/// The driver continues more than a second after the end, too late for a rate to catch up.
#[test]
fn a_fixed_number_of_clients_starts_in_full_though_the_driver_stood_still_over_the_end() {
    let load = "--connections 20 --ramp-up 500ms --hold 0s";
    let (result, handoffs) = stopped_for(load, 10, 1_600);
    let operations = &result["operations"];
    assert_eq!(operations["ok"], 20, "{operations}");
    assert_eq!(operations["missed"], 0, "{operations}");
    assert_eq!(handoffs, 21);
    let late_ns = result["lag"]["max_ns"].as_u64().unwrap();
    assert!(late_ns > 1_000_000_000, "late, and said: {late_ns}");
}

/// All start before any is read, so that all are open at once.
#[test]
fn clients_at_once_all_begin_before_records_are_read_and_need_no_time() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let load = "--connections 100 --ramp-up 0s --hold 0s";
    let one = format!("{load} --threads 1");
    let (_, json) = drive::drive(target.folder(), target.path(), &one);
    assert_eq!(json["connections_completed"], 100);
    let operations = &json["result"]["operations"];
    assert_eq!(operations["peak_active"], 100, "{operations}");
    let two = format!("{load} --processes 2");
    let (_, json) = drive::drive(target.folder(), target.path(), &two);
    assert_eq!(json["connections_completed"], 100);
    assert_eq!(json["connections_started"], 100);
}

#[test]
fn streams_of_the_warm_up_count_nowhere() {
    let load = "--rate 100 --warmup 1s --hold 1s";
    let (result, handoffs) = open_loop(load);
    let operations = &result["operations"];
    assert_eq!(
        (operations["started"].as_u64(), operations["ok"].as_u64()),
        (Some(100), Some(100))
    );
    assert_eq!(result["counts"]["warmup"], 100);
    assert_eq!(handoffs, 201);
}
