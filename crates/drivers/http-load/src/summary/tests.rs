//! Tests of both summaries, with handmade results.

use std::collections::BTreeMap;
use std::time::Duration;

use load::plan::{Group, Plan, PlannedStage, Timeline};
use load::schedule::Arrival;
use measure::machine::Machine;
use measure::result::{DaemonInfo, Operations, RunResult, SCHEMA, Second, SeriesResult, Usage};
use measure::tally::Distribution;
use measure::throughput::{Overload, Throughput};
use measure::warning::Verdict;

use crate::settings::Settings;

fn group(workers: u64, stages: Vec<PlannedStage>) -> Group {
    Group {
        name: "requests".to_owned(),
        clients: workers,
        ramp: Duration::ZERO,
        rate: None,
        arrival: Arrival::Constant,
        stages,
        ops: None,
    }
}

fn plan(group: Group) -> Plan<Settings> {
    let timeline = Timeline {
        warmup: Duration::from_secs(1),
        measure: Duration::from_secs(4),
        drain: Duration::from_secs(31),
    };
    Plan::new("command-line", timeline, vec![group], Settings::default())
}

fn named(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let owned = |(name, count): &(&str, u64)| ((*name).to_owned(), *count);
    counts.iter().map(owned).collect()
}

/// Builds a series of 1,000 values: 1, 2 … 1,000 times `unit` nanoseconds. Percentiles are the histogram's:
/// within 0.1 %.
fn series(name: &str, unit: u64) -> SeriesResult {
    let mut values = Distribution::default();
    (1..=1000).for_each(|place| values.record(place * unit));
    SeriesResult::from_distribution(name, &values).unwrap()
}

fn result(plan: &Plan<Settings>, errors: &[(&str, u64)]) -> RunResult {
    let failed: u64 = errors.iter().map(|(_, count)| count).sum();
    let held = |(second, held): (usize, &u64)| Second {
        second: second as u64,
        counts: named(&[("held", *held)]),
        ..Second::default()
    };
    let seconds: Vec<Second> = [7, 20, 100, 60, 2, 0]
        .iter()
        .enumerate()
        .map(held)
        .collect();
    let all = ["response", "service", "waiting"]
        .into_iter()
        .zip([1_000, 900, 850]);
    let all: Vec<SeriesResult> = all.map(|(name, unit)| series(name, unit)).collect();
    // Fields that a stored result leaves out are absent.
    let result = serde_json::json!({
        "schema": SCHEMA,
        "run_id": "a",
        "driver": "http-load",
        "started_at": "2026-01-31T12:00:00Z",
        "wall_s": 5.2,
        "plan": plan,
        "plan_sentence": "",
        "daemon": DaemonInfo { target: "http://127.0.0.1:8080".to_owned(), ..DaemonInfo::default() },
        "machine": Machine::default(),
        "processes": 1,
        "threads": 2,
        "verdict": Verdict::Valid,
        "warnings": [],
        "operations": Operations { started: 1000 + failed, ok: 1000, failed, ..Operations::default() },
        "counts": named(&[
            ("answers", 1010),
            ("bytes", 5_000_000),
            ("bytes_sent", 60_000),
            ("checks_passed", 1990),
            ("checks_failed", 10),
            ("failed_a_check", 8),
            ("check passed: status==200", 1000),
            ("check passed: duration<500ms", 990),
            ("check failed: duration<500ms", 10),
        ]),
        "throughput": Throughput {
            measured_s: 4.0,
            ok: 1000,
            failed,
            counts: named(&[("answers", 1010), ("bytes", 5_000_000), ("bytes_sent", 60_000)]),
            ..Throughput::default()
        },
        "errors": named(errors),
        "series": all,
        // The first second is warm-up, the last one drain.
        "seconds": seconds,
        "usage": Usage::default(),
    });
    serde_json::from_value(result).unwrap()
}

#[test]
fn a_closed_loop_without_stages_ends_with_the_block_of_wrk() {
    let errors = [
        ("status", 10),
        ("refused", 2),
        ("reset", 3),
        ("early_close", 1),
        ("timeout", 4),
    ];
    let text = super::render(&result(&plan(group(100, Vec::new())), &errors)).unwrap();
    let expected = "\
Running 4s test @ http://127.0.0.1:8080
  2 threads and 100 connections
  Latency Distribution
     50%  500.22µs
     75%  750.08µs
     90%   900.1µs
     99%  990.21µs
  1010 requests in 4.00s, 4.77MB read
  Socket errors: connect 2, read 4, timeout 4
  Non-2xx or 3xx responses: 10
Requests/sec:     252.50
Transfer/sec:     1.19MB";
    assert_eq!(text, expected);
    let quiet = super::render(&result(&plan(group(100, Vec::new())), &[])).unwrap();
    assert!(
        !quiet.contains("errors") && !quiet.contains("Non-2xx"),
        "{quiet}"
    );
}

