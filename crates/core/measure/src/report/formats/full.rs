//! The whole report as plain text: the verdict first, then tables and text charts.

use comfy_table::{CellAlignment, Table as Grid, presets};

use crate::report::cell::Cell;
use crate::report::comparison::Comparison;
use crate::report::document::Part;
use crate::report::error::Error;
use crate::report::table::Table;

use crate::report::{sections, sparklines};
use crate::suite::Suite;
use crate::warning::Warning;

/// Columns, if the width of the terminal is not known.
const WIDTH: usize = 100;
/// Columns by which sentences end before the last one.
const MARGIN: usize = 4;

/// Shortest line of a head that is broken.
const HEAD_WIDTH: usize = 9;
/// Longest line of a cell that is broken.
const CELL_WIDTH: usize = 32;

/// Renders the suite, with medians only, for a terminal of `width` columns. Charts and wide tables may need 100.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(suite: &Suite, width: Option<usize>) -> Result<String, Error> {
    let width = width.unwrap_or(WIDTH);
    let comparison = Comparison::new(suite);
    let mut text = String::new();
    for section in sections::all(&comparison) {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}{}\n", section.title));
        for part in &section.parts {
            text.push_str(&written(&comparison, part, width)?);
        }
    }
    Ok(text)
}

fn written(comparison: &Comparison<'_>, part: &Part, width: usize) -> Result<String, Error> {
    let text_width = width.saturating_sub(MARGIN);
    Ok(match part {
        Part::Heading(heading) => format!("\n{heading}\n"),
        Part::Note(note) => indented(&wrapped(note, text_width.saturating_sub(2))),
        Part::Facts(facts) => facts
            .iter()
            .map(|(label, text)| labelled(label, text, text_width))
            .collect(),
        Part::Table(table) => grid(table, width),
        Part::Warnings(warnings) => {
            let warning = |one| warning(one, text_width);
            warnings.iter().map(warning).collect()
        }
        Part::Charts(charts) => sparklines::draw(comparison, charts)?
            .into_iter()
            .map(|(heading, lines)| format!("\n{heading}\n{}", indented(&lines)))
            .collect(),
    })
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

fn warning(warning: &Warning, width: usize) -> String {
    let hint = labelled("", &format!("→ {}", warning.hint), width);
    labelled(warning.severity.name(), &warning.message, width) + &hint
}

/// Formats a label and its text, wrapped into aligned lines.
pub(super) fn labelled(label: &str, text: &str, width: usize) -> String {
    const INDENT: usize = 12;
    let mut written = String::new();
    let lines = text
        .lines()
        .flat_map(|line| wrapped(line, width.saturating_sub(INDENT)));
    for (index, line) in lines.enumerate() {
        let label = if index == 0 { label } else { "" };
        written.push_str(format!("  {label:<10}{line}").trim_end());
        written.push('\n');
    }
    written
}

/// Wraps a line at spaces; a word that is too long keeps its own line.
pub(super) fn wrapped(line: &str, width: usize) -> Vec<String> {
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

/// Formats a table with right-aligned figures. The heads and words of a table that would be too wide are broken into
/// lines.
fn grid(table: &Table, width: usize) -> String {
    let heads = table.head.iter().map(|head| head.text.clone()).collect();
    let rows = table.rows.iter();
    let rows = rows.map(|row| row.cells.iter().map(short).collect());
    let (heads, rows): (Vec<String>, Vec<Vec<String>>) = (heads, rows.collect());
    let whole = lines(table, &heads, &rows);
    let is_wide = |line: &String| line.chars().count() > width;
    if !whole.iter().any(is_wide) {
        return whole.concat();
    }
    let broken = |text: &str, width| wrapped(text, width).join("\n");
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| broken(cell, CELL_WIDTH)).collect())
        .collect();
    let head = |(column, head): (usize, &String)| {
        let lines = rows.iter().flat_map(|row| row[column].lines());
        let widest = lines.map(|line| line.chars().count()).max();
        broken(head, widest.unwrap_or(0).max(HEAD_WIDTH))
    };
    let heads: Vec<String> = heads.iter().enumerate().map(head).collect();
    lines(table, &heads, &rows).concat()
}

fn lines(table: &Table, heads: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING)
        .set_header(heads)
        .add_rows(rows);
    for (index, column) in grid.column_iter_mut().enumerate().skip(1) {
        if !table.head[index].left_aligned {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.lines()
        .map(|line| format!(" {line}").trim_end().to_owned() + "\n")
        .collect()
}

/// Returns the median of a cell, with the mark of the best.
fn short(cell: &Cell) -> String {
    let best = if cell.best { " best" } else { "" };
    format!("{}{best}", cell.short())
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
