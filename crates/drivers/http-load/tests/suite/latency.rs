//! Tests of the program with k6's options: stages, thresholds, checks, and exit codes.

use std::process::Command;
use std::time::Duration;

use harness_testing::program::CompletedRun;
use harness_testing::rows;

use crate::program::{PROGRAM, program};
use crate::scripted::{Scripted, Step};
use crate::servers::{url, well};

const PLAN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../configs/http/latency.toml"
);

fn answer(head: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Returns for each threshold, in order, whether it was met.
fn met(ran: &CompletedRun) -> Vec<bool> {
    let thresholds = ran.result["thresholds"].as_array().unwrap();
    thresholds
        .iter()
        .map(|threshold| threshold["met"] == true)
        .collect()
}

fn run(server: &Scripted, arguments: &[&str]) -> CompletedRun {
    let ran = program(arguments).args(["--full", &url(server)]).run();
    ran.result.adds_up();
    ran
}

#[test]
fn thresholds_of_k6_are_met_or_missed_and_the_exit_code_says_so() {
    let server = well();
    let load = ["-c", "2", "-d", "1s", "--warmup", "0s"];
    let easy = [
        "http_req_duration: p(95)<20000",
        "http_req_duration{expected_response:true}: med<20000",
        "http_req_waiting: max<20000",
        "http_req_failed: rate<0.01",
        "http_reqs: count>2",
        "iterations: rate>0.5",
    ];
    let with = |thresholds: &[&'static str]| -> Vec<&str> {
        let thresholds = thresholds.iter().flat_map(|text| ["--threshold", *text]);
        load.into_iter().chain(thresholds).collect()
    };
    let ran = run(&server, &with(&easy));
    assert_eq!(met(&ran), [true; 6], "{}", ran.result["thresholds"]);
    // The summary that users of k6 know precedes the report, which is Markdown.
    let (summary, report) = ran.stdout.split_once("\n```\n\n## ").unwrap();
    assert!(
        summary.starts_with("```text\n") && summary.contains("http_reqs"),
        "{summary}"
    );
    assert!(report.contains("\n## Latency\n"), "{report}");
    // On a busy machine the result may be suspect, but no operation was missed.
    assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stdout);
    assert!(
        ran.stdout.contains("http_req_waiting") && ran.stdout.contains("http_reqs"),
        "{}",
        ran.stdout
    );

    let ran = run(
        &server,
        &with(&["http_req_duration: p(95)<0.000001", "http_reqs: count>2"]),
    );
    assert_eq!((ran.code, met(&ran)), (4, vec![false, true]));
}

#[test]
fn loads_that_cannot_be_run_are_refused_before_the_first_request() {
    let server = well();
    let url = format!("http://{}/x", server.address());
    let calls = "
        {url} --threshold 'http_req_size: p(95)<5' => http_req_size … http_req_duration … dropped_iterations
        {url} --threshold 'http_req_duration: p95<5' => --threshold … p(95)
        {url} --check staus==200 => driver.checks[0] … `staus` … status==200
        {url} -m HEAD --check 'body contains a' => driver.checks … HEAD … status
        {url} -s 30x:100 => --stage … 30s:100
        --plan {plan} --set timeline.measure=10s => groups[0].stages … 5m … 10s
        --plan {plan} --set groups.0.stages.1.rate=5.0 => stages … `rate` … `users`
    ";
    for (call, parts) in rows(&calls.replace("{url}", &url).replace("{plan}", PLAN)) {
        program(&[]).call(call).refused(2, &parts);
    }
    assert_eq!(server.finish().connections, 0);
}

#[test]
fn the_plan_of_the_methodology_is_one() {
    let output = Command::new(PROGRAM)
        .args(["--plan", PLAN, "--print-plan"])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let plan: toml::Table = printed.parse().unwrap();
    assert_eq!(plan["timeline"]["measure"].as_str(), Some("5m"));
    let thresholds = plan["thresholds"].as_array().unwrap();
    assert_eq!(thresholds[1].as_str(), Some("service.p95 < 5ms"));
    assert_eq!(thresholds[3].as_str(), Some("checks.errors < 10%"));
}

