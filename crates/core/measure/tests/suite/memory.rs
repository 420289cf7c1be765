//! Memory use of tallies. The test is alone in a process of its own, so nothing else allocates.

use std::ops::Range;
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
/// A histogram of values up to 33 ms, and the memory that it grows by for each power of two above.
const HISTOGRAM_KB: u64 = 128;
const GROWTH_KB: u64 = 8;
const TALLIES: u64 = 20;

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kb = line.unwrap().split_whitespace().next().unwrap();
    kb.parse().unwrap()
}

/// Processes a second of a run: recording values of these powers of two, copying into a row and a total, clearing.
fn second(powers: Range<u32>, tally: &mut Tally, row: &mut Tally, total: &mut Tally) {
    for octave in powers {
        tally.record(RECORDED, 1 << octave);
        tally.lag.record(1 << octave);
    }
    row.merge(tally);
    total.merge(row);
    tally.clear();
    row.clear();
}

#[test]
fn a_tally_has_the_memory_of_what_is_recorded_from_the_beginning_and_more_for_high_values() {
    const ALONE: &str = "DROVER_TEST_MEMORY_OF_TALLIES";
    const TEST: &str = "memory::a_tally_has_the_memory_of_what_is_recorded_from_the_beginning_and_more_for_high_values";
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
    let expect = |histogram_kb: u64| {
        let (now, expected) = (resident_kb() - before, TALLIES * 2 * histogram_kb);
        let is_near = now.abs_diff(expected) < expected / 4;
        assert!(is_near, "{now} of {expected} KiB");
    };
    expect(HISTOGRAM_KB);
    let [row, total, tallies @ ..] = tallies.as_mut_slice() else {
        panic!("there are {TALLIES}")
    };
    for tally in &mut *tallies {
        second(0..25, tally, row, total);
    }
    expect(HISTOGRAM_KB);
    for _ in 0..2 {
        for tally in &mut *tallies {
            second(0..40, tally, row, total);
        }
        expect(HISTOGRAM_KB + 15 * GROWTH_KB);
    }
}
