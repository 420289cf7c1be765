//! The suite report: several daemons, levels and repetitions compared, as Markdown, HTML and plain text.

use super::page::{Block, Table};
use super::{Error, markdown as markdown_page, terminal as terminal_page};
use crate::suite::Suite;

mod audit;
mod capacity;
mod cells;
mod charts;
mod document;
mod figures;
mod glance;
mod grid;
mod html;
mod level;
mod machine;
mod memory;
mod opening;
mod show;
mod soak;
mod summary;
mod tables;
mod throughput;
mod unreached;
mod warnings;

use cells::Cells;
use document::Part;
use grid::Grid;
use show::Text;

/// Renders the comparison as Markdown: verdicts first, then the tables, then each level.
///
/// # Errors
/// None: it reads no histogram.
pub fn markdown(suite: &Suite) -> Result<String, Error> {
    let blocks = blocks(suite, Text::line);
    let parts: Vec<String> = blocks.iter().map(markdown_page::render_block).collect();
    Ok(parts.join("\n"))
}

/// Renders the comparison for a terminal, with medians only.
///
/// # Errors
/// The same as for [`markdown`].
pub fn terminal(suite: &Suite) -> Result<String, Error> {
    let middle = |text: &Text| {
        let best = if text.best { " best" } else { "" };
        format!("{}{best}", text.short())
    };
    let blocks = blocks(suite, middle);
    let text = |(place, block): (usize, &Block)| {
        let gap = match block {
            Block::Title(_) if place > 0 => "\n",
            _ => "",
        };
        format!("{gap}{}", terminal_page::render_block(block))
    };
    Ok(blocks.iter().enumerate().map(text).collect())
}

/// Renders the comparison as one HTML file with all tables and charts. It loads no other resource, and the tables need
/// no script.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn html(suite: &Suite) -> Result<String, Error> {
    html::render(&Cells::new(suite))
}

/// Renders the comparison in fewer than 60 lines of Markdown without charts, for a comment on a pull request. Each
/// daemon is compared with the first, or with itself in the earlier suite `base` of the same plan.
#[must_use]
pub fn summary(suite: &Suite, base: Option<&Suite>) -> String {
    summary::render(suite, base)
}

fn blocks(suite: &Suite, write: impl Fn(&Text) -> String) -> Vec<Block> {
    let cells = Cells::new(suite);
    let mut blocks = Vec::new();
    for section in document::sections(&cells) {
        blocks.push(Block::Title(section.title));
        blocks.extend(section.parts.into_iter().filter_map(|part| match part {
            Part::Heading(heading) => Some(Block::Heading(heading)),
            Part::Note(note) => Some(Block::Note(note)),
            Part::Facts(facts) => Some(Block::Facts(facts)),
            Part::Grid(grid) => Some(Block::Table(table(&grid, &write))),
            Part::Warnings(warnings) => Some(Block::Warnings(warnings)),
            Part::Pictures(_) => None,
        }));
    }
    blocks
}

fn table(grid: &Grid, write: impl Fn(&Text) -> String) -> Table {
    let words = grid
        .head
        .iter()
        .enumerate()
        .filter(|(_, head)| head.left_aligned);
    Table {
        head: grid.head.iter().map(|head| head.text.clone()).collect(),
        rows: grid
            .rows
            .iter()
            .map(|row| row.texts.iter().map(&write).collect())
            .collect(),
        footer_rows: Vec::new(),
        left_aligned: words.map(|(place, _)| place).collect(),
    }
}
