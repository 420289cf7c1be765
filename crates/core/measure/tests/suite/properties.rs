//! Properties for any values: merging is exact, and stored data is read back unchanged.

use measure::regression::LinearFit;
use measure::spec::{SeriesRole, SeriesSpec};
use measure::summary::SummaryStats;
use measure::tally::{Decoder, Distribution, HIGHEST_NS, LOWEST_NS, PackedTally, Series, Tally};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("handoff", SeriesRole::Main),
    SeriesSpec::new("first_byte", SeriesRole::Main),
    SeriesSpec::new("never", SeriesRole::Main),
];
const COUNTS: [&str; 3] = ["bytes", "events", "started"];
const ERRORS: [&str; 2] = ["reset", "timeout"];

/// An action of a worker on a tally.
#[derive(Debug, Clone)]
enum Step {
    Record(usize, u64),
    Lag(u64),
    Count(usize, u64),
    Error(usize),
}

/// Generates values of any size: all bit lengths are equally likely.
fn value() -> impl Strategy<Value = u64> {
    (0..64_u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..2_usize, value()).prop_map(|(series, ns)| Step::Record(series, ns)),
        1 => value().prop_map(Step::Lag),
        1 => (0..COUNTS.len(), 0..1_u64 << 40).prop_map(|(name, count)| Step::Count(name, count)),
        1 => (0..ERRORS.len()).prop_map(Step::Error),
    ];
    vec(step, 0..60)
}

fn tally(steps: &[Step]) -> Tally {
    let mut tally = Tally::new(SERIES);
    for step in steps {
        match *step {
            Step::Record(series, ns) => tally.record(Series(series), ns),
            Step::Lag(ns) => tally.lag.record(ns),
            Step::Count(name, count) => tally.count(COUNTS[name], count),
            Step::Error(kind) => tally.error(ERRORS[kind]),
        }
    }
    tally
}

fn merged(mut one: Tally, other: &Tally) -> Tally {
    one.merge(other);
    one
}

fn distribution(values: &[u64]) -> Distribution {
    let mut distribution = Distribution::default();
    values.iter().for_each(|value| distribution.record(*value));
    distribution
}

proptest! {
    // A tally is a megabyte of histograms, so the test uses fewer cases than the default, with more steps.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_shards_is_the_same_as_recording_all_in_one(one in steps(), other in steps()) {
        let whole = tally(&[&one[..], &other].concat());
        prop_assert_eq!(merged(tally(&one), &tally(&other)), whole);
    }

    #[test]
    fn merging_commutes_and_associates(one in steps(), two in steps(), three in steps()) {
        let [one, two, three] = [tally(&one), tally(&two), tally(&three)];
        prop_assert_eq!(merged(one.clone(), &two), merged(two.clone(), &one));
        prop_assert_eq!(merged(merged(one.clone(), &two), &three), merged(one, &merged(two, &three)));
    }

    #[test]
    fn an_empty_tally_changes_nothing(steps in steps()) {
        prop_assert_eq!(merged(tally(&steps), &Tally::new(SERIES)), tally(&steps));
        prop_assert_eq!(merged(Tally::new(SERIES), &tally(&steps)), tally(&steps));
    }

    #[test]
    fn a_packed_tally_is_read_back_whole_through_json(steps in steps()) {
        let tally = tally(&steps);
        let text = serde_json::to_string(&tally.pack()).unwrap();
        let packed: PackedTally = serde_json::from_str(&text).unwrap();
        let mut read = Tally::new(SERIES);
        read.add_packed(&packed, &mut Decoder::new()).unwrap();
        prop_assert_eq!(read, tally);
    }

    #[test]
    fn adding_a_packed_tally_is_merging_it(one in steps(), other in steps()) {
        let mut added = tally(&one);
        added.add_packed(&tally(&other).pack(), &mut Decoder::new()).unwrap();
        prop_assert_eq!(added, merged(tally(&one), &tally(&other)));
    }

    #[test]
    fn a_cleared_tally_is_a_new_one(steps in steps()) {
        let mut tally = tally(&steps);
        tally.clear();
        prop_assert!(tally.is_empty());
        prop_assert_eq!(tally, Tally::new(SERIES));
    }

    #[test]
    fn an_encoded_distribution_is_read_back_whole(values in vec(value(), 0..200)) {
        let distribution = distribution(&values);
        prop_assert_eq!(Distribution::decode(&distribution.encode(), distribution.clamped()).unwrap(), distribution);
    }

    #[test]
    fn every_value_out_of_range_is_counted_as_clamped_and_still_recorded(values in vec(value(), 0..200)) {
        let outside = values.iter().filter(|value| !(LOWEST_NS..=HIGHEST_NS).contains(*value)).count() as u64;
        let distribution = distribution(&values);
        prop_assert_eq!(distribution.clamped(), outside);
        prop_assert_eq!(distribution.len(), values.len() as u64);
    }

    #[test]
    fn quantiles_of_merged_shards_are_those_of_all_values(values in vec(1..HIGHEST_NS, 1..200), shards in 1..7_usize, quantile in 0.0..=1.0) {
        let mut whole = Distribution::default();
        for shard in values.chunks(values.len().div_ceil(shards)) {
            whole.merge(&distribution(shard));
        }
        let found = whole.quantile(quantile).unwrap();
        prop_assert_eq!(found, distribution(&values).quantile(quantile).unwrap());
        prop_assert!(near(found, &values, quantile), "{found} at {quantile} of {values:?}");
    }

    #[test]
    fn text_that_is_no_histogram_is_an_error(text in "[A-Za-z0-9+/=]{0,80}") {
        prop_assert!(Distribution::decode(&text, 0).is_err());
    }

    #[test]
    fn a_damaged_histogram_is_no_reason_to_panic(values in vec(value(), 1..50), place in any::<Index>(), letter in "[A-Za-z0-9+/]") {
        let mut text = distribution(&values).encode();
        let at = place.index(text.len());
        text.replace_range(at..=at, &letter);
        let before = distribution(&[3, 1 << 33]);
        let mut into = before.clone();
        if Decoder::new().add(&text, 1, &mut into).is_err() {
            prop_assert_eq!(into, before);
        }
    }
}

