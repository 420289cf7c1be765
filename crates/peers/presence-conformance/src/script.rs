//! Cases as text: the files `cases/*.txt`.
//!
//! A line without an indent is the name of a case, and the indented lines below it are its steps (see [`step`]). Cases
//! without an empty line between them are a block. A block may end with a table: its cases are then listed once for
//! each row but the first, with `<column>` replaced by a cell. `= small-rooms` names the settings of the server for the cases below
//! it. A line that begins with `#` is a comment.

use anyhow::Context as _;

use crate::case::Case;
use crate::server::Server;

mod step;

use step::Run;

/// Returns the cases of a file.
pub(crate) fn cases((file, text): (&'static str, &str)) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut setup = "usual";
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines()).collect();
    for block in lines.split(|(_, line)| line.is_empty()) {
        let mut drafts: Vec<(&str, Vec<(usize, &str)>)> = Vec::new();
        let mut rows = Vec::new();
        for &(number, line) in block {
            let step = line.trim_start();
            if let Some(name) = line.strip_prefix("= ") {
                setup = name;
            } else if let Some(row) = step.strip_prefix("| ") {
                rows.push(
                    row.trim_end_matches('|')
                        .split('|')
                        .map(str::trim)
                        .collect(),
                );
            } else if step != line {
                let (_, steps) = drafts.last_mut().expect("a step belongs to a case");
                steps.push((number, step));
            } else if !line.starts_with('#') {
                drafts.push((line, Vec::new()));
            }
        }
        if rows.is_empty() {
            rows = vec![Vec::new(); 2];
        }
        for row in &rows[1..] {
            let filled = |text: &str| with_cells(text, &rows[0], row);
            cases.extend(drafts.iter().map(|(name, steps)| {
                let steps = steps.iter().map(|(number, step)| (*number, filled(step)));
                let steps: Vec<(usize, String)> = steps.collect();
                let run = move |server: &Server| {
                    let mut run = Run::new(server);
                    for (number, step) in &steps {
                        let step_name = || format!("{file}:{number}: {:.200}", step);
                        run.step(step).with_context(step_name)?;
                    }
                    Ok(())
                };
                Case::new(&filled(name), setup, run)
            }));
        }
    }
    cases
}

/// Replaces `<column>` by the cell of a row.
fn with_cells(text: &str, columns: &[&str], row: &[&str]) -> String {
    let cells = columns.iter().zip(row);
    cells.fold(text.to_owned(), |text, (column, cell)| {
        text.replace(&format!("<{column}>"), cell)
    })
}

/// Performs steps on a server, with ` then ` between them.
///
/// # Errors
/// The first step that fails.
pub(crate) fn run(server: &Server, steps: &str) -> anyhow::Result<()> {
    Run::new(server).step(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_lists_the_cases_of_its_block_once_for_each_row() {
        let text = "= echo\n# comment\na\n  x websocket\n\nb <n>\n  x > <packet>\nc <n>\n  x ends\n  | n | packet |\n  | 1 | 40 |\n  | 2 |  |\n";
        let cases = cases(("some.txt", text));
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["a", "b 1", "c 1", "b 2", "c 2"]);
        assert!(cases.iter().all(|case| case.setup.name == "echo"));
    }

    #[test]
    fn an_error_names_the_line() {
        let server = Server::parse("http://127.0.0.1:1").unwrap();
        let cases = cases(("some.txt", "a\n  x websocket\n"));
        let error = format!("{:#}", cases[0].attempt(&server).unwrap_err());
        assert!(
            error.starts_with("some.txt:2: x websocket: connecting"),
            "{error}"
        );
    }
}
