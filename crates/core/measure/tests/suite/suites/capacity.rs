//! The capacity of a daemon, and the runs that it is derived from.

use super::*;

#[test]
fn a_capacity_is_a_bracket() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[1_000, 2_000, 4_000, 3_000],
        runs: 2,
        seconds: 10,
    });
    let bracket =
        |suite: &Suite| row(&markdown(suite), "Capacity", &["go-streaming"])[1..].to_vec();
    assert_eq!(
        bracket(&suite),
        ["4,000", "–", "", "no higher level was run"]
    );
    // The reason that stopped the levels above is shown, but not the reason of other daemons.
    suite.unreached[0].daemon = "go-streaming".to_owned();
    let remark = bracket(&suite).remove(3);
    assert!(
        remark.starts_with("100,000 was not reached: 20,000 open files"),
        "{remark}"
    );
    // A level without a size is not part of a bracket.
    let mut burst = suite.clone();
    for run in burst.results.iter_mut().filter(|run| run.level == "1000") {
        run.level = "burst".to_owned();
        suite::miss(run);
    }
    assert_eq!(bracket(&burst)[..2], ["4,000", "–"]);
    // One failing run of two is enough.
    suite::miss(&mut suite.results[3]);
    let missed = "first_byte.p99 &lt;= 50ms (61.2ms)";
    let remark = "a higher level was sustained although a lower one was not: repeat both";
    assert_eq!(bracket(&suite), ["4,000", "3,000", missed, remark]);
    suite::miss(&mut suite.results[2]);
    assert_eq!(bracket(&suite), ["2,000", "3,000", missed, ""]);
    suite.results.iter_mut().for_each(suite::miss);
    assert_eq!(bracket(&suite)[..2], ["–", "1,000"]);
    suite.results.truncate(1);
    assert!(!markdown(&suite).contains("Capacity"));
}

#[test]
fn a_run_with_open_operations_or_a_dead_daemon_did_not_sustain_its_level() {
    let held = suite::one("go-streaming", 1_000, 0, 10);
    let changed = |change: fn(&mut measure::result::RunResult)| {
        let mut run = held.clone();
        change(&mut run);
        match run.load_outcome() {
            LoadOutcome::Sustained => Vec::new(),
            LoadOutcome::Failed(why) => why,
            LoadOutcome::Inconclusive(warning) => panic!("{warning:?}"),
        }
    };
    assert_eq!(held.load_outcome(), LoadOutcome::Sustained);
    // No threshold limits failures, so they are tolerated.
    assert_eq!(changed(suite::kill), Vec::<String>::new());
    assert_eq!(
        changed(|run| run.operations.unfinished = 3),
        ["3 operations did not end"]
    );
    assert_eq!(
        changed(|run| run.operations.missed = 1_000),
        ["1,000 operations were due and never started"]
    );
    assert_eq!(changed(suite::miss), ["first_byte.p99 <= 50ms (61.2ms)"]);
    // A late driver does not excuse a daemon that died.
    let died = changed(|run| {
        let mut late = Distribution::default();
        (0..1_000).for_each(|_| late.record(2_000_000));
        run.warnings = vec![
            Warning::generator_late(&late, &Distribution::default(), true, None).unwrap(),
            Warning::daemon_died("SIGSEGV", "out of luck"),
        ];
        run.verdict = verdict(&run.warnings);
        run.operations.unfinished = 3;
    });
    assert!(died[0].contains("(SIGSEGV)"), "{died:?}");
    assert_eq!(died[1..], ["3 operations did not end"]);
}

#[test]
fn an_invalid_run_is_inconclusive_whatever_its_thresholds_say() {
    let mut suite = suite::build(&Shape {
        daemons: &FOUR[..1],
        levels: &[1_000, 2_000],
        runs: 2,
        seconds: 10,
    });
    let capacity =
        |suite: &Suite| row(&markdown(suite), "Capacity", &["go-streaming"])[1..].to_vec();
    let reason = "a worker of the driver used 97 % of a core: it may be the bottleneck → use more threads or processes, or lower the load";
    let spoil = |run: &mut measure::result::RunResult| {
        suite::miss(run);
        suite::invalidate(run);
        assert!(
            matches!(run.load_outcome(), LoadOutcome::Inconclusive(warning) if warning.kind == Kind::GeneratorCpuBound)
        );
    };
    let at_2000: Vec<usize> = (0..4)
        .filter(|place| suite.results[*place].level == "2000")
        .collect();
    spoil(&mut suite.results[at_2000[0]]);
    let one = format!("no higher level was run; at 2,000, 1 of 2 runs inconclusive: {reason}");
    assert_eq!(capacity(&suite), ["2,000", "–", "", &one]);
    spoil(&mut suite.results[at_2000[1]]);
    let both = format!("2,000 is inconclusive: {reason}");
    assert_eq!(capacity(&suite), ["1,000", "–", "", &both]);
    suite::miss(&mut suite.results[at_2000[1]]);
    suite.results[at_2000[1]].warnings.clear();
    let missed = "first_byte.p99 &lt;= 50ms (61.2ms)";
    let one = format!("at 2,000, 1 of 2 runs inconclusive: {reason}");
    assert_eq!(capacity(&suite), ["1,000", "2,000", missed, &one]);
}
