//! Reports: pure functions of results, each in a file of its own.

use std::fmt;
use std::str::FromStr;

use crate::result::RunResult;
use crate::tally::DecodeError;

mod audit;
mod cost;
pub mod csv;
mod demands;
pub mod hlog;
pub mod html;
pub mod json;
mod kernel;
pub mod markdown;
mod overview;
mod page;
mod picture;
pub mod suite;
mod svg;
pub mod terminal;

/// Every report, in the order of a help text: a new one is its `mod` above and its line here.
pub const FORMATS: &[Format] = &[
    Format::new(
        "terminal",
        "txt",
        "verdict, tables and pictures for a person at a terminal",
        terminal::render,
    ),
    Format::new(
        "markdown",
        "md",
        "the same for a pull request or a report file",
        markdown::render,
    ),
    Format::new(
        "html",
        "html",
        "a page with tables and charts, all of them in one file",
        html::render,
    ),
    Format::new("csv", "csv", "one row per second", csv::render),
    Format::new(
        "hlog",
        "hlog",
        "HdrHistogram interval log, one histogram per second and series",
        hlog::render,
    ),
    Format::new(
        "json",
        "json",
        "the results themselves, whole",
        json::render,
    ),
];

/// A way to write results down.
#[derive(Clone, Copy)]
pub struct Format {
    /// What it is called on a command line.
    pub name: &'static str,
    /// Extension of a file that holds it, without the dot.
    pub extension: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    render: Render,
}

/// Writes results down. Several results stand in one report, in the order given.
type Render = fn(&[RunResult]) -> Result<String, Error>;

impl Format {
    const fn new(
        name: &'static str,
        extension: &'static str,
        about: &'static str,
        render: Render,
    ) -> Self {
        Self {
            name,
            extension,
            about,
            render,
        }
    }

    /// The report of these results in this format.
    ///
    /// # Errors
    /// A stored histogram or time that can't be read.
    pub fn render(&self, results: &[RunResult]) -> Result<String, Error> {
        (self.render)(results)
    }
}

/// The names of all formats, in the order of [`FORMATS`].
pub fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        FORMATS
            .iter()
            .find(|format| format.name == name)
            .copied()
            .ok_or_else(|| Error::Unknown {
                name: name.to_owned(),
            })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Format").field(&self.name).finish()
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

/// Why a report can't be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No format has this name.
    #[error("the format `{name}` is unknown: choose one of {}", names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A histogram of a result can't be decoded.
    #[error("series `{series}` of run `{run}`: {source}")]
    Histogram {
        /// Name of the run.
        run: String,
        /// Name of the series.
        series: String,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The time of a result is none.
    #[error("`started_at` of run `{run}` is `{text}`, not a time such as 2026-01-31T12:00:00Z")]
    StartedAt {
        /// Name of the run.
        run: String,
        /// What stands there.
        text: String,
    },
}

impl Error {
    /// Says which histogram of a result can't be decoded.
    fn histogram(result: &RunResult, series: &str) -> impl FnOnce(DecodeError) -> Self {
        let (run, series) = (result.run_id.clone(), series.to_owned());
        move |source| Self::Histogram {
            run,
            series,
            source,
        }
    }
}

/// Whether results are of more than one daemon, so that figures must say whose they are.
fn several_daemons(results: &[RunResult]) -> bool {
    results
        .iter()
        .any(|result| result.daemon.name != results[0].daemon.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name_and_an_unknown_one_is_told_all_names() {
        for name in names() {
            assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
        }
        let error = "html5".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            error,
            "the format `html5` is unknown: choose one of terminal, markdown, html, csv, hlog, json"
        );
    }

    #[test]
    fn no_result_is_no_reason_to_panic() {
        for format in FORMATS {
            format.render(&[]).unwrap();
        }
    }
}
