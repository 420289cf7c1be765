//! Memory use of tallies. The test is alone in a process of its own, so nothing else allocates.

use std::process::Command;

use measure::spec::{SeriesRole, SeriesSpec};
use measure::tally::{Series, Tally};

/// A driver with many series that records only a few of them.
const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("one", SeriesRole::Main),
    SeriesSpec::new("two", SeriesRole::Main),
    SeriesSpec::new("three", SeriesRole::Main),
    SeriesSpec::new("four", SeriesRole::Main),
    SeriesSpec::new("five", SeriesRole::Main),
    SeriesSpec::new("six", SeriesRole::Main),
    SeriesSpec::new("seven", SeriesRole::Main),
    SeriesSpec::new("eight", SeriesRole::Main),
];
const RECORDED: Series = Series(3);
/// A histogram of the common shape.
const HISTOGRAM_KB: u64 = 264;
const TALLIES: u64 = 20;

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kb = line.unwrap().split_whitespace().next().unwrap();
    kb.parse().unwrap()
}

/// Processes a second of a run: recording, copying into a row and a total, clearing.
fn second(tally: &mut Tally, row: &mut Tally, total: &mut Tally) {
    for octave in 0..40 {
        tally.record(RECORDED, 1 << octave);
        tally.lag.record(1 << octave);
    }
    row.merge(tally);
    total.merge(row);
    tally.clear();
    row.clear();
}

#[test]
fn a_tally_has_the_memory_of_what_is_recorded_from_the_beginning_and_never_more() {
    const ALONE: &str = "DROVER_TEST_MEMORY_OF_TALLIES";
    const TEST: &str =
        "memory::a_tally_has_the_memory_of_what_is_recorded_from_the_beginning_and_never_more";
    if std::env::var_os(ALONE).is_none() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let before = resident_kb();
    let resident = || Tally::resident(SERIES, |series| series == RECORDED);
    let mut tallies: Vec<Tally> = (0..TALLIES).map(|_| resident()).collect();
    // The recorded series and the lag. The kernel's count lags by some pages per processor.
    let expected = TALLIES * 2 * HISTOGRAM_KB;
    let about = |kb: u64| kb.abs_diff(expected) < expected / 4;
    let begun = resident_kb() - before;
    assert!(about(begun), "{begun} of {expected} KiB");
    let [row, total, tallies @ ..] = tallies.as_mut_slice() else {
        panic!("there are {TALLIES}")
    };
    for tally in tallies {
        second(tally, row, total);
    }
    let after = resident_kb() - before;
    assert!(about(after), "{after} of {expected} KiB");
}
