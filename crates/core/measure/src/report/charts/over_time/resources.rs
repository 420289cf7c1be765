//! What the daemon used over time, and what was open.

use super::{Drawing, PerSecond, Timeline};
use crate::report::svg::{Chart, MarkKind};
use crate::result::{Cost, Resources, RunResult};
use crate::units;

pub(in crate::report::charts) fn memory(timeline: &Timeline<'_>) -> Chart {
    let title = "Memory of the daemon";
    let read = |run: &RunResult| of_daemon(run, |cost| cost.rss_kb as f64 / 1_024.0);
    let chart = line(timeline, "rss", title, ("RSS, MiB", " MiB"), &read);
    let limits = timeline.limits(&[("daemon.rss.peak", 1_048_576.0)]);
    Chart { limits, ..chart }
}

pub(in crate::report::charts) fn cpu(timeline: &Timeline<'_>) -> Chart {
    let title = "CPU of the daemon";
    let read = |run: &RunResult| of_daemon(run, |cost| cost.cpu_pct);
    let chart = line(timeline, "cpu", title, ("% of one core", " %"), &read);
    let limits = timeline.limits(&[("daemon.cpu.peak", 1.0), ("daemon.cpu.average", 1.0)]);
    Chart { limits, ..chart }
}

/// Draws the accept queue, unless it was always empty.
pub(in crate::report::charts) fn backlog(timeline: &Timeline<'_>) -> Option<Chart> {
    let mut runs = timeline.at.iter().flat_map(|repeated| &repeated.runs);
    if !runs.any(|run| run.resources.iter().any(|sample| sample.backlog > Some(0))) {
        return None;
    }
    let title = "Accept backlog";
    let read = |run: &RunResult| by_sample(run, |sample| Some(sample.backlog? as f64));
    let axis = ("waiting connections", "");
    Some(line(timeline, "backlog", title, axis, &read))
}

/// Draws a line per daemon; the axis has a label, and a unit for values.
fn line(
    timeline: &Timeline<'_>,
    name: &str,
    title: &str,
    (label, unit): (&str, &'static str),
    read: PerSecond<'_>,
) -> Chart {
    let mut drawing = Drawing::new(timeline);
    drawing.add(MarkKind::Line, "", units::significant, unit, read);
    drawing.finish_linear(name, title.to_owned(), "", (label, unit))
}

/// Draws the open connections: those that the driver holds if it counts them, otherwise its operations, each of which
/// has one connection.
pub(in crate::report::charts) fn connections(timeline: &Timeline<'_>) -> Chart {
    let mut runs = timeline.at.iter().flat_map(|repeated| &repeated.runs);
    let by_daemon = runs.any(|run| run.resources.iter().any(|sample| sample.active.is_some()));
    let (kind, reading) = if by_daemon {
        (
            MarkKind::Dashed,
            "Solid: counted by the daemon; dashed: counted by the driver.",
        )
    } else {
        (
            MarkKind::Line,
            "Counted by the driver, at the end of each second.",
        )
    };
    let mut drawing = Drawing::new(timeline);
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
    drawing.add(MarkKind::Line, "daemon", units::whole, "", &|run| {
        by_sample(run, |sample| sample.active)
    });
    let title = "Open connections".to_owned();
    drawing.finish_linear("active", title, reading, ("connections", ""))
}

/// Draws the open requests of a driver that also holds idle connections.
pub(in crate::report::charts) fn requests(timeline: &Timeline<'_>) -> Chart {
    let mut drawing = Drawing::new(timeline);
    drawing.add(MarkKind::Line, "", units::whole, "", &|run| {
        if run.held().is_empty() {
            Vec::new()
        } else {
            operations(run)
        }
    });
    let title = "Open requests".to_owned();
    let reading = "At the end of each second.";
    drawing.finish_linear("requests", title, reading, ("requests", ""))
}

fn operations(run: &RunResult) -> Vec<(i64, f64)> {
    let seconds = run.seconds.iter();
    seconds
        .map(|second| (second.second as i64, second.active as f64))
        .collect()
}

fn of_daemon(run: &RunResult, read: impl Fn(&Cost) -> f64) -> Vec<(i64, f64)> {
    by_sample(run, |sample| sample.daemon.as_ref().map(&read))
}

/// Returns a value of each sample by second; the last sample of a second counts.
fn by_sample(run: &RunResult, read: impl Fn(&Resources) -> Option<f64>) -> Vec<(i64, f64)> {
    let samples = run.resources.iter().filter(|sample| sample.at_s >= 0.0);
    samples
        .filter_map(|sample| Some((sample.at_s as i64, read(sample)?)))
        .collect()
}
