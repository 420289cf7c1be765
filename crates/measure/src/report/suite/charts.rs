//! The charts of a comparison: their selection and their content.

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

/// Builds the non-empty charts of a section.
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

/// Marks of daemons, with the same content in words.
#[derive(Debug, Default)]
struct Drawn {
    marks: Vec<Mark>,
    descriptions: Vec<String>,
}

impl Drawn {
    fn extend(&mut self, other: Self) {
        self.marks.extend(other.marks);
        self.descriptions.extend(other.descriptions);
    }
}

/// Creates a chart whose text alternative lists the description of each daemon.
fn chart(id: String, title: String, reading: &str, axes: (Axis, Axis), drawn: Drawn) -> Chart {
    Chart {
        id,
        alternative: format!("{title}. {}.", drawn.descriptions.join("; ")),
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

/// Returns the y values of all points.
fn heights(marks: &[Mark]) -> Vec<f64> {
    let points = marks.iter().flat_map(|mark| mark.pieces.iter().flatten());
    points.map(|(_, y)| *y).collect()
}

/// Returns true if a cell has several runs.
fn several(at: &[Cell<'_>]) -> bool {
    at.iter().any(|cell| cell.runs.len() > 1)
}
