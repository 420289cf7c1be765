//! The whole report as Markdown (GitHub's dialect): the verdict first, then tables.

use crate::report::comparison::Comparison;
use crate::report::document::Part;
use crate::report::facts::COMMAND;
use crate::report::sections;
use crate::report::table::{Head, Row, Table};
use crate::suite::Suite;
use crate::warning::Warning;

/// Renders the suite: verdicts first, then the tables.
pub fn render(suite: &Suite) -> String {
    let mut blocks = Vec::new();
    for section in sections::all(&Comparison::new(suite)) {
        blocks.push(format!("## {}\n", escaped(&section.title)));
        blocks.extend(section.parts.iter().filter_map(written));
    }
    blocks.join("\n")
}

fn written(part: &Part) -> Option<String> {
    Some(match part {
        Part::Heading(text) => format!("### {}\n", escaped(text)),
        Part::Note(note) => format!("{}\n", escaped(note)),
        Part::Facts(facts) => facts
            .iter()
            .map(|(label, text)| match *label {
                COMMAND => format!("- **{label}:**\n\n{}", fenced(text)),
                label => format!("- **{label}:** {}\n", escaped(text)),
            })
            .collect(),
        Part::Table(table) => rendered(table),
        Part::Warnings(warnings) => warnings.iter().map(warning).collect(),
        Part::Charts(_) => return None,
    })
}

/// Formats the first line as a sentence and the rest (the last lines of a log) verbatim.
fn warning(warning: &Warning) -> String {
    let message = warning.message.as_str();
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    let head = format!(
        "- **{}:** {} → {}\n",
        warning.severity.name(),
        escaped(first),
        escaped(&warning.hint)
    );
    match rest {
        "" => head,
        rest => format!("{head}\n{}", fenced(rest)),
    }
}

/// Puts text verbatim between fences that it does not contain, indented as a part of a list item.
fn fenced(text: &str) -> String {
    let ticks = text.split(|letter| letter != '`').map(str::len);
    let fence = "`".repeat(ticks.max().unwrap_or(0).max(2) + 1);
    let lines = text.lines().map(|line| format!("  {line}\n"));
    let lines: String = lines.collect();
    format!("  {fence}text\n{lines}  {fence}\n")
}

fn rendered(table: &Table) -> String {
    let rule = |(index, head): (usize, &Head)| {
        let left = index == 0 || head.left_aligned;
        if left { "---" } else { "---:" }.to_owned()
    };
    let rule = table.head.iter().enumerate().map(rule).collect();
    let heads = table.head.iter().map(|head| escaped(&head.text)).collect();
    let cells = |row: &Row| {
        let bold = if row.fails() { "**" } else { "" };
        let cells = row.cells.iter();
        cells
            .map(|cell| format!("{bold}{}{bold}", escaped(&cell.line())))
            .collect::<Vec<_>>()
    };
    [heads, rule]
        .into_iter()
        .chain(table.rows.iter().map(cells))
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
        assert_eq!(fenced("a\n```\nb"), "  ````text\n  a\n  ```\n  b\n  ````\n");
    }
}
