//! Thresholds and faults of a level.

use crate::report::comparison::{Comparison, Repetitions, measured_values, numbered};
use crate::report::plain;
use crate::report::roles;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::units::{self, NONE};

/// Builds a row for each daemon and threshold, in the plan's order.
pub(super) fn thresholds(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let head = ["daemon", "threshold", "met", "measured"].map(Head::text);
    let mut rows = Vec::new();
    for repeated in at {
        for (text, outcomes) in repeated.thresholds(|_| true) {
            let missed = outcomes.iter().filter(|outcome| !outcome.met).count();
            let verdict = match (missed, outcomes.len()) {
                (0, 1) => "met".to_owned(),
                (_, 1) => "MISSED".to_owned(),
                (0, all) => format!("met in all {all} runs"),
                (missed, all) => format!("MISSED in {missed} of {all} runs"),
            };
            let name = comparison.daemon(repeated.daemon);
            let measured = measured_values(&outcomes);
            let cells = [name, plain(text), verdict, measured];
            rows.push(Row::new(Some(repeated.daemon), cells));
        }
    }
    Table::non_empty("Thresholds", head.into(), rows)
}

/// Builds a row for each fault. Lost and retried operations are known per run, not per fault.
pub(super) fn faults(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let runs: Vec<&RunResult> = at.iter().flat_map(|at| at.runs.iter().copied()).collect();
    let repeats = roles::repeated(&runs);
    let mut head = vec![
        Head::text("daemon"),
        Head::number("run"),
        Head::text("fault"),
        Head::number("at, s"),
        Head::number("recovered at, s"),
        Head::number("downtime, s"),
        Head::number("lost in the run"),
    ];
    head.extend(repeats.map(|counter| {
        let label = plain(&counter.label);
        Head::number(&format!("{label} in the run"))
    }));
    let mut rows = Vec::new();
    for (repeated, index, run) in numbered(at) {
        for fault in &run.faults {
            let down = fault.back_s.map(|back| back - fault.at_s);
            let mut cells = vec![
                comparison.daemon(repeated.daemon),
                (index + 1).to_string(),
                plain(&fault.what),
                units::significant(fault.at_s),
                fault.back_s.map_or("never".to_owned(), units::significant),
                down.map_or(NONE.to_owned(), units::significant),
                units::count(run.lost_operations()),
            ];
            cells.extend(repeats.map(|counter| units::count(run.count(&counter.name))));
            rows.push(Row::new(Some(repeated.daemon), cells));
        }
    }
    Table::non_empty("Faults", head, rows)
}
