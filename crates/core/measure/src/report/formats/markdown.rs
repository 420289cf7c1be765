//! Markdown (GitHub's dialect) with the same content as the terminal report, for a pull request or a file.

use crate::report::comparison::Comparison;
use crate::report::document::Part;
use crate::report::error::Error;
use crate::report::table::{Head, Row, Table};

use crate::report::{sections, sparklines};
use crate::suite::Suite;
use crate::warning::Warning;

/// Renders the suite: verdicts first, then the tables.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(suite: &Suite) -> Result<String, Error> {
    let comparison = Comparison::new(suite);
    let mut blocks = Vec::new();
    for section in sections::all(&comparison) {
        blocks.push(format!("## {}\n", escaped(&section.title)));
        for part in &section.parts {
            blocks.extend(written(&comparison, part)?);
        }
    }
    Ok(blocks.join("\n"))
}

fn written(comparison: &Comparison<'_>, part: &Part) -> Result<Vec<String>, Error> {
    let heading = |heading: &str| format!("### {}\n", escaped(heading));
    Ok(vec![match part {
        Part::Heading(text) => heading(text),
        Part::Note(note) => format!("{}\n", escaped(note)),
        Part::Facts(facts) => facts
            .iter()
            .map(|(label, text)| format!("- **{label}:** {}\n", escaped(text)))
            .collect(),
        Part::Table(table) => rendered(table),
        Part::Warnings(warnings) => warnings.iter().map(warning).collect(),
        Part::Charts(charts) => {
            let drawn = sparklines::draw(comparison, charts)?.into_iter();
            let blocks =
                drawn.flat_map(|(title, lines)| [heading(title), fenced(&lines.join("\n"), "")]);
            return Ok(blocks.collect());
        }
    }])
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
        rest => format!("{head}\n{}", fenced(rest, "  ")),
    }
}

/// Puts text verbatim between fences that it does not contain.
fn fenced(text: &str, indent: &str) -> String {
    let ticks = text.split(|letter| letter != '`').map(str::len);
    let fence = "`".repeat(ticks.max().unwrap_or(0).max(2) + 1);
    let lines = text.lines().map(|line| format!("{indent}{line}\n"));
    let lines: String = lines.collect();
    format!("{indent}{fence}text\n{lines}{indent}{fence}\n")
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
        assert_eq!(fenced("a\n```\nb", ""), "````text\na\n```\nb\n````\n");
    }
}
