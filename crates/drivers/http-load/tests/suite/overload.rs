//! Servers that are slower than the load, become slower, or fail at first: the report says so, whatever becomes of the
//! requests.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness_testing::peer;
use harness_testing::program::CompletedRun;

use crate::program::{adds_up, program};
use crate::servers::{OK, answer_each};

const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/// Starts a server that answers one request at a time, at most 100 in a second.
fn slow() -> SocketAddr {
    let one_at_a_time = Mutex::new(());
    peer::serve(move |stream| {
        answer_each(stream, |_| {
            let _one = one_at_a_time.lock().unwrap();
            // The time that it works for a request: on a busy machine it is even slower.
            thread::sleep(Duration::from_millis(10));
            OK
        })
    })
}

/// Runs a load with a warm-up of half a second.
fn run(server: SocketAddr, load: &str, due: u64) -> CompletedRun {
    let url = format!("http://{server}/");
    let load: Vec<&str> = load.split(' ').collect();
    let warmed = ["--warmup", "500ms", url.as_str()];
    let ran = program(&load).args(warmed).run();
    adds_up(&ran, Some(due));
    ran
}

#[test]
fn a_load_that_times_out_is_headed_as_an_overload() {
    let ran = run(slow(), "-c 10 -R 2000 -d 1s --timeout 1s", 2_000);
    assert!(ran.result.operations("failed") > 1_000, "{}", ran.stdout);
    assert!(
        ran.stdout.contains("overload  overloaded: offered 2,000/s"),
        "{}",
        ran.stdout
    );
}

#[test]
fn nothing_succeeds_beside_a_rate_without_a_word() {
    // The backlog of the warm-up alone takes ten seconds.
    let load = "-c 10 -R 2000 -d 1s --timeout 60s --set timeline.drain=100ms";
    let ran = run(slow(), load, 2_000);
    assert_eq!(ran.result.operations("ok"), 0, "{}", ran.stdout);
    let served = &ran.result["throughput"]["ok"];
    assert!(served.as_u64().unwrap() > 0, "{served}");
    assert!(ran.stdout.contains("  overload  "), "{}", ran.stdout);
    assert!(ran.stdout.contains("warm-up's backlog"), "{}", ran.stdout);
}

#[test]
fn a_rate_above_the_offered_one_is_noted_as_the_backlog_of_the_warm_up() {
    let connections = AtomicU64::new(0);
    let held = Mutex::new(false);
    let server = peer::serve(move |stream| {
        // The check before the load has the first two.
        let is_of_load = connections.fetch_add(1, Ordering::Relaxed) >= 2;
        answer_each(stream, |_| {
            let mut was_held = held.lock().unwrap();
            if is_of_load && !*was_held {
                *was_held = true;
                // Longer than the warm-up, and shorter than the rest of the load by seconds.
                thread::sleep(Duration::from_millis(700));
            }
            OK
        })
    });
    let ran = run(server, "-c 4 -R 400 -d 4s", 1_600);
    assert_eq!(ran.result.operations("ok"), 1_600, "{}", ran.stdout);
    let warning = ran.result.warning("WarmupBacklog");
    let message = warning
        .expect("half a second of requests waits")
        .to_string();
    assert!(message.contains("but 400/s were offered"), "{message}");
}

#[test]
fn failures_of_the_warm_up_are_in_the_result() {
    let requests = AtomicU64::new(0);
    let server = peer::serve(move |stream| {
        answer_each(stream, |_| match requests.fetch_add(1, Ordering::Relaxed) {
            // The check before the load has the first ones; the warm-up has 100.
            10..30 => FAILED,
            _ => OK,
        })
    });
    let ran = run(server, "-c 4 -R 200 -d 1s", 200);
    assert_eq!(ran.result.operations("ok"), 200, "{}", ran.stdout);
    let warning = ran.result.warning("WarmupFailed").expect("20 failed");
    assert_eq!(
        warning["message"],
        "20 of 100 operations of the warm-up failed (status 20)"
    );
    assert_eq!(ran.result.count("warmup_failed.status"), 20);
    assert!(ran.result.warned().contains(&"WarmupFailed"), "{warning}");
}

#[test]
fn a_server_that_becomes_slower_has_no_steady_state() {
    let requests = AtomicU64::new(0);
    let server = peer::serve(move |stream| {
        answer_each(stream, |_| {
            // The warm-up has 15, and each second of the load 30.
            let is_later = requests.fetch_add(1, Ordering::Relaxed) >= 125;
            thread::sleep(Duration::from_millis(if is_later { 100 } else { 1 }));
            OK
        })
    });
    // So long that the requests in flight at the end are no backlog, also on a busy machine.
    let ran = run(server, "-c 20 -R 30 -d 16s", 480);
    let jump = ran.result.warning("NoSteadyState");
    let warning = jump.unwrap_or_else(|| panic!("no jump: {}", ran.stdout));
    let message = warning["message"].to_string();
    assert!(
        message.contains("no steady state: response rose from "),
        "{message}"
    );
    assert!(
        message.contains(" at second 4 of the measured time"),
        "{message}"
    );
    assert!(ran.result.warned().contains(&"NoSteadyState"), "{warning}");
}

