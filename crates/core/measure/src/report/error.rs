//! The reasons why a report cannot be rendered.

use crate::result::RunResult;
use crate::tally::DecodeError;

/// The reason why a report cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No format has this name.
    #[error("unknown format `{name}`: choose one of {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all formats.
        known: String,
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
    pub(super) fn histogram(result: &RunResult, series: &str) -> impl FnOnce(DecodeError) -> Self {
        let (run, series) = (result.run_id.clone(), series.to_owned());
        move |source| Self::Histogram {
            run,
            series,
            source,
        }
    }
}
