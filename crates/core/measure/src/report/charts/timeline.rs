//! The time axis of a level: its phases, its faults, and the thresholds of its charts.

use super::drawn::axis;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::distinct;
use crate::report::plain;
use crate::report::svg::{Axis, Chart, Limit, Scale, Span, SpanKind};
use crate::result::RunResult;
use crate::threshold;
use crate::units;

/// Faults of several runs that begin within this time of each other are drawn once, in seconds.
const TOGETHER_S: f64 = 1.0;

/// The time axis that the charts of a level share.
#[derive(Debug)]
pub(super) struct Timeline<'a> {
    pub(super) comparison: &'a Comparison<'a>,
    pub(super) at: &'a [Repetitions<'a>],
    /// Element ID of the level.
    pub(super) id: &'a str,
    /// Seconds from the first start to the end of the longest run.
    pub(super) end: f64,
    spans: Vec<Span>,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(
        comparison: &'a Comparison<'a>,
        at: &'a [Repetitions<'a>],
        id: &'a str,
    ) -> Self {
        let runs = || at.iter().flat_map(Repetitions::shown);
        let last = |run: &RunResult| {
            let rows = run.seconds.last().map_or(0, |row| row.second + 1) as f64;
            let samples = run.resources.last().map_or(0.0, |sample| sample.at_s);
            // The last row and the last sample may lie a little beyond the end.
            rows.min(run.wall_s.max(rows - 1.0)).max(samples.ceil())
        };
        let end = runs().map(last).fold(1.0, f64::max);
        let mut spans = runs().next().map_or(Vec::new(), |run| phases(run, end));
        spans.extend(faults(runs(), end));
        Self {
            comparison,
            at,
            id,
            end,
            spans,
        }
    }

    pub(super) fn axis(&self) -> Axis {
        axis("seconds", Scale::Time { to: self.end }, " s")
    }

    /// Puts a chart on the time axis, with its phases and faults, also in its text alternative.
    pub(super) fn mark(&self, chart: Chart) -> Chart {
        let about: String = self
            .spans
            .iter()
            .map(|span| format!(" {}.", span.about))
            .collect();
        Chart {
            spans: self.spans.clone(),
            timeline: Some(self.id.to_owned()),
            alternative: chart.alternative + &about,
            ..chart
        }
    }

    /// Returns the thresholds of these figures, whose bounds are divided by the unit of the axis.
    pub(super) fn limits(&self, figures: &[(&str, f64)]) -> Vec<Limit> {
        let runs = || self.at.iter().flat_map(|repeated| &repeated.runs);
        let thresholds = || runs().flat_map(|run| &run.thresholds);
        let texts = distinct(thresholds().map(|threshold| threshold.text.as_str()));
        let series = self.comparison.series();
        let limits = texts.into_iter().filter_map(|text| {
            let (figure, bound) = threshold::limit(text, &series)?;
            let (_, unit) = figures.iter().find(|(name, _)| *name == figure)?;
            Some(Limit {
                value: bound / unit,
                text: plain(text),
                met: thresholds().all(|one| one.met || one.text != text),
            })
        });
        limits.collect()
    }
}

/// Returns the phases of a run, which begin after its connections were opened.
fn phases(run: &RunResult, end: f64) -> Vec<Span> {
    let Some(phases) = run.phases else {
        return Vec::new();
    };
    let load = run.opening_s();
    let measure = load + phases.warmup_s;
    let drain = measure + phases.measure_s;
    let span = |from: f64, to: f64, name: &str, kind| {
        let to = to.min(end);
        (to > from).then(|| Span {
            from,
            to,
            name: name.to_owned(),
            about: format!(
                "{name} from {} to {}",
                units::seconds(from),
                units::seconds(to)
            ),
            kind,
        })
    };
    let spans = [
        span(0.0, load, "Opening", SpanKind::Aside),
        span(load, measure, "Warm-up", SpanKind::Aside),
        span(measure, drain, "Measure", SpanKind::Measured),
        span(drain, end, "Drain", SpanKind::Aside),
    ];
    spans.into_iter().flatten().collect()
}

/// Returns the faults of all runs; the same fault at about the same time once.
fn faults<'r>(runs: impl Iterator<Item = &'r RunResult>, end: f64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for fault in runs.flat_map(|run| &run.faults) {
        let what = plain(&fault.what);
        let to = fault.back_s.unwrap_or(end).min(end);
        let until = match fault.back_s {
            Some(back) => format!("over at {}", units::seconds(back)),
            None => "not over".to_owned(),
        };
        let about = format!("{what} at {}, {until}", units::seconds(fault.at_s));
        let mut known = spans.iter_mut();
        let same = known.find(|span| {
            span.about.starts_with(&what) && (span.from - fault.at_s).abs() < TOGETHER_S
        });
        match same {
            Some(span) => span.to = span.to.max(to),
            None => spans.push(Span {
                from: fault.at_s.min(end),
                to,
                name: what.split([' ', ',']).next().unwrap_or_default().to_owned(),
                about,
                kind: SpanKind::Fault,
            }),
        }
    }
    spans
}
