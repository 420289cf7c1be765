//! Tables. Columns and tables without information are left out.

use maud::{Markup, html};

use crate::report::cell::Cell;
use crate::report::document::{Part, Section};
use crate::report::svg;
use crate::report::table::{Head, Row, Table};
use crate::units::NONE;

/// Columns that name the run of a row.
const NAMES: [&str; 3] = ["daemon", "level", "run"];

/// Columns that a narrow screen leaves out, so that p99 is on it.
const SPARE: [&str; 3] = ["count", "p75", "p95"];

/// Returns true if a table of the section has a row that contradicts another figure.
pub(super) fn fails(section: &Section) -> bool {
    section.parts.iter().any(|part| match part {
        Part::Table(table) => table.rows.iter().any(Row::fails),
        _ => false,
    })
}

/// Returns true if no figure of the table is known.
pub(super) fn is_empty(table: &Table) -> bool {
    let figures = figures(table);
    !figures.is_empty() && figures.iter().all(|index| all(table, *index, is_unknown))
}

/// Renders a table without its single runs.
pub(super) fn without_runs(table: &Table) -> Markup {
    render(table, None)
}

/// Renders a table and, folded below it, its single runs.
pub(super) fn table(table: &Table) -> Markup {
    render(table, table.runs.as_deref())
}

/// Renders a table without the columns that are unknown in all rows. Columns that are 0 in all rows are named below it.
fn render(table: &Table, runs: Option<&Table>) -> Markup {
    if is_empty(table) {
        return html! {};
    }
    let figures = figures(table);
    let is_left_out = |index: usize| figures.contains(&index) && all(table, index, is_unknown);
    let is_zero = |index: &usize| all(table, *index, is_zero) && !is_left_out(*index);
    let zeros: Vec<usize> = match table.rows.len() {
        0 | 1 => Vec::new(),
        _ => figures.iter().copied().filter(is_zero).collect(),
    };
    let names: Vec<&str> = zeros
        .iter()
        .map(|index| table.head[*index].text.as_str())
        .collect();
    let shown = 0..table.head.len();
    let shown = shown.filter(|index| !is_left_out(*index) && !zeros.contains(index));
    let shown: Vec<usize> = shown.collect();
    let has_figures = figures.is_empty() || shown.iter().any(|index| figures.contains(index));
    html! {
        @if has_figures {
            div.table {
                (columns(table, &shown))
                @if let Some(runs) = runs {
                    details { summary { "Every run" } (columns(runs, &with_names(runs, table, &shown))) }
                }
            }
        }
        @if !names.is_empty() { p.note { "0 in all runs: " (names.join(", ")) "." } }
    }
}

/// Returns the columns of the table of single runs that the main table shows, and the number of the run.
fn with_names(runs: &Table, table: &Table, shown: &[usize]) -> Vec<usize> {
    let is_shown =
        |text: &str| text == "run" || shown.iter().any(|index| table.head[*index].text == text);
    (0..runs.head.len())
        .filter(|index| is_shown(&runs.head[*index].text))
        .collect()
}

/// Returns the columns of figures.
fn figures(table: &Table) -> Vec<usize> {
    let is_figure = |index: &usize| {
        let head = &table.head[*index];
        !head.left_aligned && !NAMES.contains(&head.text.as_str())
    };
    (0..table.head.len()).filter(is_figure).collect()
}

fn all(table: &Table, index: usize, holds: fn(&Cell) -> bool) -> bool {
    table
        .rows
        .iter()
        .all(|row| row.cells.get(index).is_none_or(holds))
}

fn is_unknown(cell: &Cell) -> bool {
    cell.value == NONE || cell.value.is_empty()
}

fn is_zero(cell: &Cell) -> bool {
    cell.range.is_empty() && (is_unknown(cell) || cell.value.parse::<f64>() == Ok(0.0))
}

fn columns(table: &Table, shown: &[usize]) -> Markup {
    let heads = || shown.iter().map(|index| &table.head[*index]);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table {
                caption.said { (table.caption) }
                @if heads().any(is_spare) { colgroup { @for head in heads() { col class=[is_spare(head).then_some("spare")]; } } }
                thead { tr {
                    @for head in heads() {
                        @if head.left_aligned { th.w scope="col" { (head.text) } } @else { th scope="col" { (head.text) } }
                    }
                } }
                tbody { @for row in &table.rows { (line(table, row, shown)) } }
            }
        }
    }
}

fn is_spare(head: &Head) -> bool {
    SPARE.contains(&head.text.as_str())
}

fn line(table: &Table, row: &Row, shown: &[usize]) -> Markup {
    let first = |text: &Cell| {
        html! {
            th scope="row" {
                (text.value)
                @if let Some(verdict) = text.verdict { span class=(format!("doubt {verdict}")) { (verdict) } }
            }
        }
    };
    let mut classes: Vec<String> = row.daemon.map(svg::swatch).into_iter().collect();
    classes.extend(row.starts_group.then(|| "o".to_owned()));
    classes.extend(row.fails().then(|| "fails".to_owned()));
    let cells = shown
        .iter()
        .filter_map(|index| Some((*index, row.cells.get(*index)?)));
    html! {
        tr class=[(!classes.is_empty()).then(|| classes.join(" "))] {
            @for (place, (index, text)) in cells.enumerate() {
                @if place == 0 { (first(text)) }
                @else if table.head[index].left_aligned { td class=(text_classes(&text.value)) { (text.value) } }
                @else if text.best { td.best { (figure(text)) } }
                @else { td { (figure(text)) } }
            }
        }
    }
}

/// Returns the CSS classes of a text cell; long text is wrapped.
fn text_classes(text: &str) -> &'static str {
    match text.chars().count() {
        0..=32 => "w",
        _ => "w long",
    }
}

fn figure(text: &Cell) -> Markup {
    html! {
        (text.value)
        @if text.best { span.mark { "best" } }
        @if !text.range.is_empty() { small { (text.range) } }
        @if !text.interval.is_empty() { small { (text.interval) } }
    }
}