#[test]
fn errors_of_a_response_are_no_socket_errors() {
    let errors = [
        ("length", 1),
        ("body", 2),
        ("tls", 3),
        ("redirect_elsewhere", 4),
        ("too_many_redirects", 5),
    ];
    let text = super::render(&result(&plan(group(100, Vec::new())), &errors)).unwrap();
    let lines = "
  Responses with an unexpected length: 1
  Responses with an unexpected body: 2
  Redirects that were not followed: 9
  TLS errors: 3
Requests/sec";
    assert!(
        text.contains(lines) && !text.contains("Socket errors"),
        "{text}"
    );
}

#[test]
fn stages_and_checks_end_with_the_block_of_k6() {
    let stages = vec![
        PlannedStage::to_users(100, Duration::from_secs(3)),
        PlannedStage::to_users(0, Duration::from_secs(2)),
    ];
    let mut plan = plan(group(0, stages));
    plan.driver.checks = ["status==200", "duration<500ms"].map(str::to_owned).into();
    let text = super::render(&result(&plan, &[("reset", 10)])).unwrap();
    let expected = "     ✓ status==200
     ✗ duration<500ms
      ↳  99.00% — ✓ 990 / ✗ 10

     checks..........................: 99.50% ✓ 1990         ✗ 10
     data_received...................: 5.00 MB      1.25 MB/s
     data_sent.......................: 60.00 kB     15.00 kB/s
     errors..........................: 1.78% ✓ 18           ✗ 992
     http_req_duration...............: avg=450.45µs  min=900ns     med=450.05µs  max=900.1µs   p(90)=810.5µs   p(95)=855.04µs
     http_req_failed.................: 0.99% ✓ 10           ✗ 1000
     http_req_waiting................: avg=425.43µs  min=850ns     med=425.21µs  max=850.43µs  p(90)=765.44µs  p(95)=807.93µs
     http_reqs.......................: 1010         252.50/s
     iteration_duration..............: avg=500.5µs   min=1µs       med=500.22µs  max=1ms       p(90)=900.1µs   p(95)=950.27µs
     iterations......................: 1010         252.50/s
     vus.............................: 2            min=2          max=100
     vus_max.........................: 100";
    assert_eq!(text, expected);
}

#[test]
fn a_threshold_alone_asks_for_the_block_of_k6_and_says_what_was_missed() {
    let mut plan = plan(group(100, Vec::new()));
    plan.thresholds = vec!["service.p95 < 5ms".to_owned()];
    let mut result = result(&plan, &[]);
    result.operations.missed = 40;
    let text = super::render(&result).unwrap();
    assert!(
        text.contains("dropped_iterations..............: 40           10.00/s"),
        "{text}"
    );
    assert!(!text.contains("checks"), "{text}");
}

#[test]
fn a_phase_that_took_no_time_is_0_as_k6_has_it() {
    let shown = [1.0, 0.0, 1.5, 999.0].map(super::time);
    assert_eq!(shown, ["0s", "0s", "1.5ns", "999ns"]);
}

#[test]
fn answers_after_the_measured_time_are_in_no_rate() {
    let mut result = result(&plan(group(100, Vec::new())), &[]);
    let throughput = result.throughput.as_mut().unwrap();
    throughput.ok = 400;
    throughput.counts = named(&[("answers", 400), ("bytes", 2_000_000)]);
    throughput.overload = Some(Overload {
        headline: "overloaded: offered 250/s, served 100/s, backlog grew by 150/s".to_owned(),
        ..Overload::default()
    });
    let wrk = super::render(&result).unwrap();
    assert!(
        wrk.contains("  400 requests in 4.00s, 1.91MB read\nRequests/sec:     100.00\n")
            && wrk.ends_with("\noverloaded: offered 250/s, served 100/s, backlog grew by 150/s"),
        "{wrk}"
    );
    let staged = vec![PlannedStage::to_users(100, Duration::from_secs(4))];
    result.plan = serde_json::to_value(plan(group(0, staged))).unwrap();
    let k6 = super::render(&result).unwrap();
    assert!(
        k6.contains("http_reqs.......................: 1000         100.00/s")
            && k6.contains("data_received...................: 5.00 MB      500.00 kB/s")
            && k6.ends_with("overloaded: offered 250/s, served 100/s, backlog grew by 150/s"),
        "{k6}"
    );
}
