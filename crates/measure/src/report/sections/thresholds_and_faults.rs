//! Thresholds and faults of a level.

use crate::report::comparison::{Comparison, Repetitions};
use crate::report::roles;
use crate::report::table::{Head, Row, Table};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::units::{self, NONE};

/// Builds a row for each daemon and threshold, in the plan's order.
pub(super) fn thresholds(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let head = ["daemon", "threshold", "met", "measured"].map(Head::text);
    let mut rows = Vec::new();
    for repeated in at {
        let all = || repeated.runs.iter().flat_map(|run| &run.thresholds);
        let mut named: Vec<&str> = Vec::new();
        for threshold in all() {
            if named.contains(&threshold.text.as_str()) {
                continue;
            }
            named.push(&threshold.text);
            let same = || all().filter(|other| other.text == threshold.text);
            let met = same().filter(|other| other.met).count();
            let verdict = match (met, same().count()) {
                (1, 1) => "met".to_owned(),
                (0, 1) => "MISSED".to_owned(),
                (met, of) if met == of => format!("met in all {of} runs"),
                (met, of) => format!("MISSED in {} of {of} runs", of - met),
            };
            let measured: Vec<&str> = same()
                .map(|other| other.measured.as_deref().unwrap_or(NONE))
                .collect();
            let cells = [
                plain(comparison.daemons[repeated.daemon]),
                plain(&threshold.text),
                verdict,
                plain(&measured.join(", ")),
            ];
            rows.push(Row::new(Some(repeated.daemon), cells));
        }
    }
    (!rows.is_empty()).then(|| Table::new("Thresholds", head.into(), rows))
}

/// Builds a row for each fault. Lost and retried operations are known per run, not per fault.
pub(super) fn faults(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let runs: Vec<&RunResult> = at.iter().flat_map(|at| at.runs.iter().copied()).collect();
    let again = roles::repeated(&runs);
    let head_of_again = again.map(|counter| format!("{} in the run", plain(&counter.label)));
    let head = [
        Head::text("daemon"),
        Head::figure("run"),
        Head::text("fault"),
        Head::figure("at, s"),
        Head::figure("recovered at, s"),
        Head::figure("downtime, s"),
        Head::figure("lost in the run"),
    ];
    let head = head
        .into_iter()
        .chain(head_of_again.as_deref().map(Head::figure));
    let mut rows = Vec::new();
    for repeated in at {
        for (place, run) in repeated.runs.iter().enumerate() {
            for fault in &run.faults {
                let down = fault.back_s.map(|back| back - fault.at_s);
                let or_none =
                    |value: Option<f64>| value.map_or(NONE.to_owned(), units::significant);
                let cells = [
                    plain(comparison.daemons[repeated.daemon]),
                    (place + 1).to_string(),
                    plain(&fault.what),
                    units::significant(fault.at_s),
                    fault.back_s.map_or("never".to_owned(), units::significant),
                    or_none(down),
                    units::count(run.lost_operations()),
                ];
                let again = again.map(|counter| units::count(run.count(&counter.name)));
                let cells = cells.into_iter().chain(again);
                rows.push(Row::new(Some(repeated.daemon), cells));
            }
        }
    }
    (!rows.is_empty()).then(|| Table::new("Faults", head.collect(), rows))
}