/// One connection carries at most ten requests per second, of the fifty that are due.
#[test]
fn requests_that_wait_for_a_connection_are_counted_and_named() {
    let server = peer::serve(|stream| {
        answer_each(stream, |_| {
            thread::sleep(Duration::from_millis(100));
            OK
        })
    });
    let ran = run(server, "-c 1 -R 50 -d 1s --drain 30s", 50);
    let waited = ran.result.count("waited");
    assert!((30..=50).contains(&waited), "{waited}");
    let started = ran.result.operations("started");
    let sentence =
        format!("{waited} of {started} requests were due while all connections were busy");
    assert!(ran.stdout.contains(&sentence), "{}", ran.stdout);
}

/// Every other request is held for as long as the limit, so no more than half of them meet the objective, whatever the
/// machine adds.
#[test]
fn requests_that_meet_the_objectives_are_the_goodput() {
    let requests = AtomicU64::new(0);
    let server = peer::serve(move |stream| {
        answer_each(stream, |_| {
            if requests.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                thread::sleep(Duration::from_millis(300));
            }
            OK
        })
    });
    let url = format!("http://{server}/");
    let load = "-c 40 -R 100 -d 2s --warmup 500ms";
    let objectives = "--objective 'response < 300ms' --objective 'service <= 59m'";
    let thresholds = "--threshold 'goodput.pct <= 55' --threshold 'goodput >= 100'";
    let call = program(&[&url]).call(load).call(objectives);
    let ran = call.call(thresholds).run();
    adds_up(&ran, Some(200));
    let goodput = ran.result.count("goodput");
    assert!((1..=110).contains(&goodput), "{goodput}");
    let met = |index: usize| &ran.result["thresholds"][index]["met"];
    assert_eq!((met(0), met(1), ran.code), (&true.into(), &false.into(), 4));
    // The audit compares the goodput with the histogram of the times.
    assert!(ran.result.warning("Audit").is_none(), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n  goodput "), "{}", ran.stdout);
}

/// One request is held for 700 ms, and all others behind it. What has been due for more than 100 ms by then is missed.
#[test]
fn a_stall_of_the_server_sheds_what_is_due_for_longer_than_the_deadline() {
    for engine in [&[][..], &["--engine", "hyper"]] {
        let requests = AtomicU64::new(0);
        let one_at_a_time = Mutex::new(());
        let server = peer::serve(move |stream| {
            answer_each(stream, |_| {
                let _one = one_at_a_time.lock().unwrap();
                if requests.fetch_add(1, Ordering::Relaxed) == 200 {
                    thread::sleep(Duration::from_millis(700));
                }
                OK
            })
        });
        let url = format!("http://{server}/");
        let load = "-c 4 -R 400 -d 2s --warmup 0s --deadline 100ms";
        let load: Vec<&str> = load.split(' ').collect();
        let ran = program(&load).args(engine).args([&url]).run();
        adds_up(&ran, Some(800));
        let [started, ok, missed] = ["started", "ok", "missed"].map(|of| ran.result.operations(of));
        assert_eq!(ok, started, "{}", ran.stdout);
        // 600 ms at 400/s; a busy machine adds stalls of its own.
        assert!(missed >= 200, "{missed} missed: {}", ran.stdout);
        assert!(ran.result.count("missed_waiting") >= 200, "{}", ran.stdout);
        let sentence = ran.result["plan_sentence"].to_string();
        assert!(
            sentence.contains("missed if not started within 100ms"),
            "{sentence}"
        );
    }
}

/// The server answers at most 100 requests in a second.
#[test]
fn a_rate_that_rises_in_steps_shows_the_last_one_that_was_held() {
    let url = format!("http://{}/", slow());
    let stages = "0s:10,4s:10,0s:20,4s:20,0s:400,4s:400";
    let load = ["-c", "10", "--rate-stage", stages, "--warmup", "0s"];
    let objective = ["--objective", "response < 1s", "--drain", "1s"];
    let ran = program(&load).args(objective).args([&url]).run();
    let steps = ran.result["facts"]["steps"].as_array().unwrap();
    let rates: Vec<f64> = steps
        .iter()
        .map(|step| step["per_s"].as_f64().unwrap())
        .collect();
    assert_eq!(rates, [10.0, 20.0, 400.0]);
    let knee = "knee      20.0/s was held, and 400/s was not: served ";
    assert!(ran.stdout.contains(knee), "{}", ran.stdout);
}
