//! Plain text for a terminal: the verdict first, then tables and text charts in at most 100 columns.

use comfy_table::{CellAlignment, Table as Grid, presets};

use super::page::{Block, Table};
use super::{Error, audit, overview, page};
use crate::result::RunResult;
use crate::warning::Warning;

/// Column before which sentences are wrapped.
const WIDTH: usize = 96;

/// Renders the results one after the other; several results get an overview first.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let mut text = String::new();
    for block in overview::blocks(results) {
        text.push_str(&render_block(&block));
    }
    for result in results {
        if !text.is_empty() {
            text.push('\n');
        }
        for block in page::blocks(result)? {
            text.push_str(&render_block(&block));
        }
    }
    Ok(text)
}

/// Colours the lines of contradicting figures red, for a terminal that supports colours.
#[must_use]
pub fn coloured(report: &str) -> String {
    const RED: &str = "\u{1b}[31m";
    const END: &str = "\u{1b}[0m";
    let fails = |line: &str| line.contains(audit::FAILS);
    let line = |line: &str| match line.strip_suffix('\n') {
        Some(text) if fails(text) => format!("{RED}{text}{END}\n"),
        _ => line.to_owned(),
    };
    report.split_inclusive('\n').map(line).collect()
}

pub(super) fn render_block(block: &Block) -> String {
    match block {
        Block::Title(title) => format!("{title}\n"),
        Block::Heading(heading) => format!("\n{heading}\n"),
        Block::Note(note) => wrapped(note, WIDTH - 2)
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect(),
        Block::Facts(facts) => facts
            .iter()
            .map(|(label, text)| labelled(label, text))
            .collect(),
        Block::Table(table) => grid(table),
        Block::Picture(lines) => lines.iter().map(|line| format!("  {line}\n")).collect(),
        Block::Warnings(warnings) => warnings.iter().map(warning).collect(),
    }
}

fn warning(warning: &Warning) -> String {
    let hint = labelled("", &format!("→ {}", warning.hint));
    labelled(page::severity(warning.severity), &warning.message) + &hint
}

/// Formats a label and its text, wrapped into aligned lines.
fn labelled(label: &str, text: &str) -> String {
    const INDENT: usize = 12;
    let mut written = String::new();
    let lines = text.lines().flat_map(|line| wrapped(line, WIDTH - INDENT));
    for (place, line) in lines.enumerate() {
        let label = if place == 0 { label } else { "" };
        written.push_str(format!("  {label:<10}{line}").trim_end());
        written.push('\n');
    }
    written
}

/// Wraps a line at spaces; a word that is too long keeps its own line.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_whitespace() {
        let open = lines.last_mut().expect("there is always a line");
        let length = open.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if length > 0 {
                open.push(' ');
            }
            open.push_str(word);
        }
    }
    lines
}

/// Formats a table with right-aligned figures, and separate rows below an empty one.
fn grid(table: &Table) -> String {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING)
        .set_header(table.head.clone())
        .add_rows(table.rows.clone());
    if !table.footer_rows.is_empty() && !table.rows.is_empty() {
        grid.add_row(vec![""]);
    }
    grid.add_rows(table.footer_rows.clone());
    for (place, column) in grid.column_iter_mut().enumerate().skip(1) {
        if !table.left_aligned.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.lines()
        .map(|line| format!(" {}", line).trim_end().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_broken_at_blanks_and_a_long_word_is_kept() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrapped("at /a/very/long/path now", 6),
            ["at", "/a/very/long/path", "now"]
        );
    }
}
