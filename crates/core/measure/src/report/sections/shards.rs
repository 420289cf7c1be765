//! The shards of runs that were divided over several programs.

use std::collections::BTreeSet;

use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::shard::ShardSummary;
use crate::units::{self, NONE};

/// Maximum number of shards of a run that are listed.
const LISTED: usize = 50;

const READING: &str = "Each shard drove its share of one load, and all began at one instant of the wall clock. Their histograms were added bucket by bucket, so the figures of this report are as if one program had recorded everything. `late` is the time from the common start until the workers of a shard were running; `clock` is the bound of the error of its machine's wall clock, by which its seconds may be shifted.";

/// Builds a table of the shards of each run.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let divided = comparison
        .suite
        .results
        .iter()
        .filter(|run| !run.shards.is_empty());
    let mut parts: Vec<Part> = divided.flat_map(of_run).collect();
    if !parts.is_empty() {
        parts.insert(0, Part::Note(READING.to_owned()));
    }
    Section::non_empty("shards", "Shards", parts)
}

fn of_run(run: &RunResult) -> Vec<Part> {
    let mut shards: Vec<&ShardSummary> = run.shards.iter().collect();
    let mut parts = vec![Part::Note(format!(
        "{}.",
        sentence(run).unwrap_or_default()
    ))];
    if shards.len() > LISTED {
        // The least trustworthy ones matter.
        shards.sort_by_key(|shard| std::cmp::Reverse((shard.verdict, shard.lag_p99_ns)));
        shards.truncate(LISTED);
        parts.push(Part::Note(format!(
            "The {LISTED} shards with the worst verdict and the greatest lateness of starts:"
        )));
    }
    let head = [
        Head::number("shard"),
        Head::text("machine"),
        Head::number("started"),
        Head::number("ok"),
        Head::number("failed"),
        Head::number("lag p99"),
        Head::number("late"),
        Head::number("clock"),
        Head::number("CPU s"),
        Head::text("verdict"),
    ];
    let rows = shards.into_iter().map(row).collect();
    parts.push(Part::Table(Table::new("Shards", head.into(), rows)));
    parts
}

fn row(shard: &ShardSummary) -> Row {
    let operations = &shard.operations;
    let duration = |ns: Option<u64>| ns.map_or(NONE.to_owned(), units::duration);
    let cpu_s = shard
        .driver
        .as_ref()
        .map(|driver| driver.user_s + driver.system_s);
    Row::new(
        None,
        [
            shard.shard.to_string(),
            plain(&shard.machine.hostname),
            units::count(operations.started),
            units::count(operations.ok),
            units::count(operations.failed),
            duration(shard.lag_p99_ns),
            duration(Some(shard.late_ns)),
            duration(shard.clock.max_error_ns),
            cpu_s.map_or(NONE.to_owned(), |seconds| format!("{seconds:.2}")),
            shard.verdict.to_string(),
        ],
    )
}

/// Returns the number of shards and machines of a divided run, and how late the last shard began.
pub(in crate::report) fn sentence(run: &RunResult) -> Option<String> {
    let late = run.shards.iter().map(|shard| shard.late_ns).max()?;
    let machines: BTreeSet<&str> = run
        .shards
        .iter()
        .map(|shard| shard.machine.hostname.as_str())
        .collect();
    let count = |number: usize, name: &str| match number {
        1 => format!("1 {name}"),
        number => format!("{} {name}s", units::count(number as u64)),
    };
    let begun = match late {
        0 => "all began in time".to_owned(),
        late => format!("the last began {} late", units::duration(late)),
    };
    Some(format!(
        "{} on {}, {begun}",
        count(run.shards.len(), "shard"),
        count(machines.len(), "machine")
    ))
}
