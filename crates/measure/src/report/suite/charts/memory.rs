//! Peak memory against peak connections, with the line whose slope is the cost of a connection.

use super::{Cells, Chart, Kind, Mark, Scale, axis, chart, heights, page, show};
use crate::report::suite::memory::slopes;
use crate::report::svg::Point;
use crate::units;

pub(super) fn draw(cells: &Cells<'_>) -> Option<Chart> {
    let (mut marks, mut said) = (Vec::new(), Vec::new());
    let names = cells.short_names();
    for (daemon, slope) in slopes(cells).into_iter().enumerate() {
        if slope.points.is_empty() {
            continue;
        }
        let name = page::plain(cells.daemons[daemon]);
        let points: Vec<Point> = slope
            .points
            .iter()
            .map(|(x, kb)| (*x, kb / 1024.0))
            .collect();
        let what = |(x, mib): &Point| {
            format!(
                "{name}: {} MiB at {} connections",
                show::significant(*mib),
                show::whole(*x)
            )
        };
        let named = points.iter().map(what).collect();
        let most = points.iter().map(|(x, _)| *x).fold(0.0, f64::max);
        let end = |x: f64, kb: f64| (x, kb / 1024.0);
        let (label, spoken) = match &slope.line {
            Ok(line) => {
                let kib = show::significant(line.slope);
                let ends = vec![end(0.0, line.at(0.0)), end(most, line.at(most))];
                marks.push(
                    Mark::new(daemon, Kind::Line, vec![ends])
                        .labelled(&format!("{} {kib}", names[daemon])),
                );
                (None, format!("{name}: {kib} KiB per connection"))
            }
            Err(why) => (Some(names[daemon]), format!("{name}: {why}")),
        };
        let dots = Mark::new(daemon, Kind::Dots, vec![points]).named(named);
        marks.push(match label {
            Some(label) => dots.labelled(label),
            None => dots,
        });
        said.push(spoken);
    }
    if marks.is_empty() {
        return None;
    }
    let across: Vec<f64> = marks
        .iter()
        .flat_map(|mark| mark.pieces.iter().flatten())
        .map(|(x, _)| *x)
        .collect();
    let whole = |value: f64| units::count(value.round() as u64);
    let axes = (
        axis(
            "connections open at once, peak",
            Scale::linear(across, whole),
        ),
        axis("RSS, peak, MiB", Scale::linear(heights(&marks), whole)),
    );
    Some(chart(
        "memory-connections".to_owned(),
        "Memory against connections".to_owned(),
        "A dot is a run, the line is fitted to all runs of a daemon; the number is its slope in KiB per connection.",
        axes,
        marks,
        &said,
    ))
}
