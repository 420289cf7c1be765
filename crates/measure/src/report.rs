//! Reports: pure functions of results, one file each.

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

/// All report formats, in the order of the help text. A new format needs its `mod` above and its line here.
pub const FORMATS: &[Format] = &[
    Format::new(
        "terminal",
        "txt",
        "verdict, tables and text charts for a terminal",
        terminal::render,
    ),
    Format::new(
        "markdown",
        "md",
        "the same content as Markdown, for a pull request or a file",
        markdown::render,
    ),
    Format::new(
        "html",
        "html",
        "a self-contained page with tables and charts",
        html::render,
    ),
    Format::new("csv", "csv", "one row per second", csv::render),
    Format::new(
        "hlog",
        "hlog",
        "HdrHistogram interval log, one histogram per second and series",
        hlog::render,
    ),
    Format::new("json", "json", "the complete results", json::render),
];

/// A report format.
#[derive(Clone, Copy)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// File extension, without the dot.
    pub extension: &'static str,
    /// One-line description.
    pub about: &'static str,
    render: Render,
}

/// Renders results. Several results appear in one report, in the given order.
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

    /// Renders these results in this format.
    ///
    /// # Errors
    /// A stored histogram or time cannot be decoded.
    pub fn render(&self, results: &[RunResult]) -> Result<String, Error> {
        (self.render)(results)
    }
}

/// Returns the names of all formats, in the order of [`FORMATS`].
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

/// The reason why a report cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No format has this name.
    #[error("unknown format `{name}`: choose one of {}", names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// A histogram of a result can't be decoded.
    #[error("series `{series}` of run `{run}`: {source}")]
    Histogram {
        /// Run ID.
        run: String,
        /// Name of the series.
        series: String,
        /// The decoding error.
        source: DecodeError,
    },
    /// The start time of a result is not a valid time.
    #[error(
        "`started_at` of run `{run}` is `{text}`: expected a time such as 2026-01-31T12:00:00Z"
    )]
    StartedAt {
        /// Run ID.
        run: String,
        /// The stored text.
        text: String,
    },
}

impl Error {
    /// Creates the error for a histogram that cannot be decoded.
    fn histogram(result: &RunResult, series: &str) -> impl FnOnce(DecodeError) -> Self {
        let (run, series) = (result.run_id.clone(), series.to_owned());
        move |source| Self::Histogram {
            run,
            series,
            source,
        }
    }
}

/// Returns true if the results belong to more than one daemon, so that figures need the daemon's name.
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
            "unknown format `html5`: choose one of terminal, markdown, html, csv, hlog, json"
        );
    }

    #[test]
    fn no_result_is_no_reason_to_panic() {
        for format in FORMATS {
            format.render(&[]).unwrap();
        }
    }
}
