//! `drover compare`: daemons of several suites, compared with the daemons of the first.

use std::path::{Path, PathBuf};

use clap::Args;
use harness::failure::Failure;
use harness::output;
use measure::report::{Format, Options, Selection, Source, combine, list_of_names};
use measure::suite::Suite;

use crate::fail_on::{self, FailOn, fail_on};
use crate::record::FILE;
use crate::{exit, report};

/// Separates the path of a side from its daemon.
const SEPARATOR: char = '#';

#[derive(Debug, Args)]
pub(crate) struct CompareOptions {
    /// Compare the others with this: a folder of a suite or of results, or a single result; PATH#DAEMON is one daemon of it
    #[arg(value_name = "CONTROL")]
    control: PathBuf,
    /// Compare these with it, each daemon with the control of its name; a control that is one daemon is compared with any
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    #[arg(long, value_name = "NAME", default_value = "terminal", help = format!(
        "Print the comparison in this format: {}",
        list_of_names()
    ))]
    format: Format,
    /// End with exit code 6 if a daemon is worse than its control by the primary metric, or by another one, such as
    /// worse:response.p99, and with 3 if it cannot be compared. Nothing is run again to confirm the word
    #[arg(long, value_name = "worse[:METRIC]", value_parser = fail_on)]
    fail_on: Option<FailOn>,
}

impl CompareOptions {
    /// Prints the comparison. Returns the exit code.
    ///
    /// # Errors
    /// A path without results, sides that have nothing in common or other loads, or a metric that nothing is compared by.
    pub(crate) fn compare(&self) -> Result<u8, Failure> {
        let suite = self.combined().map_err(Failure::Call)?;
        let fail_on = self.fail_on.as_ref();
        let judged = fail_on.map(|fail_on| fail_on.judge(&suite)).transpose();
        let judged = judged.map_err(Failure::Call)?;
        let options = Options {
            width: output::columns(),
            more: Some("--format markdown, or --format html > comparison.html"),
            ..Options::default()
        };
        let text = self.format.render_suite(&suite, &options);
        output::print_report(
            self.format,
            &text.map_err(|error| Failure::Call(error.into()))?,
        )?;
        let Some((text, code)) = judged.as_ref().and_then(fail_on::failure) else {
            return Ok(exit::FINE);
        };
        output::note(&text);
        Ok(code)
    }

    /// Returns the sides as one suite.
    fn combined(&self) -> anyhow::Result<Suite> {
        let mut sources: Vec<(PathBuf, Source)> = Vec::new();
        let mut sides = Vec::new();
        for typed in [&self.control].into_iter().chain(&self.others) {
            let (path, daemon) = path_and_daemon(typed);
            let known = sources.iter().position(|(known, _)| *known == path);
            if known.is_none() {
                let suite = report::read(std::slice::from_ref(&path))?;
                sources.push((path.clone(), source(&path, suite)));
            }
            sides.push(Selection {
                source: known.unwrap_or(sources.len() - 1),
                daemon,
            });
        }
        let sources = sources.into_iter().map(|(_, source)| source);
        let remedy = "name suites of the same plan and target (`drover list` shows the suites)";
        combine(sources.collect(), &sides, false)
            .map_err(|difference| anyhow::anyhow!("{difference}: {remedy}"))
    }
}

/// Returns the suite of a folder as one of several that are compared.
pub(crate) fn source(path: &Path, suite: Suite) -> Source {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let made_in = whole.ancestors().find(|folder| folder.join(FILE).is_file());
    let folder = if whole.is_file() {
        whole.parent()
    } else {
        Some(whole.as_path())
    };
    let folder = folder.and_then(Path::file_name).unwrap_or_default();
    Source {
        folder: folder.to_string_lossy().into_owned(),
        made_in: made_in.map(|folder| folder.to_string_lossy().into_owned()),
        suite,
    }
}

/// Splits a side into its path and its daemon, if it has one. A path with the separator in its name is a path.
fn path_and_daemon(typed: &Path) -> (PathBuf, Option<String>) {
    let text = typed.to_string_lossy();
    match text.rsplit_once(SEPARATOR) {
        Some((path, daemon)) if !typed.exists() => (path.into(), Some(daemon.to_owned())),
        _ => (typed.to_owned(), None),
    }
}
