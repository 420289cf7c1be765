//! Marks of a chart and its text alternative, from which a chart is made.

use crate::report::comparison::Repetitions;
use crate::report::svg::{Axis, Chart, Mark, Scale, Size};

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

    pub(super) fn xs(&self) -> impl Iterator<Item = f64> {
        self.marks.iter().flat_map(Mark::points).map(|(x, _)| *x)
    }

    pub(super) fn ys(&self) -> impl Iterator<Item = f64> {
        self.marks.iter().flat_map(Mark::points).map(|(_, y)| *y)
    }

    /// Creates a chart from its element ID, its title, an explanation of the marks, and its axes. Its text alternative
    /// lists the description of each daemon.
    pub(super) fn chart(self, id: String, title: String, reading: &str, x: Axis, y: Axis) -> Chart {
        Chart {
            id,
            alternative: format!("{title}. {}.", self.descriptions.join("; ")),
            title,
            reading: reading.to_owned(),
            x,
            y,
            marks: self.marks,
            heat: None,
            spans: Vec::new(),
            limits: Vec::new(),
            timeline: None,
            size: Size::Normal,
        }
    }
}

/// Creates an axis of numbers, or of times if the unit is `ns`.
pub(super) fn axis(label: impl Into<String>, scale: Scale, unit: &'static str) -> Axis {
    Axis {
        label: label.into(),
        scale,
        unit,
    }
}

pub(super) fn has_repetitions(at: &[Repetitions<'_>]) -> bool {
    at.iter().any(|repeated| repeated.shown().len() > 1)
}
