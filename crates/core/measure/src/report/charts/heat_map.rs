//! Heat maps of a series over time, one for each daemon, with the same axes.

use super::drawn::{Drawn, axis};
use super::timeline::Timeline;
use crate::report::comparison::Repetitions;
use crate::report::error::Error;
use crate::report::plain;
use crate::report::svg::{Chart, Heat, Scale};
use crate::result::{RunResult, SeriesResult};
use crate::tally;
use crate::units;

/// Maximum number of columns.
const COLUMNS: f64 = 60.0;
/// Number of rows, at even steps of the logarithm.
const ROWS: usize = 24;

/// Draws the heat maps of a level; none for a series without histograms of seconds.
pub(super) fn draw(timeline: &Timeline<'_>, series: &str) -> Result<Vec<Chart>, Error> {
    let runs = || timeline.at.iter().flat_map(Repetitions::shown);
    let found: Vec<&SeriesResult> = runs().filter_map(|run| run.series(series)).collect();
    let ends = found.iter().flat_map(|found| [found.min_ns, found.max_ns]);
    let scale = Scale::log(ends.map(|ns| ns as f64));
    let charts = timeline.at.iter().map(|repeated| {
        let heat = heat(timeline, repeated, series, &scale)?;
        Ok(heat.map(|heat| chart(timeline, repeated, series, &scale, heat)))
    });
    let charts: Vec<Option<Chart>> = charts.collect::<Result<_, Error>>()?;
    Ok(charts.into_iter().flatten().collect())
}

/// Counts all values of all runs of a daemon, or returns `None` if their seconds have no histograms.
fn heat(
    timeline: &Timeline<'_>,
    repeated: &Repetitions<'_>,
    series: &str,
    scale: &Scale,
) -> Result<Option<Heat>, Error> {
    let bounds = scale.even_steps(ROWS);
    let column = (timeline.end / COLUMNS).ceil().max(1.0);
    let columns = (timeline.end / column).ceil() as usize;
    let mut heat = Heat {
        daemon: repeated.daemon,
        column,
        counts: vec![vec![0; ROWS]; columns],
        bounds,
    };
    for run in repeated.shown() {
        add(&mut heat, run, series)?;
    }
    Ok((heat.most() > 0).then_some(heat))
}

fn add(heat: &mut Heat, run: &RunResult, series: &str) -> Result<(), Error> {
    for second in &run.seconds {
        let at = (second.second as f64 / heat.column) as usize;
        let mut all = second.series.iter();
        let found = all.find(|one| one.name == series && !one.histogram.is_empty());
        let (Some(found), Some(counts)) = (found, heat.counts.get_mut(at)) else {
            continue;
        };
        let values = tally::recorded(&found.histogram).map_err(Error::histogram(run, series))?;
        for (value, count) in values {
            let above = heat.bounds.partition_point(|bound| *bound <= value as f64);
            counts[above.clamp(1, ROWS) - 1] += count;
        }
    }
    Ok(())
}

fn chart(
    timeline: &Timeline<'_>,
    repeated: &Repetitions<'_>,
    series: &str,
    scale: &Scale,
    heat: Heat,
) -> Chart {
    let comparison = timeline.comparison;
    let (daemon, name) = (
        comparison.daemon(repeated.daemon),
        comparison.series_label(series),
    );
    let total: u64 = heat.counts.iter().flatten().sum();
    let drawn = Drawn {
        marks: Vec::new(),
        descriptions: vec![format!(
            "{daemon}: {} values by time and size",
            units::count(total)
        )],
    };
    let title = match comparison.daemons.len() {
        1 => format!("{name}: all values"),
        _ => format!("{name}: all values of {daemon}"),
    };
    let reading = format!(
        "Darker: more values in a cell, on a log scale up to {}.",
        units::count(heat.most())
    );
    let id = format!("{}-heat-{}-{}", timeline.id, plain(series), repeated.daemon);
    let y = axis(format!("{name}, log scale"), scale.clone(), "ns");
    let chart = drawn.chart(id, title, &reading, timeline.axis(), y);
    timeline.mark(Chart {
        heat: Some(heat),
        ..chart
    })
}
