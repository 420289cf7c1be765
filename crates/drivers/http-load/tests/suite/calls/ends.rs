//! Tests of runs in which the server or the run itself ends early.

use std::time::Duration;

use harness_testing::processes::{self, wait_until};
use harness_testing::program::{CompletedRun, Program, RunningProgram};
use nix::sys::signal::Signal;

use crate::program::{PROGRAM, adds_up};
use crate::scripted::{Scripted, nobody};
use crate::servers::{url, well};

/// Number of requests after which a load is well under way.
const UNDER_WAY: u64 = 50;

fn wait_until_under_way(server: &Scripted) {
    wait_until("the load is under way", || {
        server.counts().requests >= UNDER_WAY
    });
}

/// Starts a load of three seconds and calls a function meanwhile.
fn while_it_runs(url: &str, arguments: &[&str], act: impl FnOnce(&RunningProgram)) -> CompletedRun {
    let load = [
        "--quiet", "-t", "1", "-c", "3", "-d", "3s", "--warmup", "0s", url,
    ];
    let running = Program::new(PROGRAM).args(load).args(arguments).start();
    act(&running);
    running.end()
}

#[test]
fn a_server_that_goes_away_in_the_run_fails_what_was_asked_of_it_and_what_follows() {
    for engine in ["wire", "hyper"] {
        for rate in [None, Some("100")] {
            let server = well();
            let (url, port) = (url(&server), server.address().port());
            let mut arguments = vec!["--engine", engine, "--timeout", "2s"];
            arguments.extend(rate.iter().flat_map(|rate| ["--rate", *rate]));
            let mut held = None;
            let ran = while_it_runs(&url, &arguments, |_| {
                wait_until_under_way(&server);
                drop(server);
                held = Some(nobody(port));
            });
            adds_up(&ran, rate.map(|_| 300));
            let all = format!(
                "{engine} {rate:?}: {} {}",
                ran.result["operations"], ran.result["errors"]
            );
            assert!(
                ran.result.operations("ok") > 0 && ran.result.operations("failed") > 0,
                "{all}"
            );
            let of_its_end = ["refused", "reset", "early_close", "timeout"];
            let kinds = ran.result.error_kinds();
            assert!(kinds.iter().all(|kind| of_its_end.contains(kind)), "{all}");
            // A client is refused itself; the requests of a rate wait for a connection that can't be opened.
            let unconnected = ran.result["counts"]["unconnected"].as_u64();
            match rate {
                None => assert!(kinds.contains(&"refused"), "{all}"),
                Some(_) => assert!(unconnected > Some(0), "{all}"),
            }
            assert_eq!(ran.code, 1, "{all}");
        }
    }
}

/// Requests that were due while the program itself stood still are sent afterwards, as long as the time is not over;
/// after that they are reported as missed.
#[test]
fn requests_due_while_the_program_stands_still_to_the_end_are_missed() {
    for engine in ["wire", "hyper"] {
        let server = well();
        let arguments = ["--engine", engine, "--rate", "100"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            // Until its three seconds are over, which no event reports.
            processes::stop_for(&running.child, Duration::from_secs(4));
        });
        adds_up(&ran, Some(300));
        let all = &ran.result["operations"];
        assert!(ran.result.operations("missed") > 0, "{engine}: {all}");
        // The server's count includes two requests of the check.
        assert!(
            ran.result.operations("ok") >= UNDER_WAY - 2,
            "{engine}: {all}"
        );
        assert!(
            ran.result.warning("Missed").is_some(),
            "{}",
            ran.result["warnings"]
        );
        assert_eq!(ran.code, 3, "{}", ran.stderr);
    }
}

/// Clients of a closed loop send nothing while they stand still, so only their longest time shows it.
#[test]
fn a_closed_loop_that_was_stopped_has_stalled() {
    for engine in ["wire", "hyper"] {
        let server = well();
        let ran = while_it_runs(&url(&server), &["--engine", engine], |running| {
            wait_until_under_way(&server);
            processes::stop_for(&running.child, Duration::from_millis(300));
        });
        let stalls = &ran.result["usage"]["disturbance"]["stalls"];
        let longest_ns = stalls["longest_ns"].as_u64();
        assert!(longest_ns > Some(250_000_000), "{engine}: {stalls}");
        assert!(
            ran.result.warning("Stalled").is_some(),
            "{}",
            ran.result["warnings"]
        );
        let told = ran.result["seconds"].as_array().unwrap().iter();
        let told: u64 = told
            .filter_map(|second| second["stalls"]["count"].as_u64())
            .sum();
        assert_eq!(Some(told), stalls["count"].as_u64(), "{engine}: {stalls}");
        assert_eq!(ran.code, 3, "{}", ran.stderr);
    }
}

/// For a part of its three seconds, the program may open no file: each connection attempt then fails separately.
#[test]
fn descriptors_that_run_out_are_no_failure_of_the_server() {
    for engine in ["wire", "hyper"] {
        let server = well();
        let arguments = ["--engine", engine, "--no-keep-alive"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            processes::limit_open_files(running.child.id(), 3);
            running.wait_for("failed", 1);
            processes::limit_open_files(running.child.id(), 1_024);
        });
        adds_up(&ran, None);
        assert_eq!(
            ran.result.error_kinds(),
            ["descriptors"],
            "{engine}: {}",
            ran.stderr
        );
        assert!(
            ran.result.warning("DriverExhausted").is_some(),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.result["verdict"], "INVALID", "{engine}");
        assert_eq!(ran.code, 3, "{engine}: {}", ran.stderr);
    }
}

#[test]
fn a_run_that_is_told_to_end_drains_and_writes_what_there_is() {
    for (signal, engine) in [(Signal::SIGINT, "wire"), (Signal::SIGTERM, "hyper")] {
        let server = well();
        let arguments = ["--engine", engine, "--rate", "100"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            processes::send(&running.child, signal);
        });
        assert!(
            ran.result.warning("Interrupted").is_some(),
            "{}",
            ran.result["warnings"]
        );
        adds_up(
            &ran,
            Some(ran.result.operations("started") + ran.result.operations("missed")),
        );
        assert!(
            (1..300).contains(&ran.result.operations("ok")),
            "{}",
            ran.result["operations"]
        );
        assert_eq!(
            (
                ran.result.operations("failed"),
                ran.result.operations("unfinished")
            ),
            (0, 0)
        );
        assert_eq!(ran.code, 3, "{}", ran.stderr);
    }
}
