//! The sentences that answer the question of a suite.

use super::*;
use measure::metrics::check_primary;
use measure::report::{Judgement, against_control, summary};
use measure::result::RunResult;
use measure::suite::Planned;

/// A suite of four daemons at three levels with five runs each.
fn large() -> Suite {
    suite_of(FOUR, &[100, 1_000, 10_000], 5)
}

/// Returns the lines of the answer.
fn answer(suite: &Suite) -> String {
    let report = markdown(suite);
    let (_, answer) = report.split_once("## Answer\n\n").unwrap();
    answer.split("\n\n").next().unwrap().to_owned()
}

fn suite_of(daemons: &'static [&'static str], levels: &'static [u64], runs: u64) -> Suite {
    suite::build(&Shape {
        daemons,
        levels,
        runs,
        seconds: 10,
    })
}

/// Returns the statement that a daemon is worse than the control by a metric, if it is.
#[track_caller]
fn worse(suite: &Suite, metric: Option<&str>) -> Option<String> {
    match against_control(suite, metric).unwrap() {
        Judgement::Worse(statement) => Some(statement),
        Judgement::Unproven | Judgement::NotCompared => None,
    }
}

/// Changes the peak memory of a daemon's runs by a factor for each.
fn grow(suite: &mut Suite, daemon: &str, factors: &[f64]) {
    let runs = suite.results.iter_mut();
    let runs = runs.filter(|run| run.daemon.name == daemon);
    for (run, factor) in runs.zip(factors.iter().cycle()) {
        let usage = run.usage.daemon.as_mut().unwrap();
        let growth = (usage.rss_peak_kb - usage.rss_baseline_kb) as f64;
        usage.rss_peak_kb = usage.rss_baseline_kb + (growth * factor) as u64;
    }
}

