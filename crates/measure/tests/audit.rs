//! The audit of handmade results: those of the seed document that do not add up, and correct ones.

#[path = "example/result.rs"]
mod example;

use std::collections::BTreeMap;

use measure::audit;
use measure::report::{FORMATS, html, markdown, terminal};
use measure::result::{
    AuditInputs, CounterComparison, FaultResult, Lifetime, OpeningTime, Operations, PlannedPhases,
    RunResult, Second, SeriesResult, StagedGroup,
};
use measure::suite::Suite;
use measure::tally::Distribution;
use measure::warning::{Kind, Severity, Verdict, Warning};
use proptest::prelude::*;

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

fn phases(warmup_s: f64, measure_s: f64, drain_s: f64) -> Option<PlannedPhases> {
    Some(PlannedPhases {
        warmup_s,
        measure_s,
        drain_s,
    })
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

#[test]
fn an_opening_is_no_part_of_the_load_and_is_told_where_not_all_was_open() {
    let opening = |complete| OpeningTime {
        took_s: 30.0,
        limit_s: 30.0,
        complete,
    };
    let mut result = good();
    result.wall_s += 30.0;
    for row in &mut result.seconds {
        row.second += 30;
    }
    result.audit_inputs.opening = Some(opening(true));
    assert_eq!(failing(&result), Vec::<String>::new());
    result.audit_inputs.opening = Some(opening(false));
    assert_eq!(
        failing(&result),
        [
            "seconds to open the connections, before the load: 30.0 s, not all open for at most 30.0 s"
        ]
    );
    audit::judge(&mut result);
    let hints = result.warnings.iter().map(|warning| &warning.hint);
    assert!(hints.clone().any(|hint| hint.contains("--open-timeout")));
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
    let rows: Vec<[String; 3]> = audit::comparisons(&result)
        .into_iter()
        .map(|row| [row.what, row.expected, row.found])
        .collect();
    let rows: Vec<[&str; 3]> = rows
        .iter()
        .map(|row| [row[0].as_str(), row[1].as_str(), row[2].as_str()])
        .collect();
    assert_eq!(
        rows,
        [
            [
                "open operations, mean (Little's law)",
                "100 = rate × time (72 to 128)",
                "100"
            ],
            [
                "busy users, mean (rate × time)",
                "100 planned (80 to 103)",
                "100"
            ],
            [
                "seconds from first start to the end",
                "10.0 s (9.6 s to 25.3 s)",
                "10.0 s"
            ],
            [
                "connections opened, with keep-alive",
                "at most 50,100",
                "100"
            ],
            [
                "bytes per answer, body",
                "1,024 B (1,014 B to 1,034 B)",
                "1,024 B"
            ],
            [
                "CPU of the driver's busiest worker",
                "at most 85 % of a core",
                "43 %"
            ],
            [
                "operations ok + failed + unfinished",
                "500,000 started",
                "500,000"
            ],
            ["requests by the daemon's count", "500,000", "500,000"],
        ]
    );
}

#[test]
fn fifteen_busy_users_where_the_plan_averages_1_965_are_suspect() {
    // k6 in the seed document: 3,421,532 requests of 1.05 ms in 240 s, with stages that last 300 s.
    let mut result = Loop {
        users: 15,
        seconds: 240,
        ns: 1_050_000,
    }
    .result();
    result.audit_inputs.users = Some(1_965.0);
    let result = judged(result);
    assert_eq!(
        failing(&result),
        ["busy users, mean (rate × time): 15 for 1,965 planned (1,572 to 2,005)"]
    );
    assert_eq!(result.verdict, Verdict::Suspect);
    let warning = &result.warnings[0];
    assert_eq!(
        (warning.kind, warning.severity),
        (Kind::Audit, Severity::Suspect)
    );
    assert!(
        warning.hint.contains("blocked in the client"),
        "{warning:?}"
    );
    // With a thousand failures it still does not add up.
    let mut result = result;
    result.operations.ok -= 1_000;
    result.operations.failed += 1_000;
    assert!(
        failing(&result)[0].starts_with("busy users"),
        "{:?}",
        failing(&result)
    );
}

#[test]
fn what_was_open_must_be_the_rate_times_the_mean_time() {
    let mut result = good();
    for row in &mut result.seconds {
        row.active_mean = Some(1_965.0);
    }
    assert_eq!(
        failing(&result),
        ["open operations, mean (Little's law): 1,965 for 100 = rate × time (72 to 128)"]
    );
    // If half of them have no recorded time, the figures agree.
    result.series[0].count /= 2;
    assert!(
        !failing(&result)
            .iter()
            .any(|row| row.starts_with("open operations"))
    );
    let mut result = good();
    for row in &mut result.seconds {
        row.active_mean = Some(20.0);
    }
    assert_eq!(failing(&result).len(), 1);
    // Times that include waiting before the start may exceed the open time.
    result.audit_inputs.lifetime.as_mut().unwrap().from_due = true;
    assert_eq!(failing(&result), [""; 0]);
}

#[test]
fn stages_that_do_not_fit_are_suspect() {
    let mut result = Loop {
        users: 15,
        seconds: 240,
        ns: 1_050_000,
    }
    .result();
    result.audit_inputs.staged = staged(300.0, 0.0);
    assert_eq!(
        failing(&result),
        ["seconds of load for the stages of users: 240 s for 300 s (at least 294 s)"]
    );
    assert_eq!(judged(result.clone()).verdict, Verdict::Suspect);
    result.phases = phases(0.0, 300.0, 5.0);
    result.audit_inputs.load_s = Some(300.0);
    assert_eq!(failing(&result).len(), 2, "{:?}", failing(&result));
    result.wall_s = 301.0;
    assert!(!failing(&result).iter().any(|row| row.contains("seconds")));
    // Results of another tool have no phases.
    result.phases = None;
    result.wall_s = 240.0;
    assert!(failing(&result)[0].contains("240 s for 300 s"));
}

#[test]
fn a_run_that_ends_early_or_drags_on_is_suspect() {
    for (wall_s, fits) in [
        (7.0, false),
        (9.9, true),
        (15.0, true),
        (24.0, true),
        (40.0, false),
    ] {
        let mut result = good();
        result.wall_s = wall_s;
        let told = failing(&result)
            .iter()
            .any(|row| row.starts_with("seconds from"));
        assert_eq!(told, !fits, "{wall_s}: {:?}", failing(&result));
    }
    let mut result = good();
    result.wall_s = 7.0;
    result.audit_inputs.load_s = None;
    assert!(
        !failing(&result)
            .iter()
            .any(|row| row.starts_with("seconds from"))
    );
}

#[test]
fn users_that_leave_as_the_stages_say_end_the_load_early_and_rightly() {
    let ended = |idle_tail_s: f64, wall_s: f64| {
        let mut result = good();
        result.phases = phases(0.0, 4.0, 5.0);
        result.audit_inputs = AuditInputs {
            load_s: Some(4.0),
            idle_tail_s,
            staged: staged(4.0, idle_tail_s),
            ..AuditInputs::default()
        };
        result.wall_s = wall_s;
        failing(&result)
    };
    assert_eq!(ended(0.4, 3.6), [""; 0]);
    assert_eq!(ended(0.4, 3.2).len(), 2);
    assert_eq!(ended(4.0, 0.1), [""; 0]);
    assert_eq!(ended(1.0, 3.0), [""; 0]);
    assert_eq!(ended(1.0, 2.5).len(), 2);
    assert_eq!(ended(0.0, 3.6).len(), 2);
}

/// A burst starts in one turn of the loop, so the start times of its operations are not known exactly.
#[test]
fn a_burst_that_began_in_one_long_turn_is_not_accused() {
    let mut result = good();
    for row in &mut result.seconds {
        row.active_mean = Some(180.0);
    }
    result.audit_inputs.users = None;
    assert_eq!(failing(&result).len(), 1);
    result.seconds[0].active_slack = Some(600.0);
    assert_eq!(failing(&result), [""; 0]);
}

#[test]
fn a_server_that_answers_the_wrong_file_with_200_is_suspect() {
    let mut result = good();
    let answers = result.count("answers");
    result.counts.insert("body_bytes".to_owned(), 145 * answers);
    assert_eq!(
        failing(&result),
        ["bytes per answer, body: 145 B for 1,024 B (1,014 B to 1,034 B)"]
    );
    assert_eq!(judged(result.clone()).verdict, Verdict::Suspect);
    // Another tool reports only all bytes, so the body alone would be larger.
    result.counts.remove("body_bytes");
    result.counts.insert("bytes".to_owned(), 145 * answers);
    assert_eq!(
        failing(&result),
        ["bytes per answer, head and body: 145 B for 1,024 B (at least 1,014 B)"]
    );
    // If the expected value is not known, the row only shows the figure.
    result.counts.remove("expected_body_bytes");
    assert_eq!(failing(&result), [""; 0]);
    let rows = audit::comparisons(&result);
    assert!(
        rows.iter()
            .any(|row| row.found == "145 B" && row.expected == "not known")
    );
}

#[test]
fn halves_of_answers_that_failed_are_no_wrong_file() {
    let mut result = good();
    let answers = result.count("answers");
    result.operations.ok -= 50_000;
    result.operations.failed += 50_000;
    result.errors.insert("length".to_owned(), 50_000);
    result
        .counts
        .insert("body_bytes".to_owned(), 1_024 * answers + 512 * 50_000);
    assert_eq!(failing(&result), [""; 0]);
    result
        .counts
        .insert("body_bytes".to_owned(), 2_048 * answers);
    assert_eq!(failing(&result).len(), 1);
}

#[test]
fn a_client_that_opens_a_connection_for_each_request_is_suspect() {
    let mut result = good();
    result.counts.insert("opened".to_owned(), 42_850);
    result.counts.insert("answers".to_owned(), 42_848);
    for bytes in ["body_bytes", "expected_body_bytes"] {
        result.counts.remove(bytes);
    }
    assert_eq!(
        failing(&result),
        ["connections opened, with keep-alive: 42,850 for at most 4,384"]
    );
    assert_eq!(judged(result.clone()).verdict, Verdict::Suspect);
    // These are allowed: a server that closes after 100 requests, failed connections, and a plan without keep-alive.
    result.counts.insert("opened".to_owned(), 528);
    assert_eq!(failing(&result), [""; 0]);
    result.counts.insert("opened".to_owned(), 42_850);
    let mut failed = result.clone();
    failed.operations.ok -= 42_750;
    failed.operations.failed += 42_750;
    assert!(
        !failing(&failed)
            .iter()
            .any(|row| row.starts_with("connections"))
    );
    let mut held = result.clone();
    held.seconds[0].counts.insert("held".to_owned(), 42_000);
    held.counts.insert("lost".to_owned(), 850);
    assert_eq!(failing(&held), [""; 0], "held, and opened again where lost");
    result.audit_inputs.reuses_connections = false;
    assert_eq!(failing(&result), [""; 0]);
}

#[test]
fn a_run_that_held_fewer_connections_than_planned_or_lost_some_is_suspect() {
    let mut result = good();
    let mut held = |held: u64, lost: u64| {
        result.audit_inputs.held = Some(1_000_000);
        result.seconds[0].counts.insert("held".to_owned(), held);
        result.counts.insert("lost".to_owned(), lost);
        failing(&result)
    };
    assert_eq!(held(1_000_000, 0), [""; 0]);
    assert_eq!(
        held(500_001, 0),
        ["connections held, peak: 500,001 for 1,000,000, none lost"]
    );
    assert_eq!(
        held(1_000_000, 3),
        ["connections held, peak: 1,000,000, 3 lost for 1,000,000, none lost"]
    );
}

#[test]
fn counts_that_differ_are_rows_and_are_told_once() {
    let mut result = good();
    result.audit_inputs.compared[0].daemon -= 1;
    result.operations.ok -= 1;
    assert_eq!(failing(&result).len(), 2);
    let told = judged(result.clone());
    assert_eq!((told.verdict, told.warnings.len()), (Verdict::Suspect, 2));
    result
        .warnings
        .push(Warning::counts_disagree("requests", 2, 1));
    let told = judged(result.clone());
    assert_eq!(told.warnings.len(), 1, "{:?}", told.warnings);
    // A restarted daemon may have lost some counts, but cannot have more.
    let mut started_again = good();
    started_again.audit_inputs.compared[0].whole = false;
    started_again.audit_inputs.compared[0].daemon -= 1_000;
    assert_eq!(failing(&started_again), [""; 0]);
    started_again.audit_inputs.compared[0].daemon += 2_000;
    assert_eq!(failing(&started_again).len(), 1);
    // A failed worker loses its unreported counts.
    let mut lost_worker = good();
    lost_worker.audit_inputs.compared[0].driver_short = true;
    lost_worker.audit_inputs.compared[0].daemon += 1_000;
    assert_eq!(failing(&lost_worker), [""; 0]);
    lost_worker.audit_inputs.compared[0].daemon -= 2_000;
    assert_eq!(failing(&lost_worker).len(), 1);
    lost_worker.audit_inputs.compared[0].whole = false;
    assert_eq!(failing(&lost_worker), [""; 0]);
}

#[test]
fn a_driver_that_used_its_core_is_a_row_and_its_warning_is_not_said_twice() {
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
fn reports_show_every_row_and_those_that_fail_in_bold_or_red() {
    let mut result = good();
    result.audit_inputs.users = Some(1_965.0);
    let result = judged(result);
    let shown = terminal::render(&std::slice::from_ref(&result).into()).unwrap();
    assert!(shown.starts_with("SUSPECT: "), "{shown}");
    let line = shown
        .lines()
        .find(|line| {
            line.trim_start()
                .starts_with("busy users, mean (rate × time)  ")
        })
        .unwrap();
    assert!(line.ends_with("DOES NOT ADD UP"), "{line}");
    let good_rows = shown.lines().filter(|line| line.ends_with("adds up"));
    assert_eq!(
        good_rows.count(),
        audit::comparisons(&result).len() - 1,
        "{shown}"
    );
    assert!(
        shown.lines().all(|line| line.chars().count() <= 100),
        "{shown}"
    );
    let coloured = terminal::coloured(&shown);
    let red = format!("\u{1b}[31m{line}\u{1b}[0m\n");
    assert!(coloured.contains(&red), "{coloured}");
    assert_eq!(coloured.matches('\u{1b}').count(), 2);
    let page = markdown::render(&std::slice::from_ref(&result).into()).unwrap();
    assert!(
        page.contains("| **busy users, mean (rate × time)** | **1,965 planned (1,572 to 2,006)** | **100** | **DOES NOT ADD UP** |"),
        "{page}"
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
    let page = markdown::render(&runs).unwrap();
    assert!(page.contains("\n## Audit\n"), "{page}");
    assert!(
        page.contains("| bytes per answer, body | 3 | adds up |"),
        "{page}"
    );
    assert!(
        page.contains("| **busy users, mean (rate × time)** | **3** | **DOES NOT ADD UP in 1** |"),
        "{page}"
    );
    assert!(
        page.contains("run 2** | **busy users, mean (rate × time)** | **1,965 planned (1,572 to 2,006)** | **100** | **DOES NOT ADD UP** |"),
        "{page}"
    );
    let html = html::render(&runs).unwrap();
    assert_eq!(html.matches("class=\"fails\"").count(), 1, "the sum");
    assert_eq!(
        html.matches(" fails\"").count(),
        1,
        "and the run, beside its daemon's colour"
    );
    let shown = terminal::render(&runs).unwrap();
    assert_eq!(terminal::coloured(&shown).matches("\u{1b}[31m").count(), 2);
}

/// Simulates users that run operations one after the other, with lengths drawn from `ns`, from warm-up to drain.
fn simulate(
    users: u64,
    warmup_s: f64,
    measure_s: f64,
    think: f64,
    mut draw: impl FnMut() -> f64,
) -> RunResult {
    let end = warmup_s + measure_s;
    let (mut times, mut spans) = (Distribution::default(), Vec::new());
    let (mut last, mut sum) = (0.0_f64, 0.0);
    for user in 0..users {
        // The users do not start in step.
        let mut at = user as f64 / users as f64 * 1e-3;
        while at < end {
            let took = draw();
            if at >= warmup_s {
                times.record((took * 1e9) as u64);
                spans.push((at, at + took));
                sum += took;
                last = last.max(at + took);
            }
            at += took * (1.0 + think);
        }
    }
    let wall_s = last.max(end);
    let mut seconds: Vec<Second> = (0..=wall_s as u64)
        .map(|second| Second {
            second,
            active_mean: Some(0.0),
            ..Second::default()
        })
        .collect();
    for (from, to) in &spans {
        for second in *from as u64..=*to as u64 {
            let open = (to.min(second as f64 + 1.0) - from.max(second as f64)).max(0.0);
            *seconds[second as usize].active_mean.get_or_insert(0.0) += open;
        }
    }
    assert!(
        (seconds
            .iter()
            .filter_map(|row| row.active_mean)
            .sum::<f64>()
            - sum)
            .abs()
            < 1e-6 * (1.0 + sum)
    );
    let operations = spans.len() as u64;
    RunResult {
        wall_s,
        phases: phases(warmup_s, measure_s, 60.0),
        operations: Operations {
            started: operations,
            ok: operations,
            peak_active: users,
            ..Operations::default()
        },
        counts: BTreeMap::new(),
        errors: BTreeMap::new(),
        series: SeriesResult::from_distribution("response", &times)
            .into_iter()
            .collect(),
        seconds,
        warnings: Vec::new(),
        audit_inputs: AuditInputs {
            lifetime: Some(Lifetime::new("response")),
            users: Some(users as f64),
            load_s: Some(end),
            ..AuditInputs::default()
        },
        ..example::full()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_closed_loop_of_busy_users_is_suspect(
        users in 1..60_u64,
        warmup_ms in 0..3_000_u32,
        measure_ms in 500..6_000_u32,
        median_us in 5_000..20_000_u32,
        spread in 1.0..10.0_f64,
        seed in 1..u64::MAX,
    ) {
        let mut state = seed;
        // From the median to `spread` times the median; long ones are rare.
        let draw = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
            f64::from(median_us) * 1e-6 * (1.0 + (spread - 1.0) * share.powi(8))
        };
        let result = simulate(users, f64::from(warmup_ms) / 1e3, f64::from(measure_ms) / 1e3, 0.0, draw);
        prop_assert_eq!(failing(&result), Vec::<String>::new());
    }

    #[test]
    fn users_that_wait_twice_as_long_as_they_are_busy_are_found(
        users in 10..60_u64,
        measure_ms in 2_000..6_000_u32,
        median_us in 5_000..40_000_u32,
    ) {
        let result = simulate(users, 0.5, f64::from(measure_ms) / 1e3, 2.0, || f64::from(median_us) * 1e-6);
        let found = failing(&result);
        prop_assert_eq!(found.len(), 1);
        prop_assert!(found[0].starts_with("busy users"), "{:?}", found);
    }

    #[test]
    fn no_result_makes_the_audit_panic(
        numbers in proptest::collection::vec(any::<u64>(), 8),
        floats in proptest::collection::vec(any::<f64>(), 5),
    ) {
        let mut result = good();
        result.wall_s = floats[0];
        result.audit_inputs.users = Some(floats[1]);
        result.audit_inputs.load_s = Some(floats[2]);
        result.phases = phases(floats[0], floats[2], floats[3]);
        result.audit_inputs.staged = staged(floats[1], floats[3]);
        result.audit_inputs.worker_cpu_pct = Some(floats[4]);
        result.seconds[0].active_mean = Some(floats[0]);
        result.series[0].count = numbers[0];
        result.audit_inputs.lifetime.as_mut().unwrap().counted_late_ns = numbers[1];
        for (name, number) in ["answers", "body_bytes", "opened", "retries"].iter().zip(&numbers[2..]) {
            result.counts.insert((*name).to_owned(), *number);
        }
        for row in audit::comparisons(&result) {
            prop_assert!(!row.what.is_empty() && !row.found.is_empty() && !row.expected.is_empty());
        }
    }
}
