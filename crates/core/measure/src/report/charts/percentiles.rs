//! Percentile curves of all daemons of a level.

use super::drawn::{Drawn, axis, has_repetitions};
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::error::Error;
use crate::report::plain;
use crate::report::svg::{Chart, Mark, MarkKind, Point, Scale};
use crate::result::RunResult;
use crate::tally::Distribution;
use crate::units;

/// Points of a curve per nine.
const PER_NINE: u32 = 16;
/// Points per nine of a curve in the background.
const PER_NINE_BEHIND: u32 = 8;
/// Number of nines at the end of the axis: 99.99 %.
const NINES: f64 = 4.0;

/// Draws a curve for each daemon; for the headline series also one for each run behind it.
pub(super) fn draw(
    comparison: &Comparison<'_>,
    at: &[Repetitions<'_>],
    id: &str,
    series: &str,
) -> Result<Chart, Error> {
    let names = comparison.short_names();
    let mut drawn = Drawn::default();
    let has_each = comparison.headline() == Some(series);
    for repeated in at {
        let runs = distributions(&repeated.shown(), series)?;
        let (daemon, name) = (repeated.daemon, comparison.daemon(repeated.daemon));
        let behind = if has_each && runs.len() > 1 {
            &runs[..]
        } else {
            &[]
        };
        drawn.extend(of_daemon(daemon, &names[daemon], &name, &runs, behind));
    }
    let name = comparison.series_label(series);
    let nines = nines(&drawn);
    let x = axis("percentile, log scale", Scale::Percentile { nines }, "%");
    let y = axis(format!("{name}, log scale"), Scale::log(drawn.ys()), "ns");
    let reading = if has_each && has_repetitions(at) {
        "Thick: all runs together; thin: each run."
    } else {
        ""
    };
    let id = format!("{id}-percentiles-{}", plain(series));
    Ok(drawn.chart(id, format!("{name}: percentiles"), reading, x, y))
}

/// Draws the curve of all runs together, with thin curves of the runs `behind` it.
fn of_daemon(
    daemon: usize,
    label: &str,
    name: &str,
    runs: &[Distribution],
    behind: &[Distribution],
) -> Drawn {
    let mut merged = Distribution::default();
    runs.iter().for_each(|run| merged.merge(run));
    if merged.is_empty() {
        return Drawn::default();
    }
    let thin = |run| Mark::new(daemon, MarkKind::Thin, vec![curve(run, PER_NINE_BEHIND)]);
    let line = Mark::new(daemon, MarkKind::Line, vec![curve(&merged, PER_NINE)]);
    let mut marks: Vec<Mark> = behind.iter().map(thin).collect();
    marks.push(line.labelled(label));
    Drawn {
        marks,
        descriptions: vec![describe(name, &merged)],
    }
}

/// Returns the end of the axis in nines: the end of the longest curve, but at least 99 %.
fn nines(drawn: &Drawn) -> f64 {
    let last = drawn.xs().fold(0.99, f64::max);
    (-(1.0 - last).log10()).min(NINES)
}

fn distributions(runs: &[&RunResult], series: &str) -> Result<Vec<Distribution>, Error> {
    let found = runs
        .iter()
        .filter_map(|run| Some((run, run.series(series)?)));
    found
        .map(|(run, found)| found.distribution().map_err(Error::histogram(run, series)))
        .collect()
}

/// Returns the values at even steps of nines, up to the last step that more than a single value determines.
fn curve(values: &Distribution, per_nine: u32) -> Vec<Point> {
    let total = values.len() as f64;
    let last = (total.log10().min(NINES) * f64::from(per_nine)).floor() as u32;
    let quantile = |step: u32| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(per_nine));
    let mut points = Vec::with_capacity(last as usize + 1);
    let (mut step, mut counted) = (0, 0);
    for part in values.histogram().iter_recorded() {
        counted += part.count_since_last_iteration();
        // The first value at or beyond the rank is the value of the quantile.
        while step <= last && counted as f64 >= (quantile(step) * total).max(1.0) - 1e-6 {
            points.push((quantile(step), part.value_iterated_to() as f64));
            step += 1;
        }
    }
    points
}

fn describe(daemon: &str, values: &Distribution) -> String {
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0]
        .map(|quantile| units::ms(values.quantile(quantile).unwrap_or(0) as f64));
    format!("{daemon}: p50 {p50} ms, p99 {p99} ms, p99.9 {p999} ms, max {max} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_through_the_percentiles_of_its_histogram() {
        let mut values = Distribution::default();
        (1..=10_000_u64).for_each(|value| values.record(value * 1_000));
        let points = curve(&values, 16);
        assert_eq!(points.len(), 4 * 16 + 1);
        for (quantile, value) in points {
            let exact = values.quantile(quantile).unwrap() as f64;
            assert!(
                (value - exact).abs() <= exact * 0.002,
                "{quantile}: {value} is not {exact}"
            );
        }
    }

    #[test]
    fn a_curve_ends_where_a_single_value_decides() {
        let mut values = Distribution::default();
        (1..=100_u64).for_each(|value| values.record(value));
        let last = *curve(&values, 16).last().unwrap();
        assert!((last.0 - 0.99).abs() < 1e-9, "{last:?}");
        assert_eq!(last.1, 99.0);
    }
}
