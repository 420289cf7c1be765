//! Merged parts of a divided run are what one program would have recorded.

use std::collections::BTreeMap;

use harness_testing::assert_contains;
use measure::disturbance::Stalls;
use measure::result::{Operations, RunResult, Second, SecondSeries, SeriesResult};
use measure::shard::{Role, RunPart};
use measure::spec::{SeriesRole, SeriesSpec};
use measure::tally::Distribution;
use measure::warning::Warning;
use proptest::collection::vec;
use proptest::prelude::*;

use super::Rows;
use super::sum::{Merge, SecondMerge};

#[path = "../../../measure/tests/suite/example/result.rs"]
mod example;

const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("response", SeriesRole::Main),
    SeriesSpec::new("service", SeriesRole::Main),
];

/// Builds the row of a second in which these values were recorded, by series.
fn row(second: u64, values: &BTreeMap<&str, Vec<u64>>) -> Second {
    let series = ["response", "service", "lag"].iter().filter_map(|name| {
        let mut distribution = Distribution::default();
        for value in values.get(name).into_iter().flatten() {
            distribution.record(*value);
        }
        SecondSeries::from_distribution(name, &distribution)
    });
    let count: usize = values.values().map(Vec::len).sum();
    let lags = values.get("lag").map_or(&[][..], Vec::as_slice);
    Second {
        second,
        active: count as u64,
        active_peak: count as u64,
        active_mean: Some(count as f64),
        active_slack: Some(count as f64 / 2.0),
        // A stall, a failure and a percent for each lateness.
        stalls: Stalls {
            count: lags.len() as u64,
            longest_ns: lags.iter().map(|lag| lag >> 20).max().unwrap_or(0),
            total_ns: lags.iter().map(|lag| lag >> 20).fold(0, u64::wrapping_add),
            ..Stalls::default()
        }
        .found(),
        worker_cpu_pct: lags.iter().map(|lag| *lag as f64).reduce(f64::max),
        worker_wait_pct: lags.iter().map(|lag| *lag as f64).reduce(f64::max),
        errors: [("reset".to_owned(), lags.len() as u64)].into(),
        counts: [("started".to_owned(), count as u64)].into(),
        series: series.collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_merged_row_is_the_row_of_all_values(
        values in vec((0..4_usize, 0..3_usize, (0..64_u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)), 0..300),
    ) {
        let mut whole = BTreeMap::<&str, Vec<u64>>::new();
        let mut shards = vec![BTreeMap::<&str, Vec<u64>>::new(); 4];
        for (shard, series, value) in values {
            let name = ["response", "service", "lag"][series];
            whole.entry(name).or_default().push(value);
            shards[shard].entry(name).or_default().push(value);
        }
        // In one go, and in two halves that are merged then.
        let mut sum = SecondMerge::new(SERIES);
        let mut halves = [SecondMerge::new(SERIES), SecondMerge::new(SERIES)];
        for (index, shard) in shards.iter().enumerate() {
            sum.add(&row(7, shard)).unwrap();
            halves[index % 2].add(&row(7, shard)).unwrap();
        }
        let expected = row(7, &whole);
        prop_assert_eq!(&sum.finish(), &expected);
        let [mut first, mut second] = halves;
        first.merge(&mut second);
        prop_assert_eq!(&first.finish(), &expected);
        // Nothing is left of it.
        prop_assert_eq!(first.finish().series, Vec::new());
    }
}

/// Builds the result of a shard, or of the daemon's part.
fn part(shard: Option<u64>, of: u64) -> RunResult {
    RunResult {
        part: Some(RunPart {
            role: shard.map_or(Role::Daemon, |_| Role::Load),
            shard,
            of,
            plan_sha256: "ab".repeat(32),
            origin_unix_ns: 1_769_860_800_000_000_000,
            ..RunPart::default()
        }),
        seconds: Vec::new(),
        cpu_samples: shard
            .map(|_| ("driver".to_owned(), 5))
            .into_iter()
            .collect(),
        ..example::full()
    }
}

#[test]
fn the_sum_of_shards_has_all_their_values_and_names_what_is_missing() {
    let mut merge = Merge::new(&example::spec::STREAMS.series);
    let mut daemon = part(None, 4);
    daemon.usage.daemon.as_mut().unwrap().rss_peak_kb = 77_777;
    merge.add(daemon).unwrap();
    for shard in [0, 2, 3] {
        merge.add(part(Some(shard), 4)).unwrap();
    }
    assert_eq!(merge.missing(), [1]);
    let one = example::full();
    for (name, values) in merge.total.series() {
        let of_one = one.series(name).map_or(0, |series| series.count);
        assert_eq!(values.len(), 3 * of_one, "{name}");
        // The same values three times have the same percentiles.
        if let Some(series) = SeriesResult::from_distribution(name, values) {
            assert_eq!(series.p99_ns, one.series(name).unwrap().p99_ns);
        }
    }
    let operations = Operations::from_tally(&merge.total, &[]);
    assert_eq!(
        (operations.started, operations.ok, operations.failed),
        (3_000, 2_985, 9)
    );
    // The shards have observed the daemon of the daemon's part, which counts once.
    assert_eq!(merge.whole.usage.daemon.unwrap().rss_peak_kb, 77_777);
    let driver = one.usage.driver.unwrap();
    assert_eq!(
        merge.whole.usage.driver.unwrap().rss_peak_kb,
        3 * driver.rss_peak_kb
    );
    assert_eq!(merge.whole.cpu_samples, [("driver".to_owned(), 15)].into());
    // Unfinished operations are a shard's own; too few samples are not.
    let own = Warning::unfinished(2, measure::warning::EndedBy::Plan).unwrap();
    let kinds: Vec<_> = merge
        .whole
        .warnings
        .iter()
        .map(|warning| warning.kind)
        .collect();
    assert!(kinds.iter().all(|kind| *kind == own.kind), "{kinds:?}");
    assert!(
        merge.whole.warnings[1].message.starts_with("shard 0 on "),
        "{:?}",
        merge.whole.warnings[1]
    );
}

#[test]
fn parts_of_another_run_are_refused() {
    let refused = |change: fn(&mut RunResult)| -> String {
        let mut merge = Merge::new(&example::spec::STREAMS.series);
        merge.add(part(Some(0), 2)).unwrap();
        let mut other = part(Some(1), 2);
        change(&mut other);
        merge.add(other).unwrap_err().to_string()
    };
    for (change, words) in [
        (
            (|other| other.run_id.push('x')) as fn(&mut RunResult),
            "another run",
        ),
        (|other| other.schema += 1, "schema"),
        (|other| other.machine.version.push('x'), "same version"),
        (
            |other| other.part.as_mut().unwrap().plan_sha256.push('x'),
            "same plan",
        ),
        (
            |other| other.part.as_mut().unwrap().of = 3,
            "number of shards",
        ),
        (
            |other| other.part.as_mut().unwrap().origin_unix_ns += 1,
            "start",
        ),
        (
            |other| other.part.as_mut().unwrap().shard = Some(0),
            "shard 0 again",
        ),
        (|other| other.part = None, "not a part"),
    ] {
        let error = refused(change);
        assert!(error.contains(words), "{error}");
    }
    let mut merge = Merge::new(&example::spec::STREAMS.series);
    let mut unknown = part(Some(0), 1);
    unknown.series[0].name = "unknown".to_owned();
    let error = merge.add(unknown).unwrap_err();
    assert_contains(&error.to_string(), &["`unknown` is unknown"]);
}

#[test]
fn rows_that_do_not_add_up_to_the_counters_of_their_shard_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seconds.jsonl");
    let rows = [
        row(0, &[("response", vec![1, 2])].into()),
        row(1, &[("response", vec![3])].into()),
    ];
    let lines = rows.map(|row| serde_json::to_string(&row).unwrap() + "\n");
    std::fs::write(&path, lines.concat()).unwrap();
    let read = |started: Option<u64>| {
        let totals = started.map(|started| [("started".to_owned(), started)].into());
        let mut rows = Rows::new(path.clone(), totals);
        let mut read = 0;
        while rows.next().map_err(|error| error.to_string())?.is_some() {
            read += 1;
        }
        Ok::<u64, String>(read)
    };
    assert_eq!(read(Some(3)), Ok(2));
    assert_eq!(read(None), Ok(2), "some were lost");
    for started in [2, 4, 30] {
        let refused = read(Some(started)).unwrap_err();
        assert_contains(&refused, &["do not add up to `counts.started`"]);
    }
}
