//! Charts over time: a point per second; for several runs the median with the lowest and highest value.

use std::collections::BTreeMap;

use super::drawn::{Drawn, axis, chart, heights, several};
use crate::metrics;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::roles;
use crate::report::svg::{Chart, Kind, Mark, Point, Scale};
use crate::report::text::plain;
use crate::result::{Cost, Resources, RunResult, Second};
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units::{self, label};

/// A figure of each second of a run; seconds without the figure are absent.
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
            let rows = run.seconds.iter().filter_map(|second| {
                let value = metrics::in_second(second, series, key)?;
                Some((second.second as i64, value as f64))
            });
            rows.collect()
        });
    }
    let scale = Scale::log(heights(&drawing.drawn.marks));
    drawing.finish(
        format!("{id}-time-{series}"),
        format!("{}: each second", comparison.series_label(series)),
        "Solid: p99 of the second; dashed: p50.",
        (
            &format!("{}, log scale", comparison.series_label(series)),
            scale,
        ),
    )
}

/// Draws the rate of each full second, one chart per rate.
pub(super) fn rates(comparison: &Comparison<'_>, at: &[Repetitions<'_>], id: &str) -> Vec<Chart> {
    let chart_of = |counter: &CounterSpec| {
        let (name, label_of_rate) = (counter.name.as_ref(), plain(&counter.label));
        let mut drawing = Drawing::new(comparison, at);
        drawing.add(Kind::Line, "", units::whole, "/s", &|run| {
            let whole = |row: &&Second| (row.second + 1) as f64 <= run.wall_s;
            let rows = run.seconds.iter().filter(whole);
            rows.map(|row| {
                let counted = row.counts.get(name).copied().unwrap_or(0);
                (row.second as i64, counted as f64)
            })
            .collect()
        });
        let scale = Scale::linear(heights(&drawing.drawn.marks), label);
        let per_second = format!("{label_of_rate}/s");
        let title = format!("{label_of_rate}: each second");
        drawing.finish(format!("{id}-rate-{name}"), title, "", (&per_second, scale))
    };
    let counters = roles::rates(comparison.suite).into_iter();
    counters.filter_map(chart_of).collect()
}

/// Draws memory, CPU, open connections and the accept queue.
pub(super) fn resources(
    comparison: &Comparison<'_>,
    at: &[Repetitions<'_>],
    id: &str,
) -> Vec<Chart> {
    let cost = |of: fn(&Cost) -> f64| {
        move |run: &RunResult| looks(run, |look| look.daemon.as_ref().map(of))
    };
    let one = |name: &str, title: &str, y: &str, figure: PerSecond<'_>| {
        let mut drawing = Drawing::new(comparison, at);
        drawing.add(Kind::Line, "", units::significant, "", figure);
        let scale = Scale::linear(heights(&drawing.drawn.marks), label);
        drawing.finish(format!("{id}-{name}"), title.to_owned(), "", (y, scale))
    };
    let charts = [
        one(
            "rss",
            "Memory of the daemon",
            "RSS, MiB",
            &cost(|cost| cost.rss_kb as f64 / 1024.0),
        ),
        one(
            "cpu",
            "CPU of the daemon",
            "% of one core",
            &cost(|cost| cost.cpu_pct),
        ),
        active(comparison, at, id),
        requests(comparison, at, id),
        one("backlog", "Accept backlog", "waiting connections", &|run| {
            looks(run, |look| look.backlog.map(|backlog| backlog as f64))
        }),
    ];
    charts.into_iter().flatten().collect()
}

/// Draws the open connections: those that the driver holds if it counts them, otherwise its operations, each of which
/// has one connection.
fn active(comparison: &Comparison<'_>, at: &[Repetitions<'_>], id: &str) -> Option<Chart> {
    let runs = || at.iter().flat_map(|repeated| &repeated.runs);
    let reported = runs().any(|run| run.resources.iter().any(|look| look.active.is_some()));
    let mut drawing = Drawing::new(comparison, at);
    let kind = if reported { Kind::Dashed } else { Kind::Line };
    drawing.add(kind, "driver", units::whole, "", &|run| {
        let held = run.held();
        if held.is_empty() {
            return operations(run);
        }
        let rows = held.into_iter();
        rows.map(|(second, open)| (second as i64, open as f64))
            .collect()
    });
    drawing.add(Kind::Line, "daemon", units::whole, "", &|run| {
        looks(run, |look| look.active)
    });
    let scale = Scale::linear(heights(&drawing.drawn.marks), label);
    let reading = if reported {
        "Solid: counted by the daemon; dashed: counted by the driver."
    } else {
        "Counted by the driver, at the end of each second."
    };
    drawing.finish(
        format!("{id}-active"),
        "Open connections".to_owned(),
        reading,
        ("connections", scale),
    )
}

