//! Structure of the comparison, independent of the format.

use super::cells::{Cells, level_name};
use super::grid::Grid;
use super::{
    audit, capacity, glance, level, memory, opening, tables, throughput, unreached, warnings,
};
use crate::warning::Warning;

/// A section of the report with its title.
#[derive(Debug)]
pub(super) struct Section {
    /// Element ID within a page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
}

/// A part of a section.
#[derive(Debug)]
pub(super) enum Part {
    Heading(String),
    /// A sentence that explains the neighbouring part.
    Note(String),
    Facts(Vec<(&'static str, String)>),
    Grid(Grid),
    Warnings(Vec<Warning>),
    /// A place for charts, in formats that have them.
    Pictures(Pictures),
}

/// The charts of a section.
#[derive(Debug)]
pub(super) enum Pictures {
    /// Memory against connections.
    Memory,
    /// The headline figure and the rates, by level.
    Levels,
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
}

/// Builds the complete report. The first section is the opening, whose title is the verdict.
pub(super) fn sections(cells: &Cells<'_>) -> Vec<Section> {
    let mut sections = vec![opening::section(cells)];
    if !cells.suite.results.is_empty() {
        sections.push(glance::section(cells));
        sections.extend(throughput::section(cells));
        sections.extend(tables::sections(cells));
        sections.insert(sections.len() - 1, memory::section(cells));
        sections.extend(capacity::section(cells));
        sections.extend(cells.levels.iter().map(|name| level::section(cells, name)));
    }
    sections.extend(audit::section(cells));
    sections.extend(unreached::section(cells.suite));
    sections.extend(warnings::section(cells));
    sections
}

/// Returns the element ID of a level's section. Letters and digits are kept and all other characters are encoded by
/// their number, so no two IDs collide.
pub(super) fn level_id(level: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let letters = level.chars().map(|letter| {
        if plain(letter) {
            letter.to_string()
        } else {
            format!("_{:x}_", u32::from(letter))
        }
    });
    format!("level-{}", letters.collect::<String>())
}

/// Returns the title of a level's section.
pub(super) fn level_title(level: &str) -> String {
    if level.is_empty() {
        "Runs without a level".to_owned()
    } else {
        format!("Level {}", level_name(level))
    }
}
