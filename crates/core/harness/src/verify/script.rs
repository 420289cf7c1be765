//! Functional cases as text. A line without an indent is the name of a case, and the indented lines below it are its
//! steps:
//!
//! ```text
//! = small-rooms
//! joins: a room of <number> members
//!   a joins <room>
//!   | number | room
//!   | 1      | one
//!   | 2      | two
//! ```
//!
//! Rows repeat the cases above them whose names have a column, with their cells in the place of `<column>`. A line
//! `= words` is the heading of the cases below it. Lines with `#` are comments.

/// A case of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCase<'a> {
    /// The name.
    pub name: String,
    /// The heading above the case; empty without one.
    pub heading: &'a str,
    /// The steps, each after its place, `file:line`.
    pub steps: Vec<(String, String)>,
}

/// Returns the cases of a file.
///
/// # Panics
/// A step has no case above it, or a row has not a cell for each column.
#[must_use]
pub fn parse<'a>(file: &str, text: &'a str) -> Vec<ScriptCase<'a>> {
    let mut cases: Vec<ScriptCase<'a>> = Vec::new();
    let (mut heading, mut table) = ("", None);
    for (number, line) in (1..).zip(text.lines()) {
        let step = line.trim_start();
        if let Some(row) = step.strip_prefix('|') {
            let row: Vec<&str> = row.split('|').map(str::trim).collect();
            let Some((columns, templates)) = &table else {
                let names: Vec<String> = row.iter().map(|name| format!("<{name}>")).collect();
                // A table belongs to the cases directly above it.
                let is_filled =
                    |case: &ScriptCase<'_>| !names.iter().any(|column| case.name.contains(column));
                let first = cases.iter().rposition(is_filled).map_or(0, |last| last + 1);
                table = Some((names, cases.split_off(first)));
                continue;
            };
            assert_eq!(row.len(), columns.len(), "{file}:{number}: the cells");
            let fill = |text: &mut String| {
                for (column, cell) in columns.iter().zip(&row) {
                    *text = text.replace(column, cell);
                }
            };
            for mut case in templates.clone() {
                fill(&mut case.name);
                case.steps.iter_mut().for_each(|(_, step)| fill(step));
                cases.push(case);
            }
            continue;
        }
        table = None;
        if let Some(words) = line.strip_prefix("= ") {
            heading = words;
        } else if step != line {
            let case = cases.last_mut().expect("a step belongs to a case");
            case.steps
                .push((format!("{file}:{number}"), step.to_owned()));
        } else if !line.is_empty() && !line.starts_with('#') {
            cases.push(ScriptCase {
                name: line.to_owned(),
                heading,
                steps: Vec::new(),
            });
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_repeat_the_cases_that_have_a_column() {
        let text = "# comment\na\n  x websocket\n\n= echo\nb <n>\n  x > <packet>\nc <n>\n  x ends\n  | n | packet |\n  | 1 | 40 |\n  | 2 |  |\n";
        let cases = parse("some.txt", text);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["a", "b 1", "c 1", "b 2", "c 2"]);
        let headings = cases.iter().map(|case| case.heading);
        assert!(headings.eq(["", "echo", "echo", "echo", "echo"]));
        let step = ("some.txt:7".to_owned(), "x > 40".to_owned());
        assert_eq!(cases[1].steps, [step]);
    }
}
