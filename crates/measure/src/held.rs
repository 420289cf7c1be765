//! Whether a run held its load: what a capacity is made of.

use crate::result::RunResult;
use crate::units;
use crate::warning::{Kind, Severity, Warning};

/// What a run says about the load that was put on the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement<'a> {
    /// It met all its thresholds, nothing is unfinished or missed, and what was offered was served.
    Held,
    /// It did not: why, each with what was measured, and a death of the daemon first.
    NotHeld(Vec<String>),
    /// The driver or the machine was at fault, so that the run says nothing about the daemon, one way or the other.
    NotJudged(&'a Warning),
}

impl RunResult {
    /// Whether the run held its load.
    ///
    /// Failed operations are for thresholds to judge: what share of them is tolerable is the plan's to say. What an
    /// INVALID run measured is no judgement of the daemon: neither a threshold that it met nor one that it missed.
    #[must_use]
    pub fn judgement(&self) -> Judgement<'_> {
        let invalid = || {
            let warnings = self.warnings.iter();
            warnings.filter(|warning| warning.severity == Severity::Invalid)
        };
        let died = invalid().find(|warning| warning.kind == Kind::DaemonDied);
        if let Some(warning) = invalid().next().filter(|_| died.is_none()) {
            return Judgement::NotJudged(warning);
        }
        let died = died.map(|warning| warning.message.clone());
        let why: Vec<String> = died.into_iter().chain(self.shortfalls()).collect();
        if why.is_empty() {
            Judgement::Held
        } else {
            Judgement::NotHeld(why)
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
            (self.operations.unfinished, "did not end"),
            (self.operations.missed, "were due and never begun"),
        ] {
            if count > 0 {
                why.push(format!("{} {what}", units::count(count)));
            }
        }
        why
    }
}
