//! The audit of handmade results: figures of the seed document that do not add up, and correct ones.

mod counts;
mod load;
mod simulation;

use std::collections::BTreeMap;

use measure::audit;
use measure::report::{FORMATS, html, markdown};
use measure::result::{
    AuditInputs, CounterComparison, FaultResult, Lifetime, OpeningTime, Operations, RunResult,
    Second, SeriesResult, StagedGroup,
};
use measure::suite::Suite;
use measure::tally::Distribution;
use measure::warning::{Kind, Severity, Verdict, Warning};
use proptest::prelude::*;

use crate::assert_contains;
use crate::example::{phases, result as example};

/// A closed loop: `users` run operations of a fixed time one after the other, for a number of seconds.
struct Loop {
    users: u64,
    seconds: u64,
    ns: u64,
}

impl Loop {
    /// Builds a consistent result.
    fn result(&self) -> RunResult {
        let each = self.seconds * 1_000_000_000 / self.ns;
        let operations = self.users * each;
        let mut times = Distribution::default();
        (0..operations.min(10_000)).for_each(|_| times.record(self.ns));
        let mut response =
            SeriesResult::from_distribution("response", &times).expect("it took times");
        response.count = operations;
        let second = |second| Second {
            second,
            active: self.users,
            active_peak: self.users,
            active_mean: Some(self.users as f64),
            counts: named(&[("started", operations / self.seconds)]),
            ..Second::default()
        };
        RunResult {
            wall_s: self.seconds as f64,
            spec: example::spec::REQUESTS.clone(),
            phases: phases(0.0, self.seconds as f64, 5.0),
            operations: Operations {
                started: operations,
                ok: operations,
                peak_active: self.users,
                ..Operations::default()
            },
            counts: named(&[
                ("answers", operations),
                ("body_bytes", operations * 1_024),
                ("expected_body_bytes", operations * 1_024),
                ("bytes", operations * 1_264),
                ("opened", self.users),
            ]),
            errors: BTreeMap::new(),
            series: vec![response],
            seconds: (0..self.seconds).map(second).collect(),
            warnings: Vec::new(),
            verdict: Verdict::Valid,
            audit_inputs: AuditInputs {
                lifetime: Some(Lifetime::new("response")),
                users: Some(self.users as f64),
                reuses_connections: true,
                load_s: Some(self.seconds as f64),
                worker_cpu_pct: Some(43.0),
                compared: vec![CounterComparison {
                    name: "requests".to_owned(),
                    driver: operations,
                    daemon: operations,
                    whole: true,
                    driver_short: false,
                }],
                ..AuditInputs::default()
            },
            ..example::full()
        }
    }
}

fn staged(planned_s: f64, idle_tail_s: f64) -> Vec<StagedGroup> {
    vec![StagedGroup {
        group: "users".to_owned(),
        planned_s,
        idle_tail_s,
    }]
}

/// Builds a small version of the seed document's throughput run: 100 users for 10 s.
fn good() -> RunResult {
    let all = Loop {
        users: 100,
        seconds: 10,
        ns: 2_000_000,
    };
    all.result()
}

fn named(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let owned = counts
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    owned.collect()
}

/// Returns the subjects of the failed rows.
fn failing(result: &RunResult) -> Vec<String> {
    let rows = audit::comparisons(result).into_iter();
    rows.filter(|row| !row.consistent)
        .map(|row| format!("{}: {} for {}", row.what, row.found, row.expected))
        .collect()
}

/// Returns the result after the audit.
fn judged(mut result: RunResult) -> RunResult {
    audit::judge(&mut result);
    result
}

#[test]
fn every_comparison_of_a_good_run_is_a_row_that_adds_up() {
    let result = judged(good());
    assert_eq!(failing(&result), [""; 0]);
    assert_eq!((result.verdict, result.warnings.len()), (Verdict::Valid, 0));
    let rows: Vec<String> = audit::comparisons(&result)
        .into_iter()
        .map(|row| format!("{} | {} | {}", row.what, row.expected, row.found))
        .collect();
    assert_eq!(
        rows,
        [
            "open operations, mean (Little's law) | 100 = rate × time (72 to 128) | 100",
            "busy users, mean (rate × time) | 100 planned (80 to 103) | 100",
            "seconds from first start to the end | 10.0 s (9.6 s to 25.3 s) | 10.0 s",
            "connections opened, with keep-alive | at most 50,100 | 100",
            "bytes per answer, body | 1,024 B (1,014 B to 1,034 B) | 1,024 B",
            "CPU of the driver's busiest worker | at most 85 % of a core | 43 %",
            "operations ok + failed + unfinished | 500,000 started | 500,000",
            "requests by the daemon's count | 500,000 | 500,000",
        ]
    );
}

