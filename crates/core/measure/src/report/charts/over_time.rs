//! Charts over time: a point per second; for several runs the median with the lowest and highest value.

use std::collections::BTreeMap;

use super::drawn::{Drawn, axis, has_repetitions};
use super::timeline::Timeline;
use crate::metrics;
use crate::report::plain;
use crate::report::roles;
use crate::report::svg::{Axis, Chart, Mark, MarkKind, Point, Scale};
use crate::result::{RunResult, Second};
use crate::summary::SummaryStats;
use crate::tally::OK;
use crate::units;

mod resources;

pub(super) use resources::{backlog, connections, cpu, memory, requests};

/// Reads the values of a run by second; seconds without a value are absent.
type PerSecond<'a> = &'a dyn Fn(&RunResult) -> Vec<(i64, f64)>;

/// Draws the p50 and p99 of each second.
pub(super) fn latency(timeline: &Timeline<'_>, series: &str) -> Chart {
    let mut drawing = Drawing::new(timeline);
    drawing.has_band &= timeline.comparison.headline() == Some(series);
    for (kind, key) in [(MarkKind::Dashed, "p50"), (MarkKind::Line, "p99")] {
        drawing.add(kind, key, units::ms, " ms", &|run| {
            let values = run.seconds.iter().filter_map(|second| {
                let value = metrics::in_second(second, series, key)?;
                Some((second.second as i64, value as f64))
            });
            values.collect()
        });
    }
    let name = timeline.comparison.series_label(series);
    let limits = timeline.limits(&[
        (&format!("{series}.p99"), 1.0),
        (&format!("{series}.p50"), 1.0),
    ]);
    let bounds = limits.iter().map(|limit| limit.value);
    let scale = Scale::log(drawing.drawn.ys().chain(bounds));
    let reading = if drawing.has_band {
        "Solid: p99 of each second; dashed: p50. Medians of the runs; shaded: lowest to highest."
    } else {
        "Solid: p99 of each second; dashed: p50."
    };
    let title = format!("{name} over time");
    let y = axis(format!("{name}, log scale"), scale, "ns");
    let chart = drawing.finish(&format!("time-{}", plain(series)), title, reading, y);
    Chart { limits, ..chart }
}

/// Draws the rate of each full second: one chart for each rate, or the rate of completed operations without any.
pub(super) fn rates(timeline: &Timeline<'_>) -> Vec<Chart> {
    let counters = roles::rates(timeline.comparison.suite).into_iter();
    let mut rates: Vec<(&str, String)> = counters
        .map(|counter| (counter.name.as_ref(), plain(&counter.label)))
        .collect();
    if rates.is_empty() {
        rates.push((OK, "completed".to_owned()));
    }
    let rates = rates.into_iter();
    let chart = |(name, label): (&str, String)| {
        let read = |second: &Second| second.counts.get(name).copied().unwrap_or(0);
        let limits = timeline.limits(&[("rate", 1.0)]);
        let chart = per_second(timeline, &format!("rate-{name}"), &label, &read);
        Chart { limits, ..chart }
    };
    rates.map(chart).collect()
}

/// Draws the failures of each full second, if there are any.
pub(super) fn errors(timeline: &Timeline<'_>) -> Option<Chart> {
    let mut runs = timeline.at.iter().flat_map(|repeated| repeated.shown());
    let read = |second: &Second| second.errors.values().sum();
    let has_failed = runs.any(|run| run.seconds.iter().any(|second| read(second) > 0));
    has_failed.then(|| per_second(timeline, "errors", "failures", &read))
}

fn per_second(
    timeline: &Timeline<'_>,
    id: &str,
    label: &str,
    read: &dyn Fn(&Second) -> u64,
) -> Chart {
    let mut drawing = Drawing::new(timeline);
    drawing.add(MarkKind::Line, "", units::whole, "/s", &|run| {
        let is_full = |second: &&Second| (second.second + 1) as f64 <= run.wall_s;
        // What is not counted before the measured time is not 0.
        let is_left_out = |second: &&Second| {
            let warmup_s = run.phases.map_or(0.0, |phases| phases.warmup_s);
            read(second) == 0 && (second.second as f64) < warmup_s
        };
        let seconds = run.seconds.iter().filter(is_full);
        seconds
            .skip_while(is_left_out)
            .map(|second| (second.second as i64, read(second) as f64))
            .collect()
    });
    let title = format!("{label}/s over time");
    drawing.finish_linear(id, title, "", (&format!("{label}/s"), "/s"))
}