#[test]
fn two_daemons_are_compared_in_a_line_for_each_metric_with_the_command_for_what_is_open() {
    let mut suite = suite_of(&["go-streaming", "rust-streaming"], &[100, 1_000], 3);
    grow(&mut suite, "rust-streaming", &[9.0, 12.0, 16.0]);
    suite.planned = Some(Planned {
        levels: 3,
        repetitions: 5,
    });
    suite.command =
        Some("drover run configs/fdpass/quick.toml --repeat 3 --level 100,1000".to_owned());
    assert_snapshot!(answer(&suite), @"
    - **latency:** rust-streaming is better: TTFB p50 32.9 µs, 3.2 × less than go-streaming (3.2–3.2 ×, 3 runs)
    - **latency:** rust-streaming is better: TTFB p90 60.8 µs, 3.3 × less than go-streaming (3.3–3.4 ×, 3 runs)
    - **latency:** rust-streaming is better: TTFB p99 118 µs, 3.5 × less than go-streaming (3.5–3.5 ×, 3 runs)
    - **memory:** go-streaming and rust-streaming: undecided in peak memory (9.86 MiB and 9.93 MiB: 1.01 ×, 0.42–2.4, 3 runs); 3 runs could have shown 167 % or more, and 3.0 % needs more runs than are worth planning
    - **CPU:** rust-streaming is better: 120 µs of CPU per operation, 3.3 × less than go-streaming (2.6–4.1 ×, 3 runs)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **failures:** none: every operation succeeded
    - **level:** the comparison is at 1,000, the highest that every daemon reached; the order is the same at 100
    - **ran:** 2 of 3 levels, 3 of 5 repetitions
    ");
}

#[test]
fn one_run_each_is_no_evidence_whatever_the_ratio() {
    assert_snapshot!(answer(&suite_of(&FOUR[2..], &[1_000], 1)), @"
    - **latency:** rust-streaming and php-streaming: undecided in TTFB p50 (32.2 µs and 116 µs: 3.6 ×; 1 run is too few)
    - **latency:** rust-streaming and php-streaming: undecided in TTFB p90 (59.6 µs and 250 µs: 4.2 ×; 1 run is too few)
    - **latency:** rust-streaming and php-streaming: undecided in TTFB p99 (115 µs and 570 µs: 5.0 ×; 1 run is too few)
    - **memory:** rust-streaming and php-streaming: undecided in peak memory (4.48 MiB and 13.6 MiB: 3.0 ×; 1 run is too few)
    - **CPU:** rust-streaming and php-streaming: undecided in CPU time (118 µs and 490 µs: 4.2 ×; 1 run is too few)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **failures:** none: every operation succeeded
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 1 repetition
    - **to settle:** drover run configs/fdpass/quick.toml --repeat 5
    ");
}

#[test]
fn memory_is_compared_by_connection_where_each_daemon_shows_it_and_else_by_its_peak() {
    let mut suite = suite::build(&Shape {
        daemons: &["go-streaming", "rust-streaming"],
        levels: &[1_000],
        runs: 3,
        seconds: 100,
    });
    let go = |run: &RunResult| run.daemon.name == "go-streaming";
    for run in &mut suite.results {
        let kib = if go(run) { 6.0 } else { 0.5 };
        for sample in &mut run.resources {
            let open = sample.active.unwrap();
            sample.daemon.as_mut().unwrap().rss_kb = (4_096.0 + kib * open) as u64;
        }
    }
    let text = answer(&suite);
    let better = "**memory:** rust-streaming is better: 512 B per connection, 12 × less than";
    assert!(text.contains(better), "{text}");
    // The heap of one of them warms up: it grows with time, while connections are opened and after.
    for run in suite.results.iter_mut().filter(|run| go(run)) {
        for sample in &mut run.resources {
            sample.daemon.as_mut().unwrap().rss_kb = (4_096.0 + 100.0 * sample.at_s) as u64;
        }
    }
    let text = answer(&suite);
    assert_contains(
        &text,
        &["**memory:** rust-streaming is better: 4.", " at its peak, "],
    );
}

#[test]
fn ratio_and_values_of_a_sentence_are_of_the_same_runs() {
    let mut suite = suite_of(&FOUR[2..], &[1_000], 2);
    // The second run of rust-streaming does not count, so that of php-streaming has no partner.
    suite::invalidate(
        suite
            .results
            .iter_mut()
            .rfind(|run| run.daemon.name == "rust-streaming")
            .unwrap(),
    );
    grow(&mut suite, "php-streaming", &[0.1, 9.0]);
    let text = answer(&suite);
    assert_contains(
        &text,
        &["peak memory (4.48 MiB and 4.96 MiB: 1.11 ×; 1 run is too few)"],
    );
}

#[test]
fn a_daemon_with_too_few_valid_runs_hides_no_conclusion_about_the_others() {
    let mut suite = suite_of(FOUR, &[1_000], 3);
    let mut runs = suite.results.iter_mut();
    suite::invalidate(
        runs.rfind(|run| run.daemon.name == "python-streaming")
            .unwrap(),
    );
    let text = answer(&suite);
    let latency = text.lines().find(|line| line.contains("latency")).unwrap();
    assert_eq!(
        latency,
        "- **latency:** rust-streaming is best: TTFB p50 32.9 µs, 3.2 × less than go-streaming (next; 3.2–3.2 ×), 3.6 × less than php-streaming (last compared; 3.6–3.6 ×); 3 runs; too few valid runs of python-streaming"
    );
    let memory = text.lines().find(|line| line.contains("memory")).unwrap();
    assert_contains(
        memory,
        &[
            "rust-streaming is best",
            "too few valid runs of python-streaming",
        ],
    );
}

#[test]
fn a_daemon_that_failed_clients_says_so_first_and_is_not_praised() {
    let mut suite = suite_of(FOUR, &[1_000], 3);
    for run in &mut suite.results {
        match run.daemon.name.as_str() {
            "rust-streaming" => suite::kill(run),
            "php-streaming" => suite::invalidate(run),
            _ => {}
        }
    }
    assert_snapshot!(answer(&suite), @"
    - **failures:** rust-streaming: 126 of 3,000 operations failed (lost 120, reset 6)
    - **excluded:** php-streaming: not measured validly (a worker of the driver used 97 % of a core: it may be the bottleneck); rust-streaming: 4.2 % of its operations failed, more than 1 %: only the failures are compared
    - **latency:** go-streaming is better: TTFB p50 105 µs, 3.2 × less than python-streaming (3.2–3.3 ×, 3 runs)
    - **latency:** go-streaming is better: TTFB p90 203 µs, 5.6 × less than python-streaming (5.6–5.6 ×, 3 runs)
    - **latency:** go-streaming is better: TTFB p99 412 µs, 10 × less than python-streaming (10–10 ×, 3 runs)
    - **memory:** python-streaming is better by at least 3 %: 8.88 MiB at its peak, 9.9 % less than go-streaming (9.4–10 %, 3 runs)
    - **CPU:** go-streaming is better by at least 3 %: 390 µs of CPU per operation, 37 % less than python-streaming (31–42 %, 3 runs)
    - **failures:** go-streaming and python-streaming: undecided in failure rate (0 % and 0 %: 0 points, −0.575 to 0.575, 3 runs); 3 runs could have shown 0.618 points or more, and 0.1 percentage points needs more runs than are worth planning; go-streaming has 4.20 points less than rust-streaming (last; 3.62–4.78 points)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 3 repetitions, 3 of 12 runs INVALID and left out
    ");
}

/// Lets operations of a daemon's runs fail, run by run.
fn fail(suite: &mut Suite, daemon: &str, failures: &[u64]) {
    let runs = suite.results.iter_mut();
    let runs = runs.filter(|run| run.daemon.name == daemon);
    for (run, failed) in runs.zip(failures.iter().cycle()) {
        run.operations.ok -= failed;
        run.operations.failed += failed;
        run.errors.insert("reset".to_owned(), *failed);
    }
}

#[test]
fn a_few_failures_are_compared_beside_all_other_metrics() {
    let mut suite = suite_of(&["go-streaming", "rust-streaming"], &[1_000], 5);
    fail(&mut suite, "rust-streaming", &[3, 4, 5, 4, 3]);
    assert_snapshot!(answer(&suite), @"
    - **failures:** rust-streaming: 19 of 5,000 operations failed (reset 19)
    - **latency:** rust-streaming is better: TTFB p50 33.5 µs, 3.2 × less than go-streaming (3.2–3.2 ×, 5 runs)
    - **latency:** rust-streaming is better: TTFB p90 62.0 µs, 3.3 × less than go-streaming (3.3–3.3 ×, 5 runs)
    - **latency:** rust-streaming is better: TTFB p99 120 µs, 3.5 × less than go-streaming (3.5–3.5 ×, 5 runs)
    - **memory:** rust-streaming is better: 4.50 MiB at its peak, 2.2 × less than go-streaming (2.1–2.3 ×, 5 runs)
    - **CPU:** rust-streaming is better: 122 µs of CPU per operation, 3.2 × less than go-streaming (2.9–3.7 ×, 5 runs)
    - **failures:** go-streaming is better by at least 0.1 percentage points: failure rate 0 %, 0.380 points less than rust-streaming (0.125–0.635 points, 5 runs)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 5 repetitions
    ");
    suite.control = Some("go-streaming".to_owned());
    let text = answer(&suite);
    let failures = text.lines().find(|line| line.contains("failure rate"));
    assert_snapshot!(failures.unwrap(), @r"- **failures:** failure rate of rust-streaming is worse by at least 0.1 percentage points: +0.380 points \[+0.125, +0.635\] (0 % → 0.380 %, 5 runs), against go-streaming");
    // The other metrics have no word for it.
    assert_eq!(worse(&suite, None), None);
    assert_snapshot!(worse(&suite, Some("errors.rate")).unwrap(), @"failure rate of rust-streaming is worse by at least 0.1 percentage points: +0.380 points [+0.125, +0.635], against go-streaming");
    let table = summary::render(&suite);
    assert_contains(&table, &["| daemon | level | failed % | ", " 0.380 "]);
    // A single burst decides nothing.
    let mut suite = suite_of(&["go-streaming", "rust-streaming"], &[1_000], 5);
    suite.control = Some("go-streaming".to_owned());
    let judged = against_control(&suite, Some("errors.rate"));
    assert_eq!(judged, Ok(Judgement::Unproven), "nothing failed");
    fail(&mut suite, "rust-streaming", &[0, 0, 40, 0, 0]);
    assert_contains(
        &answer(&suite),
        &["failure rate of rust-streaming is undecided"],
    );
    assert_eq!(worse(&suite, Some("errors.rate")), None);
}

#[test]
fn a_daemon_that_failed_too_much_is_compared_by_its_failures_only() {
    let mut suite = suite_of(&["go-streaming", "rust-streaming"], &[1_000], 5);
    fail(&mut suite, "rust-streaming", &[42, 40, 44, 41, 43]);
    assert_snapshot!(answer(&suite), @"
    - **failures:** rust-streaming: 210 of 5,000 operations failed (reset 210)
    - **excluded:** rust-streaming: 4.2 % of its operations failed, more than 1 %: only the failures are compared
    - **failures:** go-streaming is better by at least 0.1 percentage points: failure rate 0 %, 4.20 points less than rust-streaming (3.97–4.43 points, 5 runs)
    - **intervals:** failure rate decides, by 95 % intervals
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 5 repetitions
    ");
    suite.control = Some("go-streaming".to_owned());
    let worse = |suite: &Suite| worse(suite, Some("daemon.rss.peak"));
    assert_eq!(
        worse(&suite).unwrap(),
        "rust-streaming: 4.2 % of its operations failed, unlike go-streaming"
    );
    // Where the control fails too, the runs must show it.
    fail(&mut suite, "go-streaming", &[5]);
    assert_contains(
        &worse(&suite).unwrap(),
        &[
            "failure rate of rust-streaming is worse by at least 0.1 percentage points: +3.70 points [",
        ],
    );
    fail(&mut suite, "go-streaming", &[37]);
    assert_eq!(worse(&suite), None, "both fail");
}

#[test]
fn the_plan_may_let_the_failures_decide() {
    let mut suite = suite_of(&["go-streaming", "rust-streaming"], &[1_000], 5);
    for run in &mut suite.results {
        run.plan["primary"] = "errors.rate".into();
    }
    let text = answer(&suite);
    assert_snapshot!(text.lines().next().unwrap(), @"- **failures:** go-streaming and rust-streaming: undecided in failure rate (0 % and 0 %: 0 points, −0.113 to 0.113, 5 runs); 5 runs could have shown 0.152 points or more, and 0.1 percentage points needs more runs than are worth planning");
}

#[test]
fn runs_of_other_machines_or_plans_are_not_comparable() {
    let mut suite = suite_of(&FOUR[2..], &[1_000], 3);
    for run in &mut suite.results {
        if run.daemon.name == "rust-streaming" {
            run.machine.cpu_model = Some("Another".to_owned());
        }
    }
    assert_snapshot!(answer(&suite), @r#"
    - **excluded:** rust-streaming: not comparable with php-streaming (different machines: CPU AMD EPYC 7763 and Another)
    - **answer:** not comparable: there is nothing to compare php-streaming with
    - **ran:** 1 level, 3 repetitions
    "#);
}

#[test]
fn runs_with_other_cpus_or_limits_are_not_comparable_and_both_are_told() {
    let mut suite = suite_of(&FOUR[2..], &[1_000], 3);
    for run in &mut suite.results {
        run.isolation.driver_cpus = Some("0-1".parse().unwrap());
        if run.daemon.name == "rust-streaming" {
            run.isolation.daemon_memory_bytes = Some(64 << 20);
        }
    }
    assert_snapshot!(answer(&suite), @r#"
    - **excluded:** rust-streaming: not comparable with php-streaming (different CPUs or limits)
    - **answer:** not comparable: there is nothing to compare php-streaming with
    - **ran:** 1 level, 3 repetitions
    "#);
    let page = markdown(&suite);
    for text in [
        "the driver on CPUs 0-1",
        "the driver on CPUs 0-1; the daemon with at most 64.0 MiB of memory",
    ] {
        assert!(
            page.contains(&format!("- **isolation:** {text}\n")),
            "{page}"
        );
    }
}

#[test]
fn runs_whose_cpu_samples_were_taken_are_compared_only_with_their_like() {
    let mut suite = suite_of(&FOUR[2..], &[1_000], 3);
    let sample = |run: &mut RunResult| run.cpu_samples.insert("daemon".to_owned(), 9);
    suite.results.iter_mut().for_each(|run| _ = sample(run));
    assert!(!answer(&suite).contains("excluded"));
    suite.results[1].cpu_samples.clear();
    let told = answer(&suite);
    assert!(
        told.contains("(CPU samples were not taken in all runs alike)"),
        "{told}"
    );
}

#[test]
fn daemons_that_lost_clients_in_injected_faults_are_compared_by_their_downtime() {
    let mut suite = suite_of(&["go-streaming", "rust-streaming"], &[1_000], 5);
    for run in &mut suite.results {
        suite::kill(run);
        run.faults[0].back_s = (run.daemon.name == "go-streaming")
            .then_some(7.0)
            .or(Some(5.5));
        run.errors = [("lost".to_owned(), 42)].into();
        // The driver counts what failed in the second of the fault.
        run.seconds[5].errors = run.errors.clone();
    }
    assert_snapshot!(answer(&suite), @"
    - **failures:** go-streaming: 210 of 5,000 operations failed (lost 210), all in injected faults
    - **failures:** rust-streaming: 210 of 5,000 operations failed (lost 210), all in injected faults
    - **downtime:** rust-streaming is better: downtime 500 ms, 4.0 × less than go-streaming (4.0–4.0 ×, 5 runs)
    - **latency:** rust-streaming is better: TTFB p50 33.5 µs, 3.2 × less than go-streaming (3.2–3.2 ×, 5 runs)
    - **latency:** rust-streaming is better: TTFB p90 62.0 µs, 3.3 × less than go-streaming (3.3–3.3 ×, 5 runs)
    - **latency:** rust-streaming is better: TTFB p99 120 µs, 3.5 × less than go-streaming (3.5–3.5 ×, 5 runs)
    - **memory:** rust-streaming is better: 4.50 MiB at its peak, 2.2 × less than go-streaming (2.1–2.3 ×, 5 runs)
    - **CPU:** rust-streaming is better: 122 µs of CPU per operation, 3.2 × less than go-streaming (2.9–3.7 ×, 5 runs)
    - **intervals:** downtime decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 5 repetitions
    ");
    // What failed before the fault is no consequence of it.
    for run in &mut suite.results {
        if run.daemon.name == "go-streaming" {
            run.seconds[2].errors = std::mem::take(&mut run.seconds[5].errors);
        }
    }
    let text = answer(&suite);
    assert_contains(
        &text,
        &["go-streaming: 4.2 % of its operations failed, more than 1 %: only the failures"],
    );
}

#[test]
fn an_order_that_turns_at_another_level_is_named() {
    // `factors` multiply the memory of go-streaming at 100 and at 1,000. Without them it needs 20 % more than
    // python-streaming.
    let turned = |daemons: &'static [&'static str], factors: [f64; 2]| {
        let mut suite = suite_of(daemons, &[100, 1_000], 5);
        let levels = ["100", "1000"].into_iter().zip(factors);
        let results = levels.flat_map(|(level, factor)| {
            let mut at: Suite = suite.clone();
            at.results.retain(|run| run.level == level);
            grow(&mut at, "go-streaming", &[factor]);
            at.results
        });
        suite.results = results.collect();
        answer(&suite)
    };
    assert_snapshot!(turned(&FOUR[..2], [0.1, 1.0]), @"
    - **latency:** go-streaming is better: TTFB p50 107 µs, 3.2 × less than python-streaming (3.2–3.3 ×, 5 runs)
    - **latency:** go-streaming is better: TTFB p90 207 µs, 5.6 × less than python-streaming (5.6–5.6 ×, 5 runs)
    - **latency:** go-streaming is better: TTFB p99 420 µs, 10 × less than python-streaming (10–10 ×, 5 runs)
    - **memory:** python-streaming is better by at least 3 %: 8.98 MiB at its peak, 10 % less than go-streaming (9.7–10 %, 5 runs)
    - **CPU:** go-streaming is better by at least 3 %: 398 µs of CPU per operation, 37 % less than python-streaming (35–39 %, 5 runs)
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **failures:** none: every operation succeeded
    - **level:** the comparison is at 1,000, the highest that every daemon reached; at 100 go-streaming leads in memory
    - **ran:** 2 levels, 5 repetitions
    ");
    let three = turned(&FOUR[..3], [0.1, 1.0]);
    assert_contains(&three, &["; at 100 the order differs in memory"]);
    // Close at 1,000, and turned at 100.
    let close = turned(&FOUR[..2], [0.1, 0.843]);
    let small = "python-streaming is better by less than 3 %: 8.98 MiB at its peak";
    assert!(close.contains(small), "{close}");
    assert_contains(&close, &["; at 100 go-streaming leads in memory"]);
}

#[test]
fn a_single_daemon_has_a_sentence_about_its_levels() {
    assert_snapshot!(answer(&suite_of(&FOUR[..1], &[100, 10_000], 2)), @"
    - **levels:** from 100 to 10,000: TTFB p50 86.6 µs → 158 µs, TTFB p90 166 µs → 306 µs, TTFB p99 306 µs → 624 µs, peak memory 4.58 MiB → 62.0 MiB, CPU time 386 µs → 386 µs
    - **ran:** 2 levels, 2 repetitions
    ");
}

/// Renders the screen of a terminal with 80 columns.
fn screen(suite: &Suite) -> String {
    let options = Options {
        page: Some("bench-results/quick/report.html"),
        more: Some("drover analyze bench-results/quick,"),
        width: Some(80),
    };
    Format::screen().render_suite(suite, &options).unwrap()
}

#[test]
fn the_screen_of_a_suite_has_the_answer_and_fits_80_columns() {
    let text = screen(&small());
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
    assert_snapshot!(text, @"
    INVALID: quick, 8 runs of 2 daemons at 3 levels
      verdicts  7 VALID, 1 INVALID
      failures  go-streaming at 100: 42 of 200 operations failed (lost 40, reset 2)
      latency   rust-streaming and go-streaming: undecided in TTFB p50 (32.2 µs and
                103 µs: 3.2 ×; 1 run is too few)
      latency   rust-streaming and go-streaming: undecided in TTFB p90 (59.6 µs and
                199 µs: 3.3 ×; 1 run is too few)
      latency   rust-streaming and go-streaming: undecided in TTFB p99 (115 µs and
                404 µs: 3.5 ×; 1 run is too few)
      memory    rust-streaming and go-streaming: undecided in peak memory (4.48 MiB
                and 9.74 MiB: 2.2 ×; 1 run is too few)
      CPU       rust-streaming and go-streaming: undecided in CPU time (118 µs and
                382 µs: 3.2 ×; 1 run is too few)
      intervals TTFB p50 decides, by 95 % intervals; the other metrics have wider
                ones, so that all of them hold in 95 of 100 suites
      level     the comparison is at 1,000, the highest that every daemon reached
      ran       3 levels, 1 to 2 repetitions, 1 of 8 runs INVALID and left out
      to settle drover run configs/fdpass/quick.toml --repeat 5
      invalid   go-streaming at 10,000, run 1: a worker of the driver used 97 % of a
                core: it may be the bottleneck
      missed    go-streaming at 10,000: first_byte.p99 <= 50ms (61.2ms)
      not run   python-streaming at 100,000: 20,000 open files allowed, 100,010 are
                needed: raise the hard limit or add instances
      notes     1: debug build
      more      drover analyze bench-results/quick, bench-results/quick/report.html
    ");
    assert_snapshot!(screen(&large()), @"
    VALID: quick, 60 runs of 4 daemons at 3 levels
      verdicts  60 VALID
      latency   rust-streaming is best: TTFB p50 51.0 µs, 3.2 × less than
                go-streaming (next; 3.2–3.2 ×), 10 × less than python-streaming
                (last; 10–10 ×); 5 runs
      latency   rust-streaming is best: TTFB p90 94.3 µs, 3.3 × less than
                go-streaming (next; 3.3–3.4 ×), 19 × less than python-streaming
                (last; 19–19 ×); 5 runs
      latency   rust-streaming is best: TTFB p99 183 µs, 3.5 × less than
                go-streaming (next; 3.5–3.5 ×), 36 × less than python-streaming
                (last; 36–36 ×); 5 runs
      memory    rust-streaming is best: 8.98 MiB at its peak, 6.0 × less than
                python-streaming (next; 5.8–6.2 ×), 12 × less than php-streaming
                (last; 11–12 ×); 5 runs
      CPU       rust-streaming is best: 122 µs of CPU per operation, 3.2 × less than
                go-streaming (next; 3.2–3.3 ×), 5.2 × less than python-streaming
                (last; 5.1–5.2 ×); 5 runs
      intervals TTFB p50 decides, by 95 % intervals; the other metrics have wider
                ones, so that all of them hold in 95 of 100 suites
      failures  none: every operation succeeded
      level     the comparison is at 10,000, the highest that every daemon reached;
                the order is the same at 100 and 1,000
      ran       3 levels, 5 repetitions
      met       all 12 thresholds
      not run   python-streaming at 100,000: 20,000 open files allowed, 100,010 are
                needed: raise the hard limit or add instances
      more      drover analyze bench-results/quick, bench-results/quick/report.html
    ");
}

#[test]
fn repetitions_of_one_daemon_have_the_screen_of_a_run_with_medians() {
    assert_snapshot!(screen(&suite_of(&FOUR[..1], &[100], 3)), @r#"
    VALID: quick, 3 runs of 1 daemon at 1 level
      outcome   300 started, 300 ok, 0 failed, in 3 runs
      latency   TTFB p50 87.5 µs (85.8–89.3 µs), p99 309 µs (303–315 µs), max 431 µs
                (422–439 µs)
      memory    peak: daemon 4.59 MiB (4.57–4.60 MiB), driver 10.8 MiB
      CPU       of a core: daemon 0.4 % (390 µs (382–398 µs) per operation), driver
                1.0 %
      met       the threshold
      not run   python-streaming at 100,000: 20,000 open files allowed, 100,010 are
                needed: raise the hard limit or add instances
      more      drover analyze bench-results/quick, bench-results/quick/report.html
    "#);
}

#[test]
fn the_screen_of_a_large_suite_in_which_everything_goes_wrong_stays_short() {
    let mut suite = large();
    let levels = suite.unreached[0].clone();
    suite.unreached = vec![levels; 9];
    suite.command = Some("drover run configs/fdpass/quick.toml --repeat 5".to_owned());
    for (place, run) in suite.results.iter_mut().enumerate() {
        let long = format!("reason {place} {}", "of many words ".repeat(20));
        run.warnings = [Severity::Suspect, Severity::Invalid, Severity::Note]
            .into_iter()
            .flat_map(|severity| {
                [Kind::OtherWork, Kind::Stalled, Kind::Audit].map(|kind| (kind, severity))
            })
            .map(|(kind, severity)| Warning {
                kind,
                severity,
                message: long.clone(),
                hint: long.clone(),
            })
            .collect();
        match place % 3 {
            0 => suite::kill(run),
            1 => suite::miss(run),
            _ => run
                .warnings
                .retain(|warning| warning.severity < Severity::Invalid),
        }
        run.verdict = verdict(&run.warnings);
    }
    let page = format!("{}/report.html", "a folder/".repeat(30));
    let options = Options {
        page: Some(&page),
        width: Some(80),
        ..Options::default()
    };
    let text = Format::screen().render_suite(&suite, &options).unwrap();
    let (screen, path) = text.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(path.trim_start(), page, "a path is neither cut nor broken");
    let widest = screen.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
    assert!(screen.lines().count() <= 36, "{text}");
    for grouped in ["verdicts  20 SUSPECT, 40 INVALID", "and 8 more levels"] {
        assert!(text.contains(grouped), "{grouped} in\n{text}");
    }
}

#[test]
fn daemons_are_compared_with_a_control_in_the_words_that_are_about_them() {
    let mut suite = suite_of(&FOUR[1..], &[1_000], 5);
    grow(&mut suite, "rust-streaming", &[9.0, 12.0, 16.0]);
    suite.control = Some("rust-streaming".to_owned());
    for (run, commit) in suite
        .results
        .iter_mut()
        .zip(["0123456789", "9876543210"].iter().cycle())
    {
        run.machine.git_commit = Some((*commit).to_owned());
        run.machine.git_dirty = Some(commit.starts_with('9'));
        run.daemon.program_sha256 = Some("one".to_owned());
    }
    assert_snapshot!(answer(&suite), @r"
    - **latency:** TTFB p50 of php-streaming is worse by at least 3 %: × 3.60 \[3.59, 3.60\] (33.5 µs → 121 µs, 5 runs); TTFB p50 of python-streaming is worse by at least 3 %: × 10.4 \[10.4, 10.4\] (33.5 µs → 349 µs, 5 runs), against rust-streaming
    - **latency:** TTFB p90 of php-streaming is worse by at least 3 %: × 4.20 \[4.19, 4.21\] (62.0 µs → 260 µs, 5 runs); TTFB p90 of python-streaming is worse by at least 3 %: × 18.8 \[18.8, 18.8\] (62.0 µs → 1.17 ms, 5 runs), against rust-streaming
    - **latency:** TTFB p99 of php-streaming is worse by at least 3 %: × 4.95 \[4.94, 4.96\] (120 µs → 593 µs, 5 runs); TTFB p99 of python-streaming is worse by at least 3 %: × 35.5 \[35.4, 35.6\] (120 µs → 4.25 ms, 5 runs), against rust-streaming
    - **memory:** peak memory of python-streaming is undecided: −7.4 % \[−33.8, +29.6\], +48.6 % would show (9.70 MiB → 8.98 MiB, 5 runs); peak memory of php-streaming is worse by at least 3 %: +43.9 % \[+3.0, +101.0\] (9.70 MiB → 14.0 MiB, 5 runs), against rust-streaming
    - **CPU:** CPU time of php-streaming is worse by at least 3 %: × 4.17 \[3.65, 4.76\] (122 µs → 510 µs, 5 runs); CPU time of python-streaming is worse by at least 3 %: × 5.17 \[4.53, 5.89\] (122 µs → 632 µs, 5 runs), against rust-streaming
    - **versions:** rust-streaming: 2026-01-31 12:40, commit 01234567, program one; python-streaming: 2026-01-31 12:40, commit 01234567, program one; php-streaming: 2026-01-31 12:40, commit 98765432 with uncommitted changes, program one; all run one program
    - **intervals:** TTFB p50 decides, by 95 % intervals; the other metrics have wider ones, so that all of them hold in 95 of 100 suites
    - **failures:** none: every operation succeeded
    - **level:** the comparison is at 1,000, the only level
    - **ran:** 1 level, 5 repetitions
    ");
    assert_contains(
        &worse(&suite, None).unwrap(),
        &["TTFB p50 of ", "is worse by at least 3 %"],
    );
    let memory = worse(&suite, Some("daemon.rss.peak")).unwrap();
    assert_contains(&memory, &["peak memory of php-streaming is worse"]);
    let problem = against_control(&suite, Some("ttfb")).unwrap_err();
    assert_contains(
        &problem,
        &["no metric `ttfb` is compared: use one of first_byte.p50, "],
    );

    suite
        .results
        .retain(|run| run.daemon.name != "python-streaming");
    suite.control = Some("php-streaming".to_owned());
    assert_eq!(
        against_control(&suite, None),
        Ok(Judgement::Unproven),
        "the only other one is better"
    );
    fail(&mut suite, "rust-streaming", &[42]);
    let reason = worse(&suite, None).unwrap();
    assert_eq!(
        reason,
        "rust-streaming: 4.2 % of its operations failed, unlike php-streaming"
    );
    suite.control = None;
    assert_eq!(
        against_control(&suite, None),
        Ok(Judgement::NotCompared),
        "without a control"
    );
}

#[test]
fn a_daemon_that_was_rebuilt_between_its_runs_is_not_compared() {
    let mut suite = suite_of(&FOUR[2..], &[1_000], 3);
    suite.results[0].daemon.program_sha256 = Some("one".to_owned());
    suite.results[2].daemon.program_sha256 = Some("other".to_owned());
    assert_contains(&answer(&suite), &["a daemon was rebuilt between its runs"]);
}

#[test]
fn the_plan_names_the_metric_that_decides() {
    let decides = |primary: &str| {
        let mut suite = suite_of(&FOUR[2..], &[1_000], 3);
        for run in &mut suite.results {
            run.plan["primary"] = primary.into();
        }
        let text = answer(&suite);
        let (_, interval) = text.split_once("**intervals:** ").unwrap();
        let (first, _) = text.split_once('\n').unwrap();
        let (metric, _) = interval.split_once(" decides").unwrap();
        assert!(first.contains(metric) || metric == "peak memory", "{first}");
        metric.to_owned()
    };
    assert_eq!(decides("first_byte.p99"), "TTFB p99");
    assert_eq!(decides("handoff.p90"), "handoff p90");
    assert_eq!(decides("daemon.rss.peak"), "peak memory");

    let spec = suite_of(&FOUR[2..], &[1_000], 1).results[0].spec.clone();
    let check = |key: &str| check_primary(key, &spec);
    for key in [
        "first_byte.p99",
        "stream.max",
        "down",
        "daemon.cpu.each",
        "errors.rate",
    ] {
        assert_eq!(check(key), Ok(()));
    }
    let problem = check("firstbyte.p99").unwrap_err();
    assert_eq!(
        problem,
        "daemons are not compared by `firstbyte.p99`: did you mean `first_byte.p99`?"
    );
}
