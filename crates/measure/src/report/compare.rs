//! Comparison of two groups of runs: whether it is fair, and the ratio of a figure.

use super::comparison::Repetitions;
use crate::machine::Machine;
use crate::ratio::Ratio;
use crate::result::RunResult;

/// Returns the reason why two groups of runs cannot be compared.
pub(super) fn incomparable(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Option<&'static str> {
    if one.counted().is_empty() || other.counted().is_empty() {
        return Some("INVALID runs");
    }
    let has_failures = one.has_failures() || other.has_failures();
    different(one, other).or(has_failures.then_some("failures"))
}

/// Returns what differs between the conditions of two groups of runs, so that the daemon is not the only difference.
pub(super) fn different(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Option<&'static str> {
    let (runs, others) = (one.counted(), other.counted());
    let all = || runs.iter().chain(&others);
    let first = all().next()?;
    if all().any(|run| fingerprint(&run.machine) != fingerprint(&first.machine)) {
        return Some("different machines");
    }
    if all().any(|run| run.driver != first.driver) {
        return Some("different drivers");
    }
    all()
        .any(|run| run.plan_sentence != first.plan_sentence)
        .then_some("different plans")
}

/// Returns the facts that identify a machine regardless of its name.
fn fingerprint(machine: &Machine) -> (&str, Option<&str>, u64, u64, &str) {
    let gib = machine.memory_bytes >> 30;
    (
        &machine.kernel,
        machine.cpu_model.as_deref(),
        machine.cpus,
        gib,
        &machine.build_profile,
    )
}

/// Returns a figure of `repeated` relative to that of `base`, or `None` if no runs of both that count have it.
pub(super) fn ratio(
    read: impl Fn(&RunResult) -> Option<f64>,
    base: &Repetitions<'_>,
    repeated: &Repetitions<'_>,
    paired: bool,
) -> Option<Ratio> {
    if paired {
        let pairs = base.pairs(repeated);
        return Ratio::paired(pairs.filter_map(|(base, run)| Some((read(base)?, read(run)?))));
    }
    let values =
        |runs: &[&RunResult]| -> Vec<f64> { runs.iter().filter_map(|run| read(run)).collect() };
    Ratio::unpaired(&values(&base.counted()), &values(&repeated.counted()))
}