/// Returns true if `found` is within 0.1 % of the exact value at `quantile`, determined by sorting.
fn near(found: u64, values: &[u64], quantile: f64) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    // At an integral rank, rounding decides between two neighbours.
    let rank = quantile * sorted.len() as f64;
    let at = |rank: f64| sorted[(rank.max(1.0) as usize - 1).min(sorted.len() - 1)];
    let close = |value: u64| found.abs_diff(value) as f64 <= value as f64 / 1_000.0 + 1.0;
    close(at(rank.ceil())) || close(at((rank - 1e-6).ceil())) || close(at((rank + 1e-6).ceil()))
}

proptest! {
    #[test]
    fn points_on_a_line_have_that_line_and_hardly_an_error(slope in -100.0..100.0_f64, intercept in -1e3..1e3_f64, xs in vec(0_u32..100_000, 3..60)) {
        let points: Vec<(f64, f64)> = xs.iter().map(|x| (f64::from(*x), intercept + slope * f64::from(*x))).collect();
        let distinct = xs.iter().any(|x| *x != xs[0]);
        let line = LinearFit::through(&points);
        prop_assert_eq!(line.is_some(), distinct);
        if let Some(line) = line {
            prop_assert!((line.slope - slope).abs() < 1e-6 + slope.abs() * 1e-6, "{line:?}");
            prop_assert!((line.at(0.0) - intercept).abs() < 1e-3 + slope.abs() * 1e-3, "{line:?}");
            prop_assert!(line.slope_error >= 0.0 && line.half_interval() >= line.slope_error);
        }
    }

    #[test]
    fn a_slope_follows_its_units_and_no_shift(points in vec((0.0..1e4_f64, -1e3..1e3_f64), 4..40), factor in 0.01..100.0_f64, shift in -1e3..1e3_f64) {
        let moved: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x + shift, y * factor)).collect();
        let (Some(line), Some(other)) = (LinearFit::through(&points), LinearFit::through(&moved)) else { return Ok(()) };
        let near = |one: f64, other: f64| (one - other).abs() <= 1e-6 * (1.0 + one.abs());
        prop_assert!(near(line.slope * factor, other.slope), "{line:?} {other:?}");
        prop_assert!(near(line.slope_error * factor, other.slope_error), "{line:?} {other:?}");
    }

    #[test]
    fn the_middle_of_runs_lies_between_their_ends_and_the_interval_around_their_mean(figures in vec(-1e6..1e6_f64, 1..40)) {
        let spread = SummaryStats::from_values(figures.iter().copied()).unwrap();
        prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
        prop_assert_eq!(spread.interval.is_some(), figures.len() >= 5);
        if let Some((low, high)) = spread.interval {
            let mean = figures.iter().sum::<f64>() / figures.len() as f64;
            prop_assert!(low <= mean && mean <= high, "{spread:?}");
        }
    }
}
