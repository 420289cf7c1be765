//! Tests of runs in which the server or the run itself ends early.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::Ran;
use crate::scripted::{Scripted, nobody};
use crate::servers::{url, well};

/// Number of requests after which a load is well under way.
const UNDER_WAY: u64 = 50;

fn wait_until_under_way(server: &Scripted) {
    while server.counts().requests < UNDER_WAY {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a load of three seconds and calls a function meanwhile.
fn while_it_runs(url: &str, arguments: &[&str], act: impl FnOnce(&Child)) -> Ran {
    let out = tempfile::tempdir().unwrap();
    let running = Command::new(assert_cmd::cargo::cargo_bin!("http-load"))
        .args([
            "--quiet", "-t", "1", "-c", "3", "-d", "3s", "--warmup", "0s",
        ])
        .arg(url)
        .args(arguments)
        .arg("--into")
        .arg(out.path().join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    act(&running);
    Ran::read(&running.wait_with_output().unwrap(), &out)
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
            ran.adds_up(rate.map(|_| 300));
            let all = format!(
                "{engine} {rate:?}: {} {}",
                ran.result["operations"], ran.result["errors"]
            );
            assert!(ran.number("ok") > 0 && ran.number("failed") > 0, "{all}");
            let of_its_end = ["refused", "reset", "early_close", "timeout"];
            let kinds = ran.kinds();
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
fn what_is_due_while_the_program_stands_still_to_the_end_is_missed() {
    for engine in ["wire", "hyper"] {
        let server = well();
        let arguments = ["--engine", engine, "--rate", "100"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            let signal = |signal| kill(Pid::from_raw(running.id() as i32), signal).unwrap();
            signal(Signal::SIGSTOP);
            // Until its three seconds are over, which no event reports.
            thread::sleep(Duration::from_secs(4));
            signal(Signal::SIGCONT);
        });
        ran.adds_up(Some(300));
        let all = &ran.result["operations"];
        assert!(ran.number("missed") > 0, "{engine}: {all}");
        // The server's count includes two requests of the check.
        assert!(ran.number("ok") >= UNDER_WAY - 2, "{engine}: {all}");
        assert!(ran.warned("Missed"), "{}", ran.result["warnings"]);
        assert_eq!(ran.code, 3, "{}", ran.said);
    }
}

/// Clients of a closed loop send nothing while they stand still, so only their longest time shows it.
#[test]
fn a_closed_loop_that_was_stopped_has_stalled() {
    for engine in ["wire", "hyper"] {
        let server = well();
        let ran = while_it_runs(&url(&server), &["--engine", engine], |running| {
            wait_until_under_way(&server);
            let signal = |signal| kill(Pid::from_raw(running.id() as i32), signal).unwrap();
            signal(Signal::SIGSTOP);
            thread::sleep(Duration::from_millis(300));
            signal(Signal::SIGCONT);
        });
        let stalls = &ran.result["usage"]["disturbance"]["stalls"];
        let longest_ns = stalls["longest_ns"].as_u64();
        assert!(longest_ns > Some(250_000_000), "{engine}: {stalls}");
        assert!(ran.warned("Stalled"), "{}", ran.result["warnings"]);
        let told = ran.result["seconds"].as_array().unwrap().iter();
        let told: u64 = told
            .filter_map(|second| second["stalls"]["count"].as_u64())
            .sum();
        assert_eq!(Some(told), stalls["count"].as_u64(), "{engine}: {stalls}");
        assert_eq!(ran.code, 3, "{}", ran.said);
    }
}

/// For one second of three, the program may open no file: each connection attempt then fails separately.
#[test]
fn descriptors_that_run_out_are_no_failure_of_the_server() {
    for engine in ["wire", "hyper"] {
        let server = well();
        let arguments = ["--engine", engine, "--no-keep-alive"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            may_open(running, 3);
            thread::sleep(Duration::from_secs(1));
            may_open(running, 1_024);
        });
        ran.adds_up(None);
        assert_eq!(ran.kinds(), ["descriptors"], "{engine}: {}", ran.said);
        assert!(ran.warned("DriverExhausted"), "{}", ran.said);
        assert_eq!(ran.result["verdict"], "INVALID", "{engine}");
        assert_eq!(ran.code, 3, "{engine}: {}", ran.said);
    }
}

/// Sets the soft limit of a process's open files.
fn may_open(running: &Child, files: u64) {
    let set = Command::new("prlimit")
        .arg("--pid")
        .arg(running.id().to_string())
        .arg(format!("--nofile={files}:"))
        .status();
    assert!(set.unwrap().success());
}

#[test]
fn a_run_that_is_told_to_end_drains_and_writes_what_there_is() {
    for (signal, engine) in [(Signal::SIGINT, "wire"), (Signal::SIGTERM, "hyper")] {
        let server = well();
        let arguments = ["--engine", engine, "--rate", "100"];
        let ran = while_it_runs(&url(&server), &arguments, |running| {
            wait_until_under_way(&server);
            kill(Pid::from_raw(running.id() as i32), signal).unwrap();
        });
        assert!(ran.warned("Interrupted"), "{}", ran.result["warnings"]);
        ran.adds_up(Some(ran.number("started") + ran.number("missed")));
        assert!(
            (1..300).contains(&ran.number("ok")),
            "{}",
            ran.result["operations"]
        );
        assert_eq!((ran.number("failed"), ran.number("unfinished")), (0, 0));
        assert_eq!(ran.code, 3, "{}", ran.said);
    }
}
