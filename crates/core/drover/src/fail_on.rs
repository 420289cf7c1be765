//! `--fail-on`: the change of a daemon that fails a call.

use load::plan::Invalid;
use measure::report;
use measure::suite::Suite;

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
    /// Returns the statement that a daemon is worse than its control, if it is.
    ///
    /// # Errors
    /// No daemons are compared by the metric.
    pub(crate) fn worse(&self, suite: &Suite) -> anyhow::Result<Option<String>> {
        let worse = report::worse_than_control(suite, self.0.as_deref());
        worse.map_err(|problem| Invalid::new("--fail-on", problem).into())
    }
}
