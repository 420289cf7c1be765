//! Makes INVALID runs again: what disturbed them may have passed.

use harness::store;
use measure::units;
use measure::warning::Severity;

use super::Runner;
use crate::record::{RunId, SetAside};

impl Runner<'_> {
    /// Returns the number of times that this call makes an INVALID run again. A search repeats its trials by itself.
    pub(super) fn most_retries(&self) -> u32 {
        match self.suite.spec.capacity {
            Some(_) => 0,
            None => self.suite.retry_invalid,
        }
    }

    /// Returns true if a run has an INVALID result and this call makes it again.
    pub(super) fn is_retried(&self, id: &RunId) -> bool {
        let retried = self.retried.get(id).copied().unwrap_or_default();
        retried < self.most_retries() && self.record.is_spoiled(id)
    }

    /// Returns the expected number of further attempts at a run that is not settled, with the current one: each may be
    /// INVALID as often as those before.
    pub(super) fn expected_attempts(&self, id: &RunId) -> f64 {
        let aside = self.record.set_aside.len();
        let made = aside + self.record.runs.len();
        let invalid = (aside + self.record.spoiled_runs()) as f64 / made.max(1) as f64;
        let retried = self.retried.get(id).copied().unwrap_or_default();
        let first = u32::from(!self.record.has_ended(id));
        let most = first + self.most_retries().saturating_sub(retried);
        (0..most)
            .map(|before| invalid.powi(before.cast_signed()))
            .sum()
    }

    /// Returns true if INVALID runs are left that another call would make again.
    pub(super) fn has_retries(&self) -> bool {
        self.most_retries() > 0 && self.record.spoiled_runs() > 0
    }

    /// Sets the INVALID result of a run aside, before the run is made again.
    pub(super) fn set_aside(&mut self, id: &RunId) -> anyhow::Result<()> {
        let reason = self.invalid_because(id);
        let attempt = self
            .folder
            .set_invalid_aside(id, self.record.attempts_set_aside(id) + 1)?;
        self.record.runs.retain(|run| run.id != *id);
        self.record.set_aside.push(SetAside {
            id: id.clone(),
            attempt,
            reason,
        });
        *self.retried.entry(id.clone()).or_default() += 1;
        self.record.write(self.folder.path())
    }

    /// Returns the first warning that made the result of a run INVALID.
    fn invalid_because(&self, id: &RunId) -> String {
        let result = match store::read_result(&self.folder.result(id)) {
            Ok(result) => result,
            Err(error) => return format!("{error:#}"),
        };
        let mut warnings = result.warnings.into_iter();
        let invalid = warnings.find(|warning| warning.severity == Severity::Invalid);
        invalid.map_or_else(String::new, |warning| warning.message)
    }

    /// Describes the INVALID runs that were made again, and those that are kept; absent if there are none.
    pub(super) fn about_invalid(&self) -> Option<String> {
        let again = match self.record.set_aside.len() as u64 {
            0 => None,
            again => Some(format!(
                "{} made again (the earlier attempts are kept in <n>.invalid-<attempt>)",
                counted(again, "INVALID run was", "INVALID runs were")
            )),
        };
        let kept = match self.record.spoiled_runs() as u64 {
            0 => None,
            kept => Some(format!(
                "{}: {}",
                counted(kept, "run is INVALID", "runs are INVALID"),
                match self.most_retries() {
                    0 => "the figures are not the daemon's",
                    _ => "repeat the command to try again, or accept with --retry-invalid 0",
                }
            )),
        };
        let parts: Vec<String> = again.into_iter().chain(kept).collect();
        (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    let what = if count == 1 { one } else { several };
    format!("{} {what}", units::count(count))
}
