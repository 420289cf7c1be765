//! Decides whether a run sustained its load. Capacities are derived from these decisions.

use crate::result::{Operations, RunResult};
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
        let is_invalid = |warning: &&Warning| warning.severity == Severity::Invalid;
        let mut invalid = self.warnings.iter().filter(is_invalid);
        let died = invalid
            .clone()
            .find(|warning| warning.kind == Kind::DaemonDied);
        if let (None, Some(warning)) = (died, invalid.next()) {
            return LoadOutcome::Inconclusive(warning);
        }
        let mut reasons: Vec<String> = died.iter().map(|died| died.message.clone()).collect();
        reasons.extend(self.shortfalls());
        if reasons.is_empty() {
            LoadOutcome::Sustained
        } else {
            LoadOutcome::Failed(reasons)
        }
    }

    fn shortfalls(&self) -> Vec<String> {
        let missed = self.thresholds.iter().filter(|threshold| !threshold.met);
        let missed = missed.map(|threshold| {
            let measured = threshold.measured.as_deref().unwrap_or("not measured");
            format!("{} ({measured})", threshold.text)
        });
        let mut shortfalls: Vec<String> = missed.collect();
        shortfalls.extend(self.overload().map(str::to_owned));
        let Operations {
            unfinished, missed, ..
        } = self.operations;
        for (count, what) in [
            (unfinished, "operations did not end"),
            (missed, "operations were due and never started"),
        ] {
            shortfalls.extend((count > 0).then(|| format!("{} {what}", units::count(count))));
        }
        shortfalls
    }
}
