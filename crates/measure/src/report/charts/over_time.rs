//! Charts over time: a point per second; for several runs the median with the lowest and highest value.

use std::collections::BTreeMap;

use super::drawn::{ChartTexts, Drawn, axis, has_repetitions};
use crate::metrics;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::roles;
use crate::report::svg::{Chart, Kind, Mark, Point, Scale};
use crate::report::text::plain;
use crate::result::{Cost, Resources, RunResult, Second};
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units;

/// Reads the values of a run by second; seconds without a value are absent.
type PerSecond<'a> = &'a dyn Fn(&RunResult) -> Vec<(i64, f64)>;

/// Draws the p50 and p99 of each second.
pub(super) fn latency(
    comparison: &Comparison<'_>,
    at: &[Repetitions<'_>],
    id: &str,
    series: &str,
) -> Option<Chart> {
    let mut drawing = Drawing::new(comparison, at);
    for (kind, key) in [(Kind::Dashed, "p50"), (Kind::Line, "p99")] {
        drawing.add(kind, key, units::ms, " ms", &|run| {
            let values = run.seconds.iter().filter_map(|second| {
                let value = metrics::in_second(second, series, key)?;
                Some((second.second as i64, value as f64))
            });
            values.collect()
        });
    }
    let name = comparison.series_label(series);
    let scale = Scale::log(drawing.drawn.ys());
    let texts = ChartTexts {
        id: format!("{id}-time-{series}"),
        title: format!("{name}: each second"),
        reading: "Solid: p99 of the second; dashed: p50.",
    };
    drawing.finish(texts, &format!("{name}, log scale"), scale)
}

/// Draws the rate of each full second, one chart per rate.
pub(super) fn rates(comparison: &Comparison<'_>, at: &[Repetitions<'_>], id: &str) -> Vec<Chart> {
    let chart = |counter: &CounterSpec| {
        let (name, label) = (counter.name.as_ref(), plain(&counter.label));
        let mut drawing = Drawing::new(comparison, at);
        drawing.add(Kind::Line, "", units::whole, "/s", &|run| {
            let is_full = |second: &&Second| (second.second + 1) as f64 <= run.wall_s;
            let values = run.seconds.iter().filter(is_full).map(|second| {
                let counted = second.counts.get(name).copied().unwrap_or(0);
                (second.second as i64, counted as f64)
            });
            values.collect()
        });
        let texts = ChartTexts {
            id: format!("{id}-rate-{name}"),
            title: format!("{label}: each second"),
            reading: "",
        };
        drawing.finish_linear(texts, &format!("{label}/s"))
    };
    let counters = roles::rates(comparison.suite).into_iter();
    counters.filter_map(chart).collect()
}

/// Draws memory, CPU, open connections and the accept queue.
pub(super) fn resources(
    comparison: &Comparison<'_>,
    at: &[Repetitions<'_>],
    id: &str,
) -> Vec<Chart> {
    let cost = |read: fn(&Cost) -> f64| {
        move |run: &RunResult| by_sample(run, |sample| sample.daemon.as_ref().map(read))
    };
    let backlog = |run: &RunResult| by_sample(run, |sample| Some(sample.backlog? as f64));
    let line = |name: &str, title: &str, y: &str, read: PerSecond<'_>| {
        let mut drawing = Drawing::new(comparison, at);
        drawing.add(Kind::Line, "", units::significant, "", read);
        let texts = ChartTexts {
            id: format!("{id}-{name}"),
            title: title.to_owned(),
            reading: "",
        };
        drawing.finish_linear(texts, y)
    };
    let rss = cost(|cost| cost.rss_kb as f64 / 1024.0);
    let cpu = cost(|cost| cost.cpu_pct);
    let charts = [
        line("rss", "Memory of the daemon", "RSS, MiB", &rss),
        line("cpu", "CPU of the daemon", "% of one core", &cpu),
        connections(comparison, at, id),
        requests(comparison, at, id),
        line("backlog", "Accept backlog", "waiting connections", &backlog),
    ];
    charts.into_iter().flatten().collect()
}

/// Draws the open connections: those that the driver holds if it counts them, otherwise its operations, each of which
/// has one connection.
fn connections(comparison: &Comparison<'_>, at: &[Repetitions<'_>], id: &str) -> Option<Chart> {
    let mut runs = at.iter().flat_map(|repeated| &repeated.runs);
    let by_daemon = runs.any(|run| run.resources.iter().any(|sample| sample.active.is_some()));
    let (kind, reading) = match by_daemon {
        true => (
            Kind::Dashed,
            "Solid: counted by the daemon; dashed: counted by the driver.",
        ),
        false => (
            Kind::Line,
            "Counted by the driver, at the end of each second.",
        ),
    };
    let mut drawing = Drawing::new(comparison, at);
    drawing.add(kind, "driver", units::whole, "", &|run| {
        let held = run.held();
        if held.is_empty() {
            return operations(run);
        }
        let values = held.into_iter();
        values
            .map(|(second, open)| (second as i64, open as f64))
            .collect()
    });
    drawing.add(Kind::Line, "daemon", units::whole, "", &|run| {
        by_sample(run, |sample| sample.active)
    });
    let texts = ChartTexts {
        id: format!("{id}-active"),
        title: "Open connections".to_owned(),
        reading,
    };
    drawing.finish_linear(texts, "connections")
}

