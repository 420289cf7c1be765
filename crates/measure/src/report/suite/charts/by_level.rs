//! The headline figure of each daemon by level, every run a dot.

use super::{
    Cells, Chart, Kind, Mark, Scale, axis, chart, heights, level_name, page, series_name, show,
};
use crate::report::svg::Point;
use crate::spread::Spread;

/// The share of a level's room that its daemons take.
const SPREAD: f64 = 0.6;

pub(super) fn draw(cells: &Cells<'_>) -> Option<Chart> {
    let series = cells.headline()?;
    let (mut marks, mut said) = (Vec::new(), Vec::new());
    let names = cells.short_names();
    let count = cells.daemons.len() as f64;
    for (daemon, full) in cells.daemons.iter().enumerate() {
        let name = page::plain(full);
        let aside = ((daemon as f64 + 0.5) / count - 0.5) * SPREAD;
        let (mut dots, mut middles, mut what, mut words) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for cell in cells.of_daemon(daemon) {
            let place = cells.levels.iter().position(|level| *level == cell.level)?;
            let runs: Vec<f64> = cell
                .runs
                .iter()
                .filter_map(|run| run.series(series))
                .map(|series| series.p99_ns as f64)
                .collect();
            let Some(spread) = Spread::of(runs.iter().copied()) else {
                continue;
            };
            let at = |ns: f64| -> Point { (place as f64 + aside, ns) };
            what.extend(
                runs.iter()
                    .map(|ns| format!("{name} at {}: {} ms", cell.level_name(), show::ms(*ns))),
            );
            dots.extend(runs.iter().map(|ns| at(*ns)));
            middles.push(at(spread.median));
            words.push(format!(
                "{} ms at {}",
                show::ms(spread.median),
                cell.level_name()
            ));
        }
        if dots.is_empty() {
            continue;
        }
        marks.push(Mark::new(daemon, Kind::Dots, vec![dots]).named(what));
        marks.push(Mark::new(daemon, Kind::Middle, vec![middles]).labelled(names[daemon]));
        said.push(format!("{name}: {}", words.join(", ")));
    }
    if marks.is_empty() {
        return None;
    }
    let levels = cells.levels.iter().map(|level| level_name(level)).collect();
    let axes = (
        axis("level", Scale::Names(levels)),
        axis(
            &format!("{} p99, log scale", series_name(series)),
            Scale::log(heights(&marks)),
        ),
    );
    Some(chart(
        "headline-levels".to_owned(),
        format!("{} p99 by level", series_name(series)),
        "A dot is a run, the stroke their median.",
        axes,
        marks,
        &said,
    ))
}
