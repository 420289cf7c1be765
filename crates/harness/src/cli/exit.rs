//! What the exit code says of the results.

use measure::result::{FaultResult, RunResult};
use measure::threshold;
use measure::warning::{Kind, Severity, Verdict};

use crate::driver::Driver;

/// What a fault leads to may show so much later: a stream that ended with the daemon is told from one that was refused
/// at the next sweep.
const AFTERMATH_S: f64 = 3.0;

/// 0 fine, 1 a run failed, 4 a threshold was missed, 3 the results are suspect: the first of them that holds, in this
/// order. A miss is what the user asked to know; that the figures may be off stands in the report besides.
pub(crate) fn code<D: Driver>(results: &[&RunResult]) -> u8 {
    let any = |holds: &dyn Fn(&RunResult) -> bool| results.iter().any(|result| holds(result));
    if any(&|result| broke_down(result) || has_failures::<D>(result)) {
        return 1;
    }
    if any(&|result| result.thresholds.iter().any(|threshold| !threshold.met)) {
        return 4;
    }
    if any(&doubted) {
        return 3;
    }
    0
}

/// Whether daemon or driver did not live through it, or nothing went well, whatever a threshold or a fault makes of failures:
/// there is nothing then that figures could be of.
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

/// Whether operations failed in a way that nobody asked for, and that no threshold judges: who says how many are too many
/// has said that fewer are none.
fn has_failures<D: Driver>(result: &RunResult) -> bool {
    let failed = |(kind, count): (&String, &u64)| {
        let mut texts = result.thresholds.iter().map(|threshold| &threshold.text);
        let kind = kind.as_str();
        // What the driver itself could not do says nothing of the daemon: the result is INVALID.
        let is_excused = D::ASKED_FOR.contains(&kind) || D::EXHAUSTED.contains(&kind);
        if is_excused || texts.any(|text| threshold::judges(text, kind)) {
            return false;
        }
        let excused = match D::OF_A_FAULT.contains(&kind) {
            true => of_faults(result, kind),
            false => 0,
        };
        *count > excused
    };
    result.errors.iter().any(failed)
}

/// How many failures of a kind fell into the seconds of a fault.
fn of_faults(result: &RunResult, kind: &str) -> u64 {
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

fn doubted(result: &RunResult) -> bool {
    let grave = |severity: Severity| severity > Severity::Note;
    let mut severities = result.warnings.iter().map(|warning| warning.severity);
    result.verdict != Verdict::Valid && severities.any(grave)
}
