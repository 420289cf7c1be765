//! The parts of a report, independent of the format and of the number of runs.

use super::table::Table;
use crate::warning::Warning;

#[derive(Debug)]
pub(super) struct Section {
    /// Element ID within a page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug)]
pub(super) enum Part {
    Heading(String),
    /// A sentence that explains the neighbouring part.
    Note(String),
    Facts(Vec<(&'static str, String)>),
    Table(Table),
    Warnings(Vec<Warning>),
    /// Charts, which only pages draw.
    Charts(Charts),
}

/// The charts of a section.
#[derive(Debug)]
pub(super) enum Charts {
    /// Each metric as a ratio to the control's.
    Ratios,
    /// Memory against connections.
    Memory,
    /// The headline figure and the rates, by level.
    Levels,
    /// Latency and served rate against the offered rate.
    Ramp,
    /// All charts of a level.
    Level(String),
}

impl Section {
    pub(super) fn new(id: &str, title: &str, parts: Vec<Part>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            parts,
        }
    }

    /// Creates a section, or none if it has no parts.
    pub(super) fn non_empty(id: &str, title: &str, parts: Vec<Part>) -> Vec<Self> {
        if parts.is_empty() {
            Vec::new()
        } else {
            vec![Self::new(id, title, parts)]
        }
    }
}

impl Part {
    /// Creates a table below its heading.
    pub(super) fn headed_table(heading: &str, table: Table) -> [Self; 2] {
        [Self::Heading(heading.to_owned()), Self::Table(table)]
    }
}
