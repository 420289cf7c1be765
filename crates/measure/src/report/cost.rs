//! Resource use of daemon and driver side by side.

use super::page::{self, Block, Table};
use crate::disturbance;
use crate::result::RunResult;
use crate::units;
use crate::usage::UsageSummary;

/// Builds the table of both sides, or nothing if neither was sampled.
pub(super) fn blocks(result: &RunResult) -> Vec<Block> {
    if result.usage.daemon.is_none() && result.usage.driver.is_none() {
        return Vec::new();
    }
    let head = ["", "daemon", "driver"].map(str::to_owned).into();
    let show = |side: &Option<UsageSummary>, figure: &FormatRow| {
        side.as_ref()
            .map_or(page::NONE.to_owned(), |usage| figure(usage, result))
    };
    let row = |(label, figure): &(&str, FormatRow)| {
        vec![
            (*label).to_owned(),
            show(&result.usage.daemon, figure),
            show(&result.usage.driver, figure),
        ]
    };
    let is_known = |(label, _): &&(&str, FormatRow)| {
        let sides = [&result.usage.daemon, &result.usage.driver];
        // Absent in older results, and if the kernel does not count it.
        *label != WAITED
            || sides
                .into_iter()
                .flatten()
                .any(|side| side.wait_s.is_some())
    };
    let rows = FIGURES.iter().filter(is_known).map(row).collect();
    let mut blocks = vec![
        Block::Heading("cost".to_owned()),
        Block::Table(Table {
            head,
            rows,
            ..Table::default()
        }),
    ];
    blocks.extend(disturbance(result));
    blocks
}

/// Summarizes the disturbances in one line.
fn disturbance(result: &RunResult) -> Option<Block> {
    let found = result.usage.disturbance?;
    let mut parts = Vec::new();
    if let Some(others) = found.others_cpu_pct {
        let peak = found.others_cpu_peak_pct.unwrap_or(others);
        parts.push(format!(
            "other processes used {others:.0} % of a core (peak {peak:.0} %)"
        ));
    }
    if let Some(wait) = found.worker_wait_pct {
        parts.push(format!(
            "workers of the driver waited up to {} of the time for a CPU",
            disturbance::pct(wait)
        ));
    }
    let stalls = found.stalls;
    parts.push(match stalls.count {
        0 => "no worker stalled".to_owned(),
        count => format!(
            "{} stalls of workers, the longest {}, {} in total",
            units::count(count),
            units::duration(stalls.longest_ns),
            units::duration(stalls.total_ns)
        ),
    });
    if let Some(quota) = found.driver_quota.filter(|quota| quota.throttled > 0) {
        parts.push(format!(
            "driver throttled by its quota in {} of {} periods",
            units::count(quota.throttled),
            units::count(quota.periods)
        ));
    }
    Some(Block::Facts(vec![("disturbed", parts.join("; "))]))
}

type FormatRow = fn(&UsageSummary, &RunResult) -> String;

/// Label of the row with the time that threads waited for a CPU.
const WAITED: &str = "waited for a CPU, all threads";

/// The rows of the table.
const FIGURES: [(&str, FormatRow); 14] = [
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
    ("switches, vol. + invol.", |usage, _| {
        format!(
            "{} + {}",
            units::count(usage.voluntary_switches),
            units::count(usage.involuntary_switches)
        )
    }),
    (WAITED, |usage, _| {
        usage.wait_s.map_or(page::NONE.to_owned(), page::seconds)
    }),
];

fn growth_bytes(usage: &UsageSummary) -> u64 {
    kib(usage.rss_peak_kb.saturating_sub(usage.rss_baseline_kb))
}

/// Converts KiB to bytes.
pub(super) fn kib(kib: u64) -> u64 {
    kib.saturating_mul(1024)
}

fn growth_per_active(usage: &UsageSummary, result: &RunResult) -> String {
    growth_bytes(usage)
        .checked_div(result.most_held().unwrap_or(result.operations.peak_active))
        .map_or(page::NONE.to_owned(), units::bytes)
}

/// Returns the CPU time per operation that ended, successful or not.
pub(super) fn cpu_per_finished(usage: &UsageSummary, result: &RunResult) -> String {
    let finished = result.finished();
    if finished == 0 {
        return page::NONE.to_owned();
    }
    units::duration(((usage.user_s + usage.system_s) * 1e9 / finished as f64) as u64)
}
