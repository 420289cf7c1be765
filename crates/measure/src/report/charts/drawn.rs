//! Marks of a chart and its text alternative, from which a chart is made.

use crate::report::comparison::Repetitions;
use crate::report::svg::{Axis, Chart, Mark, Scale};

/// Marks of daemons, with the same content in words.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) marks: Vec<Mark>,
    pub(super) descriptions: Vec<String>,
}

impl Drawn {
    pub(super) fn extend(&mut self, other: Self) {
        self.marks.extend(other.marks);
        self.descriptions.extend(other.descriptions);
    }
}

/// Creates a chart whose text alternative lists the description of each daemon.
pub(super) fn chart(
    id: String,
    title: String,
    reading: &str,
    axes: (Axis, Axis),
    drawn: Drawn,
) -> Chart {
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

pub(super) fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

/// Returns the y values of all points.
pub(super) fn heights(marks: &[Mark]) -> Vec<f64> {
    let points = marks.iter().flat_map(|mark| mark.pieces.iter().flatten());
    points.map(|(_, y)| *y).collect()
}

/// Returns true if a daemon has several runs.
pub(super) fn several(at: &[Repetitions<'_>]) -> bool {
    at.iter().any(|repeated| repeated.runs.len() > 1)
}
