//! Derives the exit code of a driver from its results.

use crate::result::{FaultResult, RunResult, Second};
use crate::spec::ErrorCause;
use crate::threshold;
use crate::warning::{Kind, Severity, Verdict};

/// Time after a fault in which its effects may still appear, seconds: a driver may find out only in its next sweep
/// which operations ended with the daemon.
const AFTERMATH_S: f64 = 3.0;

/// No run failed, all thresholds were met, and no result is suspect.
pub const FINE: u8 = 0;
/// A run failed.
pub const FAILED: u8 = 1;
/// A result is suspect.
pub const SUSPECT: u8 = 3;
/// A threshold was missed.
pub const MISSED: u8 = 4;

/// Returns the exit code: 1 if a run failed, 4 if a threshold was missed, 3 if the results are suspect, otherwise 0.
/// The first that applies wins, in this order. A missed threshold precedes suspect results because it is what the user
/// asked about; the report shows both.
#[must_use]
pub fn code(results: &[&RunResult]) -> u8 {
    let any = |holds: &dyn Fn(&RunResult) -> bool| results.iter().any(|result| holds(result));
    if any(&has_failed) {
        return FAILED;
    }
    if any(&|result| result.thresholds.iter().any(|threshold| !threshold.met)) {
        return MISSED;
    }
    if any(&is_suspect) {
        return SUSPECT;
    }
    FINE
}

/// Returns true if the run crashed, had no successful operation, or had failures that nothing judges.
pub(crate) fn has_failed(result: &RunResult) -> bool {
    broke_down(result) || has_failures(result)
}

/// Returns true if the run crashed or had no successful operation. Thresholds and faults do not excuse this.
fn broke_down(result: &RunResult) -> bool {
    let mut broken = [
        Kind::DaemonDied,
        Kind::WorkersFailed,
        Kind::NothingSucceeded,
    ]
    .into_iter();
    broken.any(|kind| result.has_warning(kind))
}

/// Returns true if operations failed unexpectedly and no threshold judges the failures. A threshold on an error kind
/// makes errors below it acceptable.
fn has_failures(result: &RunResult) -> bool {
    let failed = |(kind, count): (&String, &u64)| {
        let mut texts = result.thresholds.iter().map(|threshold| &threshold.text);
        if texts.any(|text| threshold::judges(text, kind)) {
            return false;
        }
        match result.spec.cause(kind) {
            ErrorCause::Failure => *count > 0,
            ErrorCause::Fault => *count > fault_errors(result, kind),
            // Errors of the driver itself say nothing about the daemon: the result is INVALID.
            ErrorCause::Expected | ErrorCause::Exhausted => false,
        }
    };
    result.errors.iter().any(failed)
}

/// Counts the failures that the injected faults explain.
pub(crate) fn explained(result: &RunResult) -> u64 {
    let errors = result.errors.iter();
    let by_fault = errors.filter(|(kind, _)| result.spec.cause(kind) == ErrorCause::Fault);
    by_fault
        .map(|(kind, count)| fault_errors(result, kind).min(*count))
        .sum()
}

/// Counts the failures of a kind in the seconds of a fault.
fn fault_errors(result: &RunResult, kind: &str) -> u64 {
    let within = |second: u64, fault: &FaultResult| {
        let from = fault.at_s.floor();
        let to = fault
            .back_s
            .map_or(f64::INFINITY, |back_s| back_s + AFTERMATH_S);
        (from..=to).contains(&(second as f64))
    };
    let is_faulty = |second: &&Second| {
        let mut faults = result.faults.iter();
        faults.any(|fault| within(second.second, fault))
    };
    let seconds = result.seconds.iter().filter(is_faulty);
    seconds.filter_map(|second| second.errors.get(kind)).sum()
}

fn is_suspect(result: &RunResult) -> bool {
    let mut warnings = result.warnings.iter();
    result.verdict != Verdict::Valid && warnings.any(|warning| warning.severity > Severity::Note)
}
