//! The audit: comparisons of a result's figures with each other and with the plan. It is a pure function of the result,
//! so a result of another tool is audited as far as its figures allow.
//!
//! Each comparison is a row, including those that agree. A comparison with an unmeasured side has no row. The
//! tolerances are taken from good runs: a row that fails deserves investigation.

use crate::result::RunResult;
use crate::spec::CounterRole;
use crate::warning::{self, Kind, verdict};

mod counts;
mod load;

/// A comparison of two figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The subject of the comparison.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The measured value.
    pub found: String,
    /// True if the two values agree.
    pub consistent: bool,
    /// The possible reason for a disagreement, and the recommended action.
    pub hint: &'static str,
    /// The kind of the warning that reports a disagreement.
    kind: Kind,
}

impl AuditRow {
    fn new(
        what: impl Into<String>,
        expected: String,
        found: String,
        consistent: bool,
        hint: &'static str,
    ) -> Self {
        Self {
            what: what.into(),
            expected,
            found,
            consistent,
            hint,
            kind: Kind::Audit,
        }
    }

    /// Returns the kind of the warning that reports a disagreement.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Sets the kind of the existing warning that already reports this disagreement.
    fn reported_as(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

/// Returns all comparisons that the result allows.
#[must_use]
pub fn comparisons(result: &RunResult) -> Vec<AuditRow> {
    let mut rows = Vec::new();
    // Faults and early ends distort the times; their own warnings report them.
    // A part of a divided run has a share of what the plan describes.
    if is_undisturbed(result) && result.part.is_none() {
        rows.extend(load::concurrency(result));
        rows.extend(load::users(result));
        rows.extend(load::stages(result));
        rows.extend(load::opening(result));
        rows.extend(load::wall(result));
        rows.extend(load::due(result));
        rows.extend(counts::connections(result));
        rows.extend(counts::held(result));
    }
    rows.extend(counts::bytes(result));
    rows.extend(counts::excess(result));
    rows.extend(load::worker(result));
    // Only the sum of all parts has the outcomes of operations that cross them.
    if !result
        .part
        .as_ref()
        .is_some_and(|part| part.shares_operations)
    {
        rows.extend(counts::operations(result));
        rows.extend(counts::goodput(result));
    }
    rows.extend(counts::compared(result));
    rows
}

/// Adds a warning for each failed row that no warning reports yet, then sorts the warnings and updates the verdict.
pub fn judge(result: &mut RunResult) {
    let mut failed = comparisons(result);
    failed.retain(|row| !row.consistent);
    failed.retain(|row| row.kind == Kind::Audit || !result.has_warning(row.kind));
    result.warnings.extend(failed.into_iter().map(|row| {
        let message = format!("{}: {}, but expected {}", row.what, row.found, row.expected);
        Kind::Audit.suspect(message, row.hint)
    }));
    warning::sort(&mut result.warnings);
    result.verdict = verdict(&result.warnings);
}

fn is_undisturbed(result: &RunResult) -> bool {
    let mut disturbing = [Kind::Interrupted, Kind::DaemonDied, Kind::WorkersFailed].into_iter();
    result.faults.is_empty() && !disturbing.any(|kind| result.has_warning(kind))
}

/// Counts operations that may have no recorded time: failed, unfinished or retried ones, and successful ones beyond the
/// number of recorded times. Each may have lasted as long as the run.
fn ops_without_latency(result: &RunResult, timed: u64) -> u64 {
    let operations = &result.operations;
    [
        operations.unfinished,
        result.total(CounterRole::Retries),
        operations.ok.saturating_sub(timed),
    ]
    .into_iter()
    .fold(operations.failed, u64::saturating_add)
}
