//! Markdown (GitHub's dialect) with the same content as the terminal report, for a pull request or a file.

use super::page::{Block, Table};
use super::{Error, audit, overview, page};
use crate::result::RunResult;
use crate::warning::Warning;

/// Renders the results one after the other; several results get an overview first.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let mut parts: Vec<String> = overview::blocks(results).iter().map(render_block).collect();
    for result in results {
        parts.extend(page::blocks(result)?.iter().map(render_block));
    }
    Ok(parts.join("\n"))
}

pub(super) fn render_block(block: &Block) -> String {
    match block {
        Block::Title(title) => format!("## {}\n", escaped(title)),
        Block::Heading(heading) => format!("### {}\n", escaped(heading)),
        Block::Note(note) => format!("{}\n", escaped(note)),
        Block::Facts(facts) => facts
            .iter()
            .map(|(label, text)| format!("- **{label}:** {}\n", escaped(text)))
            .collect(),
        Block::Table(table) => rendered(table),
        Block::Picture(lines) => fenced(&lines.join("\n"), ""),
        Block::Warnings(warnings) => warnings.iter().map(warning).collect(),
    }
}

/// Formats the first line as a sentence and the rest (the last lines of a log) verbatim.
fn warning(warning: &Warning) -> String {
    let (first, rest) = warning
        .message
        .split_once('\n')
        .unwrap_or((&warning.message, ""));
    let head = format!(
        "- **{}:** {} → {}\n",
        page::severity(warning.severity),
        escaped(first),
        escaped(&warning.hint)
    );
    if rest.is_empty() {
        head
    } else {
        format!("{head}\n{}", fenced(rest, "  "))
    }
}

/// Puts text verbatim between fences that it does not contain.
fn fenced(text: &str, indent: &str) -> String {
    let longest = text
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: String = text
        .lines()
        .map(|line| format!("{indent}{line}\n"))
        .collect();
    format!("{indent}{fence}text\n{lines}{indent}{fence}\n")
}

fn rendered(table: &Table) -> String {
    let width = table.head.len();
    let rule: Vec<String> = (0..width)
        .map(|column| {
            let words = column == 0 || table.left_aligned.contains(&column);
            if words { "---" } else { "---:" }.to_owned()
        })
        .collect();
    let cells = |row: &Vec<String>| {
        let bold = if audit::fails(row) { "**" } else { "" };
        row.iter()
            .map(|cell| format!("{bold}{}{bold}", escaped(cell)))
            .collect::<Vec<_>>()
    };
    let footer_row = |row: &Vec<String>| {
        row.iter()
            .map(|cell| format!("*{}*", escaped(cell)))
            .collect::<Vec<_>>()
    };
    let rows = table
        .rows
        .iter()
        .map(cells)
        .chain(table.footer_rows.iter().map(footer_row));
    [cells(&table.head), rule]
        .into_iter()
        .chain(rows)
        .map(|row| format!("| {} |\n", row.join(" | ")))
        .collect()
}

/// Escapes characters that are markup in Markdown or HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' => escaped.push(' '),
            '|' | '*' | '`' | '[' | ']' | '\\' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(
            escaped("a|b <script> *c* d&e"),
            "a\\|b &lt;script> \\*c\\* d&amp;e"
        );
    }

    #[test]
    fn a_log_that_holds_fences_does_not_end_its_own() {
        assert_eq!(fenced("a\n```\nb", ""), "````text\na\n```\nb\n````\n");
    }
}
