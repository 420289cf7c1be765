//! The curve of a rate that rises in steps: latency, and served rate, against the offered rate.

use super::drawn::{Drawn, axis};
use crate::objective::Objective;
use crate::report::comparison::{Comparison, numbered};
use crate::report::plain;
use crate::report::ramp::Step;
use crate::report::svg::{Axis, Chart, Limit, Mark, MarkKind, Point, Scale};
use crate::result::RunResult;
use crate::units;

pub(super) fn draw(comparison: &Comparison<'_>) -> [Chart; 2] {
    [latency(comparison), served(comparison)]
}

/// Draws lines through figures of the steps, one for each run.
fn lines(
    comparison: &Comparison<'_>,
    kind: MarkKind,
    read: impl Fn(&Step) -> Option<f64>,
    describe: impl Fn(&Step) -> String,
) -> Drawn {
    let mut drawn = Drawn::default();
    for (repeated, _, run) in numbered(&comparison.all()) {
        let steps = run.steps();
        let point = |step: &Step| Some((step.offered_per_s, read(step)?));
        let points: Vec<Point> = steps.iter().filter_map(point).collect();
        if points.is_empty() {
            continue;
        }
        let mut mark = Mark::new(repeated.daemon, kind, vec![points]);
        if kind == MarkKind::Line {
            mark = mark.labelled(&comparison.short_names()[repeated.daemon]);
            let steps: Vec<String> = steps.iter().map(&describe).collect();
            let name = comparison.daemon(repeated.daemon);
            drawn
                .descriptions
                .push(format!("{name}: {}", steps.join(", ")));
        }
        drawn.marks.push(mark);
    }
    drawn
}

fn latency(comparison: &Comparison<'_>) -> Chart {
    let value = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let shown = |step: &Step| {
        let p99 = step.p99_ns.map_or(units::NONE.to_owned(), units::duration);
        format!("p99 {p99} at {}/s", units::significant(step.offered_per_s))
    };
    let p50 = lines(
        comparison,
        MarkKind::Dashed,
        |step| value(step.p50_ns),
        shown,
    );
    let mut drawn = lines(comparison, MarkKind::Line, |step| value(step.p99_ns), shown);
    drawn.extend(p50);
    let headline = comparison.headline();
    let name = headline.map_or_else(String::new, |series| comparison.series_label(series));
    let limits = limits(comparison, headline);
    let scale = Scale::log(drawn.ys().chain(limits.iter().map(|limit| limit.value)));
    let (x, y) = (
        offered(&drawn),
        axis(format!("{name}, log scale"), scale, "ns"),
    );
    let reading = "Solid: p99 of each step; dashed: p50.";
    let title = format!("{name} by offered rate");
    let chart = drawn.chart("ramp-latency".to_owned(), title, reading, x, y);
    Chart { limits, ..chart }
}

fn served(comparison: &Comparison<'_>) -> Chart {
    let shown = |step: &Step| {
        let [offered, served] = [step.offered_per_s, step.served_per_s].map(units::significant);
        format!("{served}/s of {offered}/s")
    };
    let all = lines(
        comparison,
        MarkKind::Dashed,
        |step| Some(step.offered_per_s),
        shown,
    );
    let read = |step: &Step| Some(step.served_per_s);
    let mut drawn = lines(comparison, MarkKind::Line, read, shown);
    drawn.extend(all);
    let (x, y) = (offered(&drawn), rate("served/s", drawn.ys()));
    let reading = "Solid: operations that succeeded; dashed: all that were offered.";
    let title = "served by offered rate".to_owned();
    drawn.chart("ramp-served".to_owned(), title, reading, x, y)
}

fn offered(drawn: &Drawn) -> Axis {
    rate("offered/s", drawn.xs())
}

/// Creates an axis of rates, which is logarithmic if they have a wide range.
fn rate(label: &str, rates: impl Iterator<Item = f64>) -> Axis {
    let rates: Vec<f64> = rates.collect();
    let scale = Scale::fitting(&rates, units::label);
    let kind = match scale {
        Scale::Log { .. } => ", log scale",
        _ => "",
    };
    axis(format!("{label}{kind}"), scale, "/s")
}

/// Returns the objectives on the headline series.
fn limits(comparison: &Comparison<'_>, headline: Option<&str>) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    for run in &comparison.suite.results {
        for text in run.objectives() {
            let Some(limit) = limit(run, text, headline) else {
                continue;
            };
            match limits.iter_mut().find(|known| known.text == limit.text) {
                Some(known) => known.met &= limit.met,
                None => limits.push(limit),
            }
        }
    }
    limits
}

fn limit(run: &RunResult, text: &str, headline: Option<&str>) -> Option<Limit> {
    let objective = Objective::parse(text, &run.spec).ok()?;
    let series = run.spec.series.get(objective.series.0)?;
    (Some(series.name.as_ref()) == headline).then(|| Limit {
        value: objective.limit_ns as f64,
        text: plain(text),
        met: run
            .steps()
            .iter()
            .all(|step| step.p99_ns < Some(objective.limit_ns)),
    })
}
