//! Tests of servers that fail during the measurement: each request is accounted for, and the exit code reports it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::thread;

use harness_testing::program::CompletedRun;

use crate::program::{adds_up, plan, program};
use crate::scripted::{Step, nobody};
use crate::servers::{MISSING, OK, answers, send, url, well_at_first};

/// Builds a second of load, closed or at 100 per second, with one engine.
fn load(engine: &str, is_open: bool, url: &str) -> CompletedRun {
    let call = program(&[
        "--engine", engine, "-t", "1", "-c", "3", "-d", "1s", "--warmup", "0s", url,
    ]);
    let call = call.args(["--timeout", "300ms", "--connect-timeout", "300ms"]);
    let rate: &[&str] = if is_open { &["--rate", "100"] } else { &[] };
    call.args(rate).run()
}

/// Starts a server that answers one request. Then it either leaves, or behaves as if it had no descriptors left: the
/// kernel accepts connections, but the program does not. The returned value keeps its port.
fn answers_once(goes_away: bool) -> (String, thread::JoinHandle<OwnedFd>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Before the response, so that later connections find nobody.
        let held = if goes_away {
            drop(listener);
            nobody(address.port()).1
        } else {
            listener.into()
        };
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(OK.as_bytes()).unwrap();
        held
    });
    (format!("http://{address}/x"), answering)
}

/// Checks that a run in which every request fails exits with 1 and accounts for each.
fn every_request_fails(engine: &str) {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let rows: [(Vec<Step>, &[&str]); 9] = [
        (answers(MISSING), &["status"]),
        (
            answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"),
            &["length"],
        ),
        (vec![Step::Expect, Step::Reset], &["reset"]),
        // Closed before or after the request is sent: an end, or a reset.
        (vec![Step::Close], &["early_close", "reset", "timeout"]),
        (vec![Step::Expect, Step::Close], &["early_close"]),
        (
            vec![Step::Expect, send(half), Step::Close],
            &["early_close"],
        ),
        (vec![Step::Expect, Step::Stall], &["timeout"]),
        (vec![Step::Expect, send("garbage\r\n\r\n")], &["protocol"]),
        (
            vec![
                Step::Expect,
                send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
            ],
            &["protocol"],
        ),
    ];
    for is_open in [false, true] {
        let due = is_open.then_some(100);
        let failed = |ran: &CompletedRun, kinds: &[&str], what: &str| {
            adds_up(ran, due);
            let all = format!(
                "{what}, {engine}, open {is_open}: {} {}",
                ran.result["operations"], ran.result["errors"]
            );
            assert_eq!((ran.code, ran.result.operations("ok")), (1, 0), "{all}");
            assert!(ran.result.operations("failed") > 0, "{all}");
            // The times of failures must not be taken for the server's.
            assert_ne!(ran.result["verdict"], "VALID", "{all}");
            assert!(ran.result.warning("NothingSucceeded").is_some());
            let asked_for = |kind: &&str| kinds.iter().any(|begin| kind.starts_with(begin));
            // On a busy machine, a response or a connection may be late too.
            let late = |kind: &&str| ["timeout", "connect_timeout"].contains(kind);
            let kinds = ran.result.error_kinds();
            assert!(kinds.iter().any(asked_for), "{all}");
            assert!(
                kinds.iter().all(|kind| asked_for(kind) || late(kind)),
                "{all}"
            );
            // The measurement, the drain phase, and much more than a busy machine adds.
            let wall_s = ran.result["wall_s"].as_f64().unwrap();
            assert!(wall_s < 1.0 + 1.3 + 20.0, "{all}");
        };
        for (script, kinds) in &rows {
            let server = well_at_first(script.clone());
            failed(
                &load(engine, is_open, &url(&server)),
                kinds,
                &format!("{script:?}"),
            );
        }
        for (goes_away, kinds) in [
            (true, ["refused", "timeout"]),
            (false, ["timeout", "connect_timeout"]),
        ] {
            let (url, answering) = answers_once(goes_away);
            failed(&load(engine, is_open, &url), &kinds, "answers once");
            drop(answering.join().unwrap());
        }
    }
}

#[test]
fn wire_accounts_for_every_failure() {
    every_request_fails("wire");
}

#[test]
fn hyper_accounts_for_every_failure() {
    every_request_fails("hyper");
}

#[test]
fn a_threshold_that_failures_meet_does_not_make_a_run_without_an_answer_a_success() {
    let server = well_at_first(answers(MISSING));
    let url = url(&server);
    let call = "-c 2 -d 2s --warmup 0s --threshold 'http_req_failed: rate<=1'";
    let ran = program(&[&url]).call(call).run();
    assert_eq!(ran.result["thresholds"][0]["met"], true);
    assert_eq!((ran.code, ran.result.operations("ok")), (1, 0));
}

#[test]
fn requests_open_at_the_end_of_the_drain_phase_are_unfinished() {
    let file = plan("", "timeout = \"60s\"");
    for engine in ["wire", "hyper"] {
        let server = well_at_first(vec![Step::Expect, Step::Stall]);
        let path = file.path().to_str().unwrap();
        let set = format!("driver.engine=\"{engine}\"");
        let ran = program(&["--plan", path, "--set", &set, "-t", "1", &url(&server)]).run();
        adds_up(&ran, None);
        assert_eq!(
            (
                ran.result.operations("started"),
                ran.result.operations("unfinished")
            ),
            (2, 2)
        );
        assert!(ran.result.warning("Unfinished").is_some());
        assert_eq!(ran.code, 3);
        assert!(ran.result["wall_s"].as_f64().unwrap() < 1.2 + 20.0);
    }
}
