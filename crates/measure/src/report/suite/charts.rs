//! The pictures of a comparison: which there are, and what stands in each.

use super::cells::{Cell, Cells, level_name};
use super::document::{Pictures, level_id};
use super::figures::series_name;
use super::show;
use crate::report::Error;
use crate::report::page;
use crate::report::svg::{Axis, Chart, Kind, Mark, Scale};

mod by_level;
mod memory;
mod over_time;
mod percentiles;

/// The charts that stand at a place; those that would be empty are left out.
pub(super) fn at(cells: &Cells<'_>, place: &Pictures) -> Result<Vec<Chart>, Error> {
    Ok(match place {
        Pictures::Levels => by_level::draw(cells),
        Pictures::Memory => memory::draw(cells).into_iter().collect(),
        Pictures::Level(level) => of_level(cells, level)?,
    })
}

fn of_level(cells: &Cells<'_>, level: &str) -> Result<Vec<Chart>, Error> {
    let at = cells.at(level);
    let id = level_id(level);
    let mut charts = Vec::new();
    for series in cells.main_series() {
        charts.extend(percentiles::draw(cells, &at, &id, series)?);
    }
    for series in cells.main_series() {
        charts.extend(over_time::latency(cells, &at, &id, series));
    }
    charts.extend(over_time::rates(cells, &at, &id));
    charts.extend(over_time::resources(cells, &at, &id));
    Ok(charts)
}

/// What is drawn of daemons, and the same in words.
#[derive(Debug, Default)]
struct Drawn {
    marks: Vec<Mark>,
    said: Vec<String>,
}

impl Drawn {
    fn extend(&mut self, other: Self) {
        self.marks.extend(other.marks);
        self.said.extend(other.said);
    }
}

/// A chart with an alternative text made of what is said of each daemon.
fn chart(id: String, title: String, reading: &str, axes: (Axis, Axis), drawn: Drawn) -> Chart {
    Chart {
        id,
        alternative: format!("{title}. {}.", drawn.said.join("; ")),
        title,
        reading: reading.to_owned(),
        x: axes.0,
        y: axes.1,
        marks: drawn.marks,
    }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

/// The heights of all points.
fn heights(marks: &[Mark]) -> Vec<f64> {
    let points = marks.iter().flat_map(|mark| mark.pieces.iter().flatten());
    points.map(|(_, y)| *y).collect()
}

/// How several runs of a cell are drawn, where there are several.
fn several(at: &[Cell<'_>]) -> bool {
    at.iter().any(|cell| cell.runs.len() > 1)
}