#[test]
fn users_come_and_go_with_the_stages_and_take_their_connections_with_them() {
    for processes in ["1", "2"] {
        // Responses take a moment, so that ten clients are no burden to a busy machine.
        let server = Scripted::start(vec![
            Step::Expect,
            Step::SendSlowly(answer("", "hello"), 30, Duration::from_millis(10)),
            Step::Again,
        ]);
        let stages = ["-s", "1s:10,2s:10", "--stage", "1s:2,2s:2"];
        let workers = ["--processes", processes, "--threads", "2"];
        let ran = run(&server, &[stages, workers].concat());
        let held = |row: usize| ran.result.number(&format!("/seconds/{row}/counts/held"));
        // At the end of each second: no more clients than have started, and each number for a stage that lasted a
        // second.
        assert!((1..=10).contains(&held(0)), "{}", held(0));
        assert_eq!((held(1), ran.result.number("/operations/failed")), (10, 0));
        assert_eq!(held(4), 2);
        let shown = |line: &str| {
            let mut lines = ran.stdout.lines();
            lines
                .find(|found| found.trim_start().starts_with(line))
                .unwrap()
        };
        assert!(shown("vus.").contains("max=10"), "{}", ran.stdout);
        assert!(shown("vus_max.").ends_with(" 10"), "{}", ran.stdout);
        // Each client has one connection, and the check before the run two.
        assert_eq!(server.finish().connections, 10 + 2);
    }
}

#[test]
fn stages_of_a_rate_start_what_lies_under_their_curve() {
    let server = well();
    let ran = run(&server, &["--rate-stage", "1s:100,1s:100,1s:0", "-c", "5"]);
    // 50, 100 and 50, unless an operation was too late to start before the end.
    let of = |name: &str| ran.result.number(&format!("/operations/{name}"));
    assert_eq!(of("started") + of("missed"), 200);
    assert!(of("ok") > 0);
    assert!(
        ran.stdout.contains("vus_max.........................: 5"),
        "{}",
        ran.stdout
    );
}

#[test]
fn checks_are_counted_and_fail_no_request() {
    // Every other response is unexpected; the fields and the body arrive in pieces.
    let server = Scripted::start(vec![
        Step::Expect,
        Step::Send(answer("X-Kind: one\r\n", "{\"ok\":true,\"name\":\"a\"}")),
        Step::Expect,
        Step::SendSlowly(
            answer("X-Some: one\r\n", "{\"ok\":null,\"name\":\"b\"}"),
            20,
            Duration::from_millis(1),
        ),
        Step::Again,
    ]);
    let load = ["-c", "1", "-d", "1s", "--warmup", "0s", "--any-content"];
    let checks = [
        "status==200",
        "json.ok==true",
        "header.x-kind exists",
        "body contains \"name\"",
        "duration<60s",
    ];
    let words = checks.iter().flat_map(|text| ["--check", *text]);
    let words: Vec<&str> = load.into_iter().chain(words).collect();

    let ran = run(&server, &words);
    let ok = ran.result.number("/operations/ok");
    assert!(ok >= 2, "{ok}");
    assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stdout);
    let of = |check: &str| {
        let count = |begin: &str| ran.result.count(&format!("{begin}{check}"));
        (count("check passed: "), count("check failed: "))
    };
    let (odd, even) = (ok.div_ceil(2), ok / 2);
    for (check, expected) in [
        ("status==200", (ok, 0)),
        ("json.ok==true", (odd, even)),
        ("header.x-kind exists", (odd, even)),
        ("body contains \"name\"", (ok, 0)),
        ("duration<60s", (ok, 0)),
    ] {
        assert_eq!(of(check), expected, "{check}");
    }
    assert_eq!(ran.result.count("checks_passed"), 3 * ok + 2 * odd);
    assert_eq!(ran.result.count("checks_failed"), 2 * even);
    assert_eq!(ran.result.count("failed_a_check"), even);
    assert!(ran.stdout.contains("✗ json.ok==true"), "{}", ran.stdout);

    let missed = [
        "--threshold",
        "checks: rate>0.9",
        "--threshold",
        "errors: rate<0.1",
        "--threshold",
        "errors: rate<0.6",
    ];
    let words: Vec<&str> = words.into_iter().chain(missed).collect();
    let ran = run(&server, &words);
    assert_eq!((ran.code, met(&ran)), (4, vec![false, false, true]));
}