/// Draws the open requests of a driver that also holds idle connections.
fn requests(comparison: &Comparison<'_>, at: &[Repetitions<'_>], id: &str) -> Option<Chart> {
    let mut drawing = Drawing::new(comparison, at);
    drawing.add(Kind::Line, "", units::whole, "", &|run| {
        if run.held().is_empty() {
            return Vec::new();
        }
        operations(run)
    });
    let scale = Scale::linear(heights(&drawing.drawn.marks), label);
    drawing.finish(
        format!("{id}-requests"),
        "Open requests".to_owned(),
        "At the end of each second.",
        ("requests", scale),
    )
}

fn operations(run: &RunResult) -> Vec<(i64, f64)> {
    let rows = run.seconds.iter();
    rows.map(|row| (row.second as i64, row.active as f64))
        .collect()
}

/// Returns a figure of each sample by second; the last sample of a second counts.
fn looks(run: &RunResult, of: impl Fn(&Resources) -> Option<f64>) -> Vec<(i64, f64)> {
    let looks = run.resources.iter().filter(|look| look.at_s >= 0.0);
    looks
        .filter_map(|look| Some((look.at_s as i64, of(look)?)))
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

    fn add(
        &mut self,
        kind: Kind,
        what: &str,
        write: fn(f64) -> String,
        unit: &str,
        figure: PerSecond<'_>,
    ) {
        let names = self.comparison.short_names();
        for repeated in self.at {
            let spreads = by_second(&repeated.runs, figure);
            let Some(highest) =
                SummaryStats::from_values(spreads.iter().map(|(_, spread)| spread.max))
            else {
                continue;
            };
            let middle: Vec<Point> = spreads
                .iter()
                .map(|(second, spread)| (*second as f64, spread.median))
                .collect();
            if kind == Kind::Line && spreads.iter().any(|(_, spread)| spread.differs()) {
                let band = pieces(&spreads).iter().map(|piece| edges(piece)).collect();
                self.drawn
                    .marks
                    .push(Mark::new(repeated.daemon, Kind::Band, band));
            }
            let mark = Mark::new(repeated.daemon, kind, pieces_of(&middle));
            self.drawn.marks.push(if kind == Kind::Line {
                mark.labelled(&names[repeated.daemon])
            } else {
                mark
            });
            let daemon = plain(self.comparison.daemons[repeated.daemon]);
            let middle = SummaryStats::from_values(spreads.iter().map(|(_, spread)| spread.median));
            let middle = middle.map_or(String::new(), |spread| write(spread.median));
            self.drawn.descriptions.push(format!(
                "{} median {middle}{unit}, highest {}{unit}",
                [daemon.as_str(), what].join(" ").trim(),
                write(highest.max)
            ));
        }
    }

    /// Finishes the chart, or returns `None` if it is empty.
    fn finish(self, id: String, title: String, reading: &str, y: (&str, Scale)) -> Option<Chart> {
        if self.drawn.marks.is_empty() {
            return None;
        }
        let ends = self
            .drawn
            .marks
            .iter()
            .flat_map(|mark| mark.pieces.iter().flatten());
        let x = Scale::linear(ends.map(|(x, _)| *x), label);
        let runs = if several(self.at) {
            " Median of the runs, shaded from the lowest to the highest."
        } else {
            ""
        };
        Some(chart(
            id,
            title,
            format!("{reading}{runs}").trim(),
            (axis("seconds since the first start", x), axis(y.0, y.1)),
            self.drawn,
        ))
    }
}

/// Combines the runs second by second.
fn by_second(runs: &[&RunResult], figure: PerSecond<'_>) -> Vec<(i64, SummaryStats)> {
    let mut seconds: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let of_run: BTreeMap<i64, f64> = figure(run).into_iter().collect();
        for (second, value) in of_run {
            seconds.entry(second).or_default().push(value);
        }
    }
    seconds
        .into_iter()
        .filter_map(|(second, values)| Some((second, SummaryStats::from_values(values)?)))
        .collect()
}

/// Splits the line at missing seconds.
fn pieces(spreads: &[(i64, SummaryStats)]) -> Vec<Vec<(i64, SummaryStats)>> {
    spreads
        .chunk_by(|one, next| next.0 - one.0 <= 1)
        .map(<[_]>::to_vec)
        .collect()
}

fn pieces_of(points: &[Point]) -> Vec<Vec<Point>> {
    points
        .chunk_by(|one, next| next.0 - one.0 < 1.5)
        .map(<[_]>::to_vec)
        .collect()
}

/// Returns the upper edge from left to right, then the lower edge back.
fn edges(piece: &[(i64, SummaryStats)]) -> Vec<Point> {
    let upper = piece
        .iter()
        .map(|(second, spread)| (*second as f64, spread.max));
    let lower = piece.iter().rev();
    upper
        .chain(lower.map(|(second, spread)| (*second as f64, spread.min)))
        .collect()
}