/// A chart over time, built daemon by daemon.
struct Drawing<'a> {
    timeline: &'a Timeline<'a>,
    drawn: Drawn,
    /// True to draw the range of several runs behind a solid line.
    has_band: bool,
}

impl<'a> Drawing<'a> {
    fn new(timeline: &'a Timeline<'a>) -> Self {
        Self {
            timeline,
            drawn: Drawn::default(),
            has_band: has_repetitions(timeline.at),
        }
    }

    /// Adds a line for each daemon, with a band behind a solid line whose runs differ.
    fn add(
        &mut self,
        kind: MarkKind,
        name: &str,
        show: fn(f64) -> String,
        unit: &str,
        read: PerSecond<'_>,
    ) {
        let labels = self.timeline.comparison.short_names();
        for repeated in self.timeline.at {
            let seconds = by_second(&repeated.shown(), read);
            let highest = SummaryStats::from_values(seconds.iter().map(|(_, stats)| stats.max));
            let medians = seconds.iter().map(|(_, stats)| stats.median);
            let (Some(highest), Some(medians)) = (highest, SummaryStats::from_values(medians))
            else {
                continue;
            };
            // A line is split at missing seconds.
            let pieces = || seconds.chunk_by(|one, next| next.0 - one.0 <= 1);
            if self.has_band
                && kind == MarkKind::Line
                && seconds.iter().any(|(_, stats)| stats.differs())
            {
                let band = Mark::new(
                    repeated.daemon,
                    MarkKind::Band,
                    pieces().map(edges).collect(),
                );
                self.drawn.marks.push(band);
            }
            let line = |piece: &[(i64, SummaryStats)]| {
                let points = piece.iter();
                points
                    .map(|(second, stats)| (middle(*second), stats.median))
                    .collect()
            };
            let mut mark = Mark::new(repeated.daemon, kind, pieces().map(line).collect());
            if kind == MarkKind::Line {
                mark = mark.labelled(&labels[repeated.daemon]);
            }
            self.drawn.marks.push(mark);
            let daemon = self.timeline.comparison.daemon(repeated.daemon);
            self.drawn.descriptions.push(format!(
                "{} median {}{unit}, highest {}{unit}",
                format!("{daemon} {name}").trim(),
                show(medians.median),
                show(highest.max)
            ));
        }
    }

    /// Finishes the chart with an axis from 0, which has a label, and a unit for values.
    fn finish_linear(
        self,
        id: &str,
        title: String,
        reading: &str,
        (label, unit): (&str, &'static str),
    ) -> Chart {
        let scale = Scale::linear(self.drawn.ys(), units::label);
        self.finish(id, title, reading, axis(label, scale, unit))
    }

    /// Finishes the chart. Its element ID is `id` behind the ID of the level.
    fn finish(self, id: &str, title: String, reading: &str, y: Axis) -> Chart {
        let id = format!("{}-{id}", self.timeline.id);
        let chart = self
            .drawn
            .chart(id, title, reading, self.timeline.axis(), y);
        self.timeline.mark(chart)
    }
}

/// Returns the position of a second on the axis.
fn middle(second: i64) -> f64 {
    second as f64 + 0.5
}

/// Combines the runs second by second.
fn by_second(runs: &[&RunResult], read: PerSecond<'_>) -> Vec<(i64, SummaryStats)> {
    let mut seconds: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let of_run: BTreeMap<i64, f64> = read(run).into_iter().collect();
        for (second, value) in of_run {
            seconds.entry(second).or_default().push(value);
        }
    }
    let seconds = seconds.into_iter();
    seconds
        .filter_map(|(second, values)| Some((second, SummaryStats::from_values(values)?)))
        .collect()
}

/// Returns the upper edge from left to right, then the lower edge back.
fn edges(piece: &[(i64, SummaryStats)]) -> Vec<Point> {
    let upper = piece.iter();
    let upper = upper.map(|(second, stats)| (middle(*second), stats.max));
    let lower = piece.iter().rev();
    upper
        .chain(lower.map(|(second, stats)| (middle(*second), stats.min)))
        .collect()
}
