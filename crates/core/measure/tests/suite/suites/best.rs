//! The mark of the best figure, and the order of levels.

use super::*;

#[test]
fn five_runs_have_an_interval_and_a_slope_with_its_own() {
    let suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[100, 1_000, 10_000],
        runs: 5,
        seconds: 10,
    });
    let report = markdown(&suite);
    let memory = row(&report, "Memory (RSS)", &["rust-streaming", "10,000"]);
    assert_eq!(memory[4], r"4.98 (4.79–5.18) \[4.79, 5.17\]");
    // 6 KiB each, in five runs more by −2, 0, 2, 4 and 6 percent: 6.12 on average.
    let slope = row(
        &report,
        "Memory per additional connection",
        &["go-streaming"],
    );
    assert_eq!(slope[1..4], ["15", "6.12", "5.99 to 6.25"]);
}

#[test]
fn levels_stand_by_size_and_daemons_as_they_came() {
    let suite = suite::build(&Shape {
        daemons: &["rust-streaming", "go-streaming"],
        levels: &[10_000, 900, 1_000],
        runs: 1,
        seconds: 10,
    });
    let report = markdown(&suite);
    let (_, matrix) = report
        .split_once("| daemon | at 900 | at 1,000 | at 10,000 |")
        .unwrap();
    let rows: Vec<&str> = matrix.lines().skip(2).take(2).collect();
    assert!(
        rows[0].starts_with("| rust-streaming") && rows[1].starts_with("| go-streaming"),
        "{rows:?}"
    );
    let places =
        ["900", "1,000", "10,000"].map(|level| report.find(&format!("## Level {level}")).unwrap());
    assert!(places.is_sorted());
}

#[test]
fn the_best_is_marked_only_where_runs_are_apart() {
    let mut suite = suite::build(&Shape {
        daemons: FOUR,
        levels: &[1_000],
        runs: 3,
        seconds: 10,
    });
    let best = |suite: &Suite, column: usize| -> Vec<&str> {
        let report = markdown(suite);
        let of = |name: &&&str| row(&report, "At a glance", &[name])[column].contains("best");
        FOUR.iter().filter(of).copied().collect()
    };
    // All succeed, so none is marked. Only one has the shortest time to first byte.
    assert_eq!(best(&suite, 1), Vec::<&str>::new());
    assert_eq!(best(&suite, 2), ["rust-streaming"]);
    // The peaks of Python's runs now overlap Rust's, so the two share the mark.
    let python = suite
        .results
        .iter_mut()
        .find(|run| run.daemon.name == "python-streaming")
        .unwrap();
    python.usage.daemon.as_mut().unwrap().rss_peak_kb = 4_500;
    assert_eq!(best(&suite, 5), ["python-streaming", "rust-streaming"]);
    // INVALID runs do not count.
    for run in suite
        .results
        .iter_mut()
        .filter(|run| run.daemon.name == "rust-streaming")
    {
        suite::invalidate(run);
    }
    assert_eq!(best(&suite, 2), ["go-streaming"]);
    assert!(markdown(&suite).contains("| rust-streaming (INVALID) | 1,000 |"));
}

#[test]
fn nothing_is_best_with_two_runs_a_failure_or_a_difference_within_rounding() {
    let of = |runs| {
        suite::build(&Shape {
            daemons: FOUR,
            levels: &[1_000],
            runs,
            seconds: 10,
        })
    };
    let glance = |suite: &Suite| {
        let report = markdown(suite);
        let (_, glance) = report.split_once("## At a glance").unwrap();
        glance.split("\n## ").next().unwrap().to_owned()
    };
    let few = glance(&of(2));
    assert!(!few.contains(" best |"), "{few}");
    let three = glance(&of(3));
    let rust = |glance: &str| {
        row(
            &format!("# glance\n{glance}"),
            "glance",
            &["rust-streaming"],
        )
    };
    assert!(rust(&three)[2].ends_with("best"), "{three}");

    // A daemon keeps its mark for the time to first byte if one operation fails, and loses it if more than 1 % do.
    let mut failing = of(3);
    let fail = |suite: &mut Suite, failed: u64| {
        let mut runs = suite.results.iter_mut();
        let run = runs
            .find(|run| run.daemon.name == "rust-streaming")
            .unwrap();
        run.operations.ok -= failed;
        run.operations.failed += failed;
    };
    fail(&mut failing, 1);
    assert!(rust(&glance(&failing))[2].ends_with("best"));
    fail(&mut failing, 40);
    assert!(!rust(&glance(&failing))[2].contains("best"));

    // Two daemons whose runs are 2 % apart, which is a small difference, and then less than a page and its rounding.
    for (kib, marked) in [(10_200, true), (10_002, false)] {
        let mut near = of(3);
        near.results
            .retain(|run| ["go-streaming", "rust-streaming"].contains(&&*run.daemon.name));
        for run in &mut near.results {
            let is_rust = run.daemon.name == "rust-streaming";
            let usage = run.usage.daemon.as_mut().unwrap();
            usage.rss_peak_kb = if is_rust { 10_000 } else { kib };
        }
        let answers = markdown(&near).contains("**memory:** rust-streaming is better");
        let near = glance(&near);
        assert_eq!(rust(&near)[5].ends_with("best"), marked, "{near}");
        assert_eq!(answers, marked, "the mark is not the answer's");
    }
}

#[test]
fn the_highest_level_is_a_number_where_there_is_one() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..2],
        levels: &[100, 1_000],
        runs: 1,
        seconds: 10,
    });
    let mut burst = suite.results[..2].to_vec();
    burst
        .iter_mut()
        .for_each(|run| run.level = "burst".to_owned());
    suite.results.extend(burst);
    assert!(markdown(&suite).contains("At 1,000, the highest level"));
    suite.results.retain(|run| run.level == "burst");
    assert!(markdown(&suite).contains("At burst, which every daemon ran."));
}

#[test]
fn an_invalid_run_is_left_out_of_medians_and_intervals_and_its_row_says_how_many_count() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..2],
        levels: &[1_000],
        runs: 5,
        seconds: 10,
    });
    let memory = |suite: &Suite| row(&markdown(suite), "Memory (RSS)", &["go-"]);
    assert_eq!(memory(&suite)[4], r"5.97 (5.74–6.21) \[5.75, 6.21\]");
    // The run with the most memory.
    let worst = &mut suite.results[8];
    suite::invalidate(worst);
    let figures = memory(&suite);
    assert_eq!(figures[0], "go-streaming (4 of 5 runs)");
    assert_eq!(figures[4], "5.92 (5.74–6.09)");
    let report = markdown(&suite);
    let left_out = "- **left out:** 1 of 10 runs: INVALID runs are in no mean";
    assert!(report.contains(left_out), "{report}");
    // A daemon without any other runs keeps its figures, which are marked.
    let go = suite.results.iter_mut();
    go.filter(|run| run.daemon.name == FOUR[0])
        .for_each(suite::invalidate);
    let figures = memory(&suite);
    assert_eq!(figures[0], "go-streaming (INVALID)");
    assert!(figures[4].starts_with("5.97 ("), "{figures:?}");
}
