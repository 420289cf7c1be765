//! Derives the exit code from the results.

use measure::result::{FaultResult, RunResult};
use measure::threshold;
use measure::warning::{Kind, Severity, Verdict};

use load::driver::Driver;

/// Time after a fault in which its effects may still appear, seconds: only the next sweep tells a stream that ended
/// with the daemon from a refused one.
const AFTERMATH_S: f64 = 3.0;

/// Returns the exit code: 1 if a run failed, 4 if a threshold was missed, 3 if the results are suspect, otherwise 0.
/// The first that applies wins, in this order. A missed threshold precedes suspect results because it is what the user
/// asked about; the report shows both.
pub(crate) fn code<D: Driver>(results: &[&RunResult]) -> u8 {
    let any = |holds: &dyn Fn(&RunResult) -> bool| results.iter().any(|result| holds(result));
    if any(&|result| broke_down(result) || has_failures::<D>(result)) {
        return 1;
    }
    if any(&|result| result.thresholds.iter().any(|threshold| !threshold.met)) {
        return 4;
    }
    if any(&is_suspect) {
        return 3;
    }
    0
}

/// Returns true if the run crashed or had no successful operation. Thresholds and faults do not excuse this.
fn broke_down(result: &RunResult) -> bool {
    let kinds = result.warnings.iter().map(|warning| warning.kind);
    let mut broken = kinds.filter(|kind| {
        matches!(
            kind,
            Kind::DaemonDied | Kind::WorkersFailed | Kind::NothingSucceeded
        )
    });
    broken.next().is_some()
}

/// Returns true if operations failed unexpectedly and no threshold judges the failures. A threshold on an error kind
/// makes errors below it acceptable.
fn has_failures<D: Driver>(result: &RunResult) -> bool {
    let failed = |(kind, count): (&String, &u64)| {
        let mut texts = result.thresholds.iter().map(|threshold| &threshold.text);
        let kind = kind.as_str();
        // Errors of the driver itself say nothing about the daemon: the result is INVALID.
        let is_excused = D::ASKED_FOR.contains(&kind) || D::EXHAUSTED.contains(&kind);
        if is_excused || texts.any(|text| threshold::judges(text, kind)) {
            return false;
        }
        let excused = match D::OF_A_FAULT.contains(&kind) {
            true => fault_errors(result, kind),
            false => 0,
        };
        *count > excused
    };
    result.errors.iter().any(failed)
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
    let seconds = result.seconds.iter();
    seconds
        .filter(|row| result.faults.iter().any(|fault| within(row.second, fault)))
        .filter_map(|row| row.errors.get(kind))
        .sum()
}

fn is_suspect(result: &RunResult) -> bool {
    let grave = |severity: Severity| severity > Severity::Note;
    let mut severities = result.warnings.iter().map(|warning| warning.severity);
    result.verdict != Verdict::Valid && severities.any(grave)
}
