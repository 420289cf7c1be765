//! `--fail-on`: the change of a daemon that fails a call.

use load::plan::Invalid;
use measure::report::{self, Judgement};
use measure::suite::Suite;

use crate::exit;

/// The change that fails a call: the daemon is worse by this metric, or by the primary one.
#[derive(Debug, Clone)]
pub(crate) struct FailOn(Option<String>);

/// Reads `worse` or `worse:METRIC`.
///
/// # Errors
/// It is neither.
pub(crate) fn fail_on(text: &str) -> Result<FailOn, String> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("worse", "") => Ok(FailOn(None)),
        ("worse", metric) => Ok(FailOn(Some(metric.to_owned()))),
        _ => Err("write worse, or worse:METRIC, such as worse:response.p99".to_owned()),
    }
}

impl FailOn {
    /// Judges the daemons of a suite against their control.
    ///
    /// # Errors
    /// No daemons are compared by the metric.
    pub(crate) fn judge(&self, suite: &Suite) -> anyhow::Result<Judgement> {
        let judged = report::against_control(suite, self.0.as_deref());
        judged.map_err(|problem| Invalid::new("--fail-on", problem).into())
    }
}

/// Returns what the user is told about a judgement that fails the call, and the call's exit code.
pub(crate) fn failure(judgement: &Judgement) -> Option<(String, u8)> {
    match judgement {
        Judgement::Worse(statement) => Some((format!("Worse: {statement}."), exit::WORSE)),
        Judgement::NotCompared => {
            let text = "Nothing was compared by the metric of --fail-on: the answer says why.";
            Some((text.to_owned(), exit::SUSPECT))
        }
        Judgement::Unproven => None,
    }
}
