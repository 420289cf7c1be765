//! Versions, growth, warnings and missing parts of a suite.

use super::*;

#[test]
fn versions_that_differ_are_named_and_so_is_the_level_that_mixes_them() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[100, 1_000],
        runs: 2,
        seconds: 10,
    });
    assert!(!markdown(&suite).contains("several versions"));
    suite.results[3].daemon.version = Some("streaming-daemon 0.2.0".to_owned());
    let report = markdown(&suite);
    let both = "streaming-daemon 0.1.0; streaming-daemon 0.2.0";
    assert!(report.contains(&format!("| go-streaming | {both} |")));
    assert!(report.contains("**versions:** go-streaming at 1,000 has runs of several versions"));
    assert!(!report.contains("go-streaming at 100 has runs of several"));
}

#[test]
fn growth_under_steady_load_is_found_and_the_ramp_is_not_taken_for_it() {
    let mut result = suite::one("go-streaming", 1_000, 1, 100);
    for second in &mut result.seconds {
        second.counts.insert("started".to_owned(), 100);
        second
            .counts
            .insert("ok".to_owned(), if second.second < 10 { 0 } else { 95 });
        second
            .errors
            .insert("reset".to_owned(), if second.second < 10 { 0 } else { 5 });
        second.active_peak = (second.second + 1).min(10) * 100;
    }
    for look in &mut result.resources {
        let daemon = look.daemon.as_mut().unwrap();
        // 12 KiB and one descriptor for each 1,000 finished operations, 100 a second; before that a steep ramp.
        let after_ramp = (look.at_s - 10.0).max(0.0);
        daemon.rss_kb = 100_000 + (after_ramp * 1.2).round() as u64
            - (500.0 * (10.0 - look.at_s).max(0.0)) as u64;
        daemon.fds = 1_000 + (after_ramp * 0.1).round() as u64;
    }
    let suite = Suite {
        results: vec![result.clone()],
        ..Suite::default()
    };
    let rss = row(
        &markdown(&suite),
        "Growth under steady load",
        &["daemon.rss"],
    );
    // 1.2 KiB a second, rounded to whole ones.
    assert_eq!((&rss[1][..], &rss[4][..]), ("4.22 MiB", "grows"), "{rss:?}");
    // Streams that are held and end together are not a steady load.
    let held = Suite {
        results: vec![suite::one("go-streaming", 1_000, 1, 100)],
        ..Suite::default()
    };
    assert!(!markdown(&held).contains("Growth"));
}

#[test]
fn every_warning_is_shown_and_notes_of_one_kind_are_counted() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[100],
        runs: 3,
        seconds: 10,
    });
    for run in &mut suite.results {
        run.warnings = vec![
            Warning::debug_build(),
            Warning::unfinished(7, EndedBy::Plan).unwrap(),
        ];
        run.verdict = verdict(&run.warnings);
    }
    let report = markdown(&suite);
    assert!(
        report.starts_with("## SUSPECT: quick, 3 runs of 1 daemon at 1 level\n"),
        "{report}"
    );
    assert_eq!(
        report
            .matches("- **suspect:** go-streaming at 100, run")
            .count(),
        2 * 3
    );
    assert_eq!(report.matches("built without optimisation").count(), 1);
    assert_contains(&report, &["than a release build, and 2 more of this kind"]);
    assert_eq!(suite.results[0].verdict, Verdict::Suspect);
}

#[test]
fn a_suite_of_unreached_levels_is_a_report_too() {
    let mut suite = small();
    suite.results.clear();
    for report in [markdown(&suite), html(&suite).unwrap()] {
        assert_contains(&report, &["nothing was measured", "raise the hard limit"]);
    }
    for report in [
        markdown(&Suite::default()),
        html(&Suite::default()).unwrap(),
    ] {
        assert!(report.contains("nothing was measured"));
    }
}

#[test]
fn a_result_without_anything_optional_is_shown_with_dashes() {
    let mut result = suite::one("go-streaming", 100, 0, 10);
    result.level.clear();
    result.usage = measure::result::Usage::default();
    result.resources.clear();
    result.thresholds.clear();
    result.series.clear();
    result.lag = None;
    result.seconds.clear();
    assert!(markdown(&[result.clone()][..].into()).contains("## Latency"));
    let suite = Suite {
        results: vec![result.clone(), result],
        ..Suite::default()
    };
    let report = markdown(&suite);
    assert_eq!(
        row(&report, "Memory (RSS)", &["go-streaming", "–"])[2..],
        ["–"; 3]
    );
    assert!(report.contains("no slope: no level with memory figures, but 3 are required"));
    assert!(html(&suite).unwrap().contains("Runs without a level"));
}
