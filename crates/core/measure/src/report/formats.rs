//! The output formats of reports. A new format needs its `mod` and its entry here.

use std::fmt;
use std::str::FromStr;

use super::error::Error;
use crate::result::RunResult;
use crate::suite::Suite;

pub mod csv;
pub mod github;
pub mod hlog;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod summary;
pub mod terminal;

/// All formats, in the order of the help text.
pub const FORMATS: &[Format] = &[
    Format {
        name: "terminal",
        extension: "txt",
        about: "one screen: the verdict, the main figures or the answer, and what is wrong",
        render: |suite, options| Ok(terminal::render(suite, options)),
    },
    Format {
        name: "markdown",
        extension: "md",
        about: "the whole report as Markdown, with all tables, for a pull request or a file",
        render: |suite, _| Ok(markdown::render(suite)),
    },
    Format {
        name: "html",
        extension: "html",
        about: "a self-contained page with tables and charts",
        render: |suite, _| html::render(suite),
    },
    Format {
        name: "csv",
        extension: "csv",
        about: "one row per second",
        render: |suite, _| Ok(csv::render(&suite.results)),
    },
    Format {
        name: "hlog",
        extension: "hlog",
        about: "HdrHistogram interval log, one histogram per second and series",
        render: |suite, _| hlog::render(&suite.results),
    },
    Format {
        name: "json",
        extension: "json",
        about: "the complete results",
        render: |suite, _| Ok(json::render(&suite.results)),
    },
    Format {
        name: "summary",
        extension: "md",
        about: "fewer than 60 lines of Markdown, for a comment on a pull request",
        render: |suite, _| Ok(summary::render(suite)),
    },
    Format {
        name: "junit",
        extension: "xml",
        about: "JUnit XML of thresholds and verdicts, for Jenkins, GitLab and others",
        render: |suite, _| Ok(junit::render(suite)),
    },
    Format {
        name: "github",
        extension: "txt",
        about: "annotations of thresholds and verdicts, for a step of GitHub Actions",
        render: |suite, _| Ok(github::render(suite)),
    },
];

/// A report format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// File extension, without the dot.
    pub extension: &'static str,
    /// One-line description.
    pub about: &'static str,
    render: Render,
}

/// Renders a suite.
type Render = fn(&Suite, &Options<'_>) -> Result<String, Error>;

/// Surroundings of a report that are not a part of the suite.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Columns of the terminal, if they are known.
    pub width: Option<usize>,
    /// Path of the page with the whole report.
    pub page: Option<&'a str>,
    /// Text before the path of the page; it says how to get the whole report, by default with `--full`.
    pub more: Option<&'a str>,
}

impl Format {
    /// Returns the format of the whole report, which `--full` prints.
    ///
    /// # Panics
    /// Never: the format is in the list.
    #[must_use]
    pub fn full() -> Self {
        let mut formats = FORMATS.iter().copied();
        formats
            .find(|format| format.name == "markdown")
            .expect("the list has the format")
    }

    /// Returns the format of the report of one screen.
    #[must_use]
    pub fn screen() -> Self {
        FORMATS[0]
    }

    /// Renders plain results as a suite that is named after the plan of the first.
    ///
    /// # Errors
    /// A stored histogram or time cannot be decoded.
    pub fn render(&self, results: &[RunResult]) -> Result<String, Error> {
        self.render_suite(&results.into(), &Options::default())
    }

    /// Renders a suite.
    ///
    /// # Errors
    /// A stored histogram or time cannot be decoded.
    pub fn render_suite(&self, suite: &Suite, options: &Options<'_>) -> Result<String, Error> {
        (self.render)(suite, options)
    }

    /// Returns true for text that people read on a terminal.
    pub fn is_for_people(&self) -> bool {
        self.extension == "txt"
    }
}

/// Returns the names of all formats, in the order of [`FORMATS`].
pub fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

/// Lists the names of all formats in words, for help texts and messages.
pub fn list_of_names() -> String {
    names().collect::<Vec<_>>().join(", ")
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = FORMATS.iter().find(|format| format.name == name).copied();
        found.ok_or_else(|| Error::Unknown {
            name: name.to_owned(),
            known: list_of_names(),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_name_and_the_error_for_an_unknown_one_lists_all() {
        for name in names() {
            assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
        }
        let error = "html5".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown format `html5`: choose one of terminal, markdown, html, csv, hlog, json, summary, junit, github"
        );
    }

    #[test]
    fn no_result_is_no_reason_to_panic() {
        for format in FORMATS {
            format.render(&[]).unwrap();
        }
    }
}
