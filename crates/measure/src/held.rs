//! Whether a run held its load: what a capacity is made of.

use crate::result::RunResult;
use crate::units;
use crate::warning::Verdict;

impl RunResult {
    /// Whether the run held its load: it met all its thresholds, nothing is unfinished or missed, and it is not INVALID.
    ///
    /// Failed operations are for thresholds to judge: what share of them is tolerable is the plan's to say. An INVALID
    /// run proves nothing about the daemon, so it never counts as held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.shortfalls().is_empty()
    }

    /// Why the run did not hold its load, each with what was measured; empty if it did.
    #[must_use]
    pub fn shortfalls(&self) -> Vec<String> {
        let thresholds = self.thresholds.iter().filter(|threshold| !threshold.met);
        let mut why: Vec<String> = thresholds
            .map(|threshold| {
                let measured = threshold.measured.as_deref().unwrap_or("not measured");
                format!("{} ({measured})", threshold.text)
            })
            .collect();
        for (count, what) in [
            (self.operations.unfinished, "did not end"),
            (self.operations.missed, "were due and never begun"),
        ] {
            if count > 0 {
                why.push(format!("{} {what}", units::count(count)));
            }
        }
        if self.verdict == Verdict::Invalid {
            let reason = self.warnings.first().map(|warning| &*warning.message);
            why.push(format!(
                "INVALID: {}",
                reason.unwrap_or("no reason is given")
            ));
        }
        why
    }
}
