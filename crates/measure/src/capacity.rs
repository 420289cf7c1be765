//! Decides whether a run sustained its load. Capacities are derived from these decisions.

use crate::result::RunResult;
use crate::units;
use crate::warning::{Kind, Severity, Warning};

/// The outcome of a run with respect to its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadOutcome<'a> {
    /// The run met all its thresholds, no operation is unfinished or missed, and the offered load was served.
    Sustained,
    /// The run did not sustain its load, for the given reasons, each with its measured value. The daemon's exit comes
    /// first.
    Failed(Vec<String>),
    /// The driver or the machine was the limit, so the run says nothing about the daemon.
    Inconclusive(&'a Warning),
}

impl RunResult {
    /// Decides whether the run sustained its load.
    ///
    /// Failed operations count only through thresholds, since the plan decides which share is acceptable. An INVALID
    /// run is inconclusive, whether it met its thresholds or not.
    #[must_use]
    pub fn load_outcome(&self) -> LoadOutcome<'_> {
        let invalid = || {
            let warnings = self.warnings.iter();
            warnings.filter(|warning| warning.severity == Severity::Invalid)
        };
        let died = invalid().find(|warning| warning.kind == Kind::DaemonDied);
        if let Some(warning) = invalid().next().filter(|_| died.is_none()) {
            return LoadOutcome::Inconclusive(warning);
        }
        let died = died.map(|warning| warning.message.clone());
        let why: Vec<String> = died.into_iter().chain(self.shortfalls()).collect();
        if why.is_empty() {
            LoadOutcome::Sustained
        } else {
            LoadOutcome::Failed(why)
        }
    }

    fn shortfalls(&self) -> Vec<String> {
        let thresholds = self.thresholds.iter().filter(|threshold| !threshold.met);
        let mut why: Vec<String> = thresholds
            .map(|threshold| {
                let measured = threshold.measured.as_deref().unwrap_or("not measured");
                format!("{} ({measured})", threshold.text)
            })
            .collect();
        why.extend(self.overload().map(str::to_owned));
        for (count, what) in [
            (self.operations.unfinished, "operations did not end"),
            (
                self.operations.missed,
                "operations were due and never started",
            ),
        ] {
            if count > 0 {
                why.push(format!("{} {what}", units::count(count)));
            }
        }
        why
    }
}
