//! Marks of a chart and its text alternative, from which a chart is made.

use crate::report::comparison::Repetitions;
use crate::report::svg::{Axis, Chart, Mark, Scale, Size};

/// Marks of daemons, with the same content in words.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) marks: Vec<Mark>,
    pub(super) descriptions: Vec<String>,
}

#[derive(Debug)]
pub(super) struct ChartTexts<'a> {
    /// Element ID within a page.
    pub(super) id: String,
    pub(super) title: String,
    /// Explanation of the marks.
    pub(super) reading: &'a str,
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

    /// Creates a chart whose text alternative lists the description of each daemon. Returns `None` without marks.
    pub(super) fn chart(self, texts: ChartTexts<'_>, x: Axis, y: Axis) -> Option<Chart> {
        (!self.marks.is_empty()).then(|| self.chart_of(texts, x, y))
    }

    /// Creates a chart, with or without marks.
    pub(super) fn chart_of(self, texts: ChartTexts<'_>, x: Axis, y: Axis) -> Chart {
        let ChartTexts { id, title, reading } = texts;
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
