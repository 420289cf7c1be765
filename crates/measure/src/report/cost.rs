//! What daemon and driver cost, beside each other.

use super::page::{self, Block, Table};
use crate::result::RunResult;
use crate::units;
use crate::usage::UsageSummary;

/// The table of both sides; nothing where neither was looked at.
pub(super) fn of(result: &RunResult) -> Vec<Block> {
    if result.usage.daemon.is_none() && result.usage.driver.is_none() {
        return Vec::new();
    }
    let head = ["", "daemon", "driver"].map(str::to_owned).into();
    let show = |side: &Option<UsageSummary>, figure: &Figure| {
        side.as_ref()
            .map_or(page::NONE.to_owned(), |usage| figure(usage, result))
    };
    let row = |(label, figure): &(&str, Figure)| {
        vec![
            (*label).to_owned(),
            show(&result.usage.daemon, figure),
            show(&result.usage.driver, figure),
        ]
    };
    let rows = FIGURES.iter().map(row).collect();
    vec![
        Block::Heading("cost".to_owned()),
        Block::Table(Table {
            head,
            rows,
            ..Table::default()
        }),
    ]
}

type Figure = fn(&UsageSummary, &RunResult) -> String;

/// The rows of the cost table.
const FIGURES: [(&str, Figure); 13] = [
    ("RSS before the load", |usage, _| {
        units::bytes(kib(usage.rss_baseline_kb))
    }),
    ("RSS peak", |usage, _| units::bytes(kib(usage.rss_peak_kb))),
    ("RSS growth", |usage, _| units::bytes(growth_bytes(usage))),
    ("RSS growth per peak active", growth_per_active),
    ("CPU average, % of a core", |usage, _| {
        format!("{:.1} %", usage.cpu_avg_pct)
    }),
    ("CPU peak, % of a core", |usage, _| {
        format!("{:.1} %", usage.cpu_peak_pct)
    }),
    ("CPU per finished operation", cpu_per_finished),
    ("CPU user + system", |usage, _| {
        format!(
            "{} + {}",
            page::seconds(usage.user_s),
            page::seconds(usage.system_s)
        )
    }),
    ("processes, peak", |usage, _| {
        units::count(usage.processes_peak)
    }),
    ("threads, peak", |usage, _| units::count(usage.threads_peak)),
    ("open files, peak", |usage, _| units::count(usage.fds_peak)),
    ("accept queue, peak", |usage, _| {
        usage
            .backlog_peak
            .map_or(page::NONE.to_owned(), units::count)
    }),
    ("switches, own + forced", |usage, _| {
        format!(
            "{} + {}",
            units::count(usage.voluntary_switches),
            units::count(usage.involuntary_switches)
        )
    }),
];

fn growth_bytes(usage: &UsageSummary) -> u64 {
    kib(usage.rss_peak_kb.saturating_sub(usage.rss_baseline_kb))
}

/// KiB as bytes.
pub(super) fn kib(kib: u64) -> u64 {
    kib.saturating_mul(1024)
}

fn growth_per_active(usage: &UsageSummary, result: &RunResult) -> String {
    growth_bytes(usage)
        .checked_div(result.most_held().unwrap_or(result.operations.peak_active))
        .map_or(page::NONE.to_owned(), units::bytes)
}

/// CPU time for each operation that ended, well or not.
pub(super) fn cpu_per_finished(usage: &UsageSummary, result: &RunResult) -> String {
    let finished = result.finished();
    if finished == 0 {
        return page::NONE.to_owned();
    }
    units::duration(((usage.user_s + usage.system_s) * 1e9 / finished as f64) as u64)
}