/// Draws the open requests of a driver that also holds idle connections.
fn requests(comparison: &Comparison<'_>, at: &[Repetitions<'_>], id: &str) -> Option<Chart> {
    let mut drawing = Drawing::new(comparison, at);
    drawing.add(
        Kind::Line,
        "",
        units::whole,
        "",
        &|run| match run.held().is_empty() {
            true => Vec::new(),
            false => operations(run),
        },
    );
    let texts = ChartTexts {
        id: format!("{id}-requests"),
        title: "Open requests".to_owned(),
        reading: "At the end of each second.",
    };
    drawing.finish_linear(texts, "requests")
}

fn operations(run: &RunResult) -> Vec<(i64, f64)> {
    let seconds = run.seconds.iter();
    seconds
        .map(|second| (second.second as i64, second.active as f64))
        .collect()
}

/// Returns a value of each sample by second; the last sample of a second counts.
fn by_sample(run: &RunResult, read: impl Fn(&Resources) -> Option<f64>) -> Vec<(i64, f64)> {
    let samples = run.resources.iter().filter(|sample| sample.at_s >= 0.0);
    samples
        .filter_map(|sample| Some((sample.at_s as i64, read(sample)?)))
        .collect()
}

/// A chart over time, built daemon by daemon.
struct Drawing<'a> {
    comparison: &'a Comparison<'a>,
    at: &'a [Repetitions<'a>],
    drawn: Drawn,
}

impl<'a> Drawing<'a> {
    fn new(comparison: &'a Comparison<'a>, at: &'a [Repetitions<'a>]) -> Self {
        Self {
            comparison,
            at,
            drawn: Drawn::default(),
        }
    }

    /// Adds a line for each daemon, with a band behind a solid line whose runs differ.
    fn add(
        &mut self,
        kind: Kind,
        name: &str,
        show: fn(f64) -> String,
        unit: &str,
        read: PerSecond<'_>,
    ) {
        let labels = self.comparison.short_names();
        for repeated in self.at {
            let seconds = by_second(&repeated.runs, read);
            let highest = SummaryStats::from_values(seconds.iter().map(|(_, stats)| stats.max));
            let medians = seconds.iter().map(|(_, stats)| stats.median);
            let (Some(highest), Some(medians)) = (highest, SummaryStats::from_values(medians))
            else {
                continue;
            };
            // A line is split at missing seconds.
            let pieces = || seconds.chunk_by(|one, next| next.0 - one.0 <= 1);
            if kind == Kind::Line && seconds.iter().any(|(_, stats)| stats.differs()) {
                let band = Mark::new(repeated.daemon, Kind::Band, pieces().map(edges).collect());
                self.drawn.marks.push(band);
            }
            let line = |piece: &[(i64, SummaryStats)]| {
                let points = piece.iter();
                points
                    .map(|(second, stats)| (*second as f64, stats.median))
                    .collect()
            };
            let mut mark = Mark::new(repeated.daemon, kind, pieces().map(line).collect());
            if kind == Kind::Line {
                mark = mark.labelled(&labels[repeated.daemon]);
            }
            self.drawn.marks.push(mark);
            let daemon = self.comparison.daemon(repeated.daemon);
            self.drawn.descriptions.push(format!(
                "{} median {}{unit}, highest {}{unit}",
                format!("{daemon} {name}").trim(),
                show(medians.median),
                show(highest.max)
            ));
        }
    }

    fn finish_linear(self, texts: ChartTexts<'_>, y: &str) -> Option<Chart> {
        let scale = Scale::linear(self.drawn.ys(), units::label);
        self.finish(texts, y, scale)
    }

    /// Finishes the chart, or returns `None` if it is empty.
    fn finish(self, texts: ChartTexts<'_>, y: &str, scale: Scale) -> Option<Chart> {
        let x = Scale::linear(self.drawn.xs(), units::label);
        let band = match has_repetitions(self.at) {
            true => " Median of the runs, shaded from the lowest to the highest.",
            false => "",
        };
        let reading = format!("{}{band}", texts.reading);
        let texts = ChartTexts {
            reading: reading.trim(),
            ..texts
        };
        let x = axis("seconds since the first start", x);
        self.drawn.chart(texts, x, axis(y, scale))
    }
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
    let upper = upper.map(|(second, stats)| (*second as f64, stats.max));
    let lower = piece.iter().rev();
    upper
        .chain(lower.map(|(second, stats)| (*second as f64, stats.min)))
        .collect()
}