#[test]
fn a_driver_that_used_its_core_is_a_row_and_its_warning_is_not_repeated() {
    let mut result = good();
    result.audit_inputs.worker_cpu_pct = Some(97.0);
    let full = Warning::generator_cpu_bound(Severity::Invalid, 97.0, 10, 10);
    result.warnings.push(full);
    let result = judged(result);
    assert_eq!((failing(&result).len(), result.warnings.len()), (1, 1));
    assert_eq!(result.verdict, Verdict::Invalid);
}

#[test]
fn times_of_a_run_that_was_disturbed_on_purpose_are_not_judged_and_its_counts_are() {
    let disturb: [fn(&mut RunResult); 3] = [
        |result| result.warnings.push(Warning::interrupted(1.0, 10.0)),
        |result| result.warnings.push(Warning::daemon_died("signal 9", "")),
        |result| {
            result.faults.push(FaultResult {
                what: "SIGSTOP for 5s".to_owned(),
                at_s: 1.0,
                back_s: Some(6.0),
            });
        },
    ];
    for disturb in disturb {
        let mut result = good();
        result.wall_s = 2.0;
        result.audit_inputs.users = Some(5_000.0);
        result.counts.insert("opened".to_owned(), 400_000);
        disturb(&mut result);
        assert_eq!(failing(&result), [""; 0]);
        result.operations.ok -= 1;
        assert_eq!(failing(&result).len(), 1);
    }
}

#[test]
fn a_result_without_facts_has_the_rows_that_its_figures_allow() {
    let result = example::full();
    let whats: Vec<String> = audit::comparisons(&result)
        .into_iter()
        .map(|row| row.what)
        .collect();
    assert_eq!(whats, ["operations ok + failed + unfinished"]);
    // wrk in the seed document: 17,102,453 requests of 3.51 ms in 60.05 s over 1,000 connections, 2.31 GB.
    let mut times = Distribution::default();
    times.record(3_510_000);
    let mut series = SeriesResult::from_distribution("response", &times).unwrap();
    (series.count, series.mean_ns) = (17_102_453, 3.51e6);
    let wrk = RunResult {
        wall_s: 60.05,
        spec: example::spec::REQUESTS.clone(),
        phases: None,
        operations: Operations {
            started: 17_102_453,
            ok: 17_102_453,
            ..Operations::default()
        },
        errors: BTreeMap::new(),
        counts: named(&[("answers", 17_102_453), ("bytes", 2_480_343_613)]),
        series: vec![series],
        seconds: Vec::new(),
        audit_inputs: AuditInputs {
            lifetime: Some(Lifetime::new("response")),
            users: Some(1_000.0),
            ..AuditInputs::default()
        },
        ..example::full()
    };
    assert_eq!(failing(&wrk), [""; 0]);
    let rows = audit::comparisons(&wrk);
    assert!(
        rows.iter()
            .any(|row| row.what.starts_with("bytes") && row.found == "145 B")
    );
    assert!(
        rows.iter()
            .any(|row| row.what.starts_with("busy users") && row.found == "1,000")
    );
}

#[test]
fn reports_show_every_row_and_those_that_fail_in_bold() {
    let mut result = good();
    result.audit_inputs.users = Some(1_965.0);
    let result = judged(result);
    let page = markdown::render(&std::slice::from_ref(&result).into());
    assert!(page.starts_with("## SUSPECT: "), "{page}");
    let good_rows = page.lines().filter(|line| line.ends_with("| adds up |"));
    assert_eq!(
        good_rows.count(),
        audit::comparisons(&result).len() - 1,
        "{page}"
    );
    assert_contains(
        &page,
        &[
            "| **busy users, mean (rate × time)** | **1,965 planned (1,572 to 2,006)** | **100** | **DOES NOT ADD UP** |",
        ],
    );
    for format in FORMATS.iter().filter(|format| format.name == "json") {
        assert!(
            format
                .render(std::slice::from_ref(&result))
                .unwrap()
                .contains("\"Audit\"")
        );
    }
}

#[test]
fn a_suite_counts_the_runs_that_add_up_and_names_those_that_do_not() {
    let mut other = good();
    other.audit_inputs.users = Some(1_965.0);
    let runs = Suite {
        name: "audited".to_owned(),
        results: vec![good(), judged(other), good()],
        ..Suite::default()
    };
    let page = markdown::render(&runs);
    assert_contains(
        &page,
        &[
            "\n## Audit\n",
            "| bytes per answer, body | 3 | adds up |",
            "| **busy users, mean (rate × time)** | **3** | **DOES NOT ADD UP in 1** |",
            "run 2** | **busy users, mean (rate × time)** | **1,965 planned (1,572 to 2,006)** | **100** | **DOES NOT ADD UP** |",
        ],
    );
    let html = html::render(&runs).unwrap();
    assert_eq!(html.matches("class=\"fails\"").count(), 1, "the sum");
    assert_eq!(
        html.matches(" fails\"").count(),
        1,
        "and the run, beside its daemon's colour"
    );
}
