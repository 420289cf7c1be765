//! Cases as text: the files `cases/*.txt`.
//!
//! A line without an indent is the name of a case, and the indented lines below it are its steps (see [`step`]). Cases
//! without an empty line between them are a block. A block may end with a table: its cases are then listed once for
//! each row but the first, with `<column>` replaced by a cell. `= small-rooms` names the [`Setup`] of the cases below
//! it. A line that begins with `#` is a comment.

use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use crate::member::Member;
use crate::server::Server;
use crate::setup::Setup;

mod step;

use step::Run;

/// A rule that a server must follow.
#[derive(Debug)]
pub(crate) struct Case {
    /// The unique name: the specification and its section, a colon, and the rule in a few words.
    pub(crate) name: String,
    /// The settings that the server must have.
    pub(crate) setup: &'static Setup,
    file: &'static str,
    /// The steps, each with the number of its line.
    steps: Vec<(usize, String)>,
}

impl Case {
    /// Runs the case on a server, which must still serve a new client afterwards. A case that uses up a limit of a whole
    /// server waits for the others.
    pub(crate) fn attempt(&self, server: &Server) -> anyhow::Result<()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let setup = self.setup.name;
        let is_alone = setup.starts_with("few-");
        // A case that panicked has left nothing half done.
        let _alone = is_alone.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        let mut run = Run::new(server);
        for (number, step) in &self.steps {
            let place = || format!("{}:{number}: {step:.200}", self.file);
            run.step(step).with_context(place)?;
        }
        // The application of the echo mode is not presence.
        if is_alone || setup == "echo" {
            return Ok(());
        }
        Member::is_served(server)
    }

    /// Returns the case with `<column>` replaced by the cell of a row.
    fn with_cells(&self, columns: &[&str], row: &[&str]) -> Self {
        let filled = |text: &str| {
            let cells = columns.iter().zip(row);
            cells.fold(text.to_owned(), |text, (column, cell)| {
                text.replace(&format!("<{column}>"), cell)
            })
        };
        let steps = self.steps.iter();
        Self {
            name: filled(&self.name),
            steps: steps
                .map(|(number, step)| (*number, filled(step)))
                .collect(),
            ..*self
        }
    }
}

/// Returns the cases of a file.
pub(crate) fn cases((file, text): (&'static str, &str)) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut setup = "usual";
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines()).collect();
    for block in lines.split(|(_, line)| line.is_empty()) {
        let mut templates: Vec<Case> = Vec::new();
        let mut rows = Vec::new();
        for &(number, line) in block {
            let step = line.trim_start();
            if let Some(name) = line.strip_prefix("= ") {
                setup = name;
            } else if let Some(row) = step.strip_prefix("| ") {
                let cells = row.trim_end_matches('|').split('|');
                rows.push(cells.map(str::trim).collect());
            } else if step != line {
                let case = templates.last_mut().expect("a step belongs to a case");
                case.steps.push((number, step.to_owned()));
            } else if !line.starts_with('#') {
                templates.push(Case {
                    name: line.to_owned(),
                    setup: Setup::named(setup),
                    file,
                    steps: Vec::new(),
                });
            }
        }
        if rows.is_empty() {
            rows = vec![Vec::new(); 2];
        }
        for row in &rows[1..] {
            cases.extend(templates.iter().map(|case| case.with_cells(&rows[0], row)));
        }
    }
    cases
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
