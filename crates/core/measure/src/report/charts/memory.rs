//! Peak memory against peak connections, with the line whose slope is the cost of a connection.

use super::drawn::{Drawn, axis};
use crate::regression::LinearFit;
use crate::report::comparison::Comparison;
use crate::report::sections::{Slope, slopes};
use crate::report::svg::{Chart, Mark, MarkKind, Point, Scale};
use crate::units;

pub(super) fn draw(comparison: &Comparison<'_>) -> Chart {
    let names = comparison.short_names();
    let mut drawn = Drawn::default();
    for (daemon, slope) in slopes(comparison).into_iter().enumerate() {
        if !slope.points.is_empty() || !slope.left_out.is_empty() {
            drawn.extend(of_daemon(comparison, daemon, &names[daemon], &slope));
        }
    }
    let connections = Scale::linear(drawn.xs(), units::whole);
    let rss = Scale::linear(drawn.ys(), units::whole);
    drawn.chart(
        "memory-connections".to_owned(),
        "Memory against connections".to_owned(),
        "Each dot is a run, hollow if it is INVALID; the line is fitted to the others, and the number is its slope in KiB per connection.",
        axis("peak open connections", connections, ""),
        axis("peak RSS, MiB", rss, " MiB"),
    )
}

/// Draws dots for the runs, and the fitted line if there is one.
fn of_daemon(comparison: &Comparison<'_>, daemon: usize, label: &str, slope: &Slope) -> Drawn {
    let name = comparison.daemon(daemon);
    let dots = |kind: MarkKind, points: &[(f64, f64)]| {
        let points: Vec<Point> = points.iter().map(|(x, kb)| (*x, kb / 1024.0)).collect();
        let name_point = |(x, mib): &Point| {
            let (mib, x) = (units::significant(*mib), units::whole(*x));
            format!("{name}: {mib} MiB at {x} connections")
        };
        let names = points.iter().map(name_point).collect();
        (!points.is_empty()).then(|| Mark::new(daemon, kind, vec![points]).named(names))
    };
    let most = slope.points.iter().map(|(x, _)| *x).fold(0.0, f64::max);
    let kinds = [
        (MarkKind::Dots, &slope.points),
        (MarkKind::HollowDots, &slope.left_out),
    ];
    let dots = kinds
        .into_iter()
        .filter_map(|(kind, points)| dots(kind, points));
    let mut marks: Vec<Mark> = dots.collect();
    let description = match &slope.line {
        Ok(line) => {
            let kib = units::significant(line.slope);
            let fitted = Mark::new(daemon, MarkKind::Line, vec![ends(line, most)]);
            marks.push(fitted.labelled(&format!("{kib} {label}")));
            format!("{name}: {kib} KiB per connection")
        }
        Err(why) => {
            marks[0].label = Some(label.to_owned());
            format!("{name}: {why}")
        }
    };
    Drawn {
        marks,
        descriptions: vec![description],
    }
}

/// Returns the end points of the line, from 0 connections to `most`, in MiB.
fn ends(line: &LinearFit, most: f64) -> Vec<Point> {
    [0.0, most].map(|x| (x, line.at(x) / 1024.0)).into()
}
