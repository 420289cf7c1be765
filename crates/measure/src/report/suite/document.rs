//! What a comparison says, in its order, before it is written in a format.

use super::cells::{Cells, level_name};
use super::grid::Grid;
use super::{
    audit, capacity, glance, level, memory, opening, tables, throughput, unreached, warnings,
};
use crate::warning::Warning;

/// A part of the report with a heading of its own.
#[derive(Debug)]
pub(super) struct Section {
    /// Names it inside a page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
}

/// What stands in a section.
#[derive(Debug)]
pub(super) enum Part {
    Heading(String),
    /// A sentence that says how to read what stands beside it.
    Note(String),
    Facts(Vec<(&'static str, String)>),
    Grid(Grid),
    Warnings(Vec<Warning>),
    /// Where pictures stand, in formats that have them.
    Pictures(Pictures),
}

/// Which pictures.
#[derive(Debug)]
pub(super) enum Pictures {
    /// Memory against connections.
    Memory,
    /// The headline figure and what went through, by level.
    Levels,
    /// All of one level.
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

/// The whole report. The first section is its opening, titled with the verdict.
pub(super) fn of(cells: &Cells<'_>) -> Vec<Section> {
    let mut sections = vec![opening::of(cells)];
    if !cells.suite.results.is_empty() {
        sections.push(glance::of(cells));
        sections.extend(throughput::of(cells));
        sections.extend(tables::of(cells));
        sections.insert(sections.len() - 1, memory::of(cells));
        sections.extend(capacity::of(cells));
        sections.extend(cells.levels.iter().map(|name| level::of(cells, name)));
    }
    sections.extend(audit::of(cells));
    sections.extend(unreached::of(cells.suite));
    sections.extend(warnings::of(cells));
    sections
}

/// Names the section of a level: letters and digits as they are, all else by its number, so that no two are the same.
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

/// The title of a level's section.
pub(super) fn level_title(level: &str) -> String {
    if level.is_empty() {
        "Runs without a level".to_owned()
    } else {
        format!("Level {}", level_name(level))
    }
}
