//! The figures of a run that a comparison shows.

use super::cells::Cells;
use super::grid::Column;
use super::show;
use crate::result::RunResult;
use crate::usage::UsageSummary;

pub(super) fn started<'a>() -> Column<'a> {
    Column::new("started", show::whole, |run| {
        Some(run.operations.started as f64)
    })
}

pub(super) fn completed<'a>() -> Column<'a> {
    Column::new("completed", show::whole, |run| {
        Some(run.operations.ok as f64)
    })
}

pub(super) fn failed<'a>() -> Column<'a> {
    Column::new("failed", show::whole, |run| {
        Some(run.operations.failed as f64)
    })
}

pub(super) fn unfinished<'a>() -> Column<'a> {
    Column::new("unfinished", show::whole, |run| {
        known(run, run.operations.unfinished)
    })
}

pub(super) fn missed<'a>() -> Column<'a> {
    Column::new("missed", show::whole, |run| {
        known(run, run.operations.missed)
    })
}

pub(super) fn success<'a>() -> Column<'a> {
    Column::new("success %", show::share, RunResult::success_pct)
}

pub(super) fn driver_peak<'a>() -> Column<'a> {
    Column::new("peak, driver", show::whole, |run| {
        known(run, run.operations.peak_active)
    })
}

pub(super) fn daemon_peak<'a>() -> Column<'a> {
    Column::new("peak, daemon", show::whole, RunResult::peak_of_daemon)
}

pub(super) fn instances<'a>() -> Column<'a> {
    Column::new("daemons", show::whole, |run| {
        Some(run.daemon.instances as f64)
    })
}

pub(super) fn backlog<'a>() -> Column<'a> {
    Column::new("accept backlog peak", show::whole, |run| {
        let looks = run.resources.iter().filter_map(|look| look.backlog);
        looks.max().map(|most| most as f64)
    })
}

/// Returns the median of a series, in milliseconds.
pub(super) fn p50(series: &str) -> Column<'_> {
    Column::new(
        format!("{} p50", series_name(series)),
        show::ms,
        move |run| Some(run.summary(series)?.p50_ns? as f64),
    )
}

/// Returns the 99th percentile of a series, in milliseconds.
pub(super) fn p99(series: &str) -> Column<'_> {
    Column::new(
        format!("{} p99", series_name(series)),
        show::ms,
        move |run| Some(run.summary(series)?.p99_ns? as f64),
    )
}

pub(super) fn rss_baseline<'a>() -> Column<'a> {
    Column::new("baseline MiB", show::significant, |run| {
        daemon(run).map(|usage| mib(usage.rss_baseline_kb))
    })
}

pub(super) fn rss_peak<'a>() -> Column<'a> {
    Column::new("peak MiB", show::significant, |run| {
        daemon(run).map(|usage| mib(usage.rss_peak_kb))
    })
}

pub(super) fn rss_delta<'a>() -> Column<'a> {
    Column::new("delta MiB", show::significant, |run| {
        daemon(run).map(|usage| growth_kb(usage) / 1024.0)
    })
}

pub(super) fn kib_per_connection<'a>() -> Column<'a> {
    Column::new("KiB per connection", show::significant, |run| {
        let (growth, peak) = (growth_kb(daemon(run)?), connections(run)?);
        Some(growth / peak)
    })
}

pub(super) fn driver_rss_peak<'a>() -> Column<'a> {
    Column::new("driver MiB", show::significant, |run| {
        driver(run).map(|usage| mib(usage.rss_peak_kb))
    })
}

pub(super) fn driver_kib_per_connection<'a>() -> Column<'a> {
    Column::new("driver KiB each", show::significant, |run| {
        Some(growth_kb(driver(run)?) / connections(run)?)
    })
}

/// Returns the memory taken outside of any process.
pub(super) fn kernel<'a>() -> Column<'a> {
    Column::new("kernel MiB", show::significant, |run| {
        run.kernel_kb().map(mib)
    })
}

/// Returns the growth of the kernel's objects and TCP queues.
pub(super) fn objects<'a>() -> Column<'a> {
    Column::new("objects MiB", show::significant, |run| {
        run.usage.system.map(|system| mib(system.objects_kb()))
    })
}

/// Returns the kernel's memory per connection, if it exceeds the machine's own noise.
pub(super) fn kernel_kib_per_connection<'a>() -> Column<'a> {
    Column::new("kernel KiB each", show::significant, |run| {
        run.usage.system?.kb_for_each(connections(run)? as u64).ok()
    })
}

/// Returns the connection counts of a driver that holds connections.
pub(super) fn held<'a>() -> [Column<'a>; 3] {
    let held = |run: &RunResult| run.most_held().map(|held| held as f64);
    let count = |name: &'static str| move |run: &RunResult| Some(run.count(name) as f64);
    [
        Column::new("opened", show::whole, count("opened")),
        Column::new("held", show::whole, held),
        Column::new("lost", show::whole, count("lost")),
    ]
}

pub(super) fn cpu_average<'a>() -> Column<'a> {
    Column::new("average %", show::tenths, |run| {
        daemon(run).map(|usage| usage.cpu_avg_pct)
    })
}

pub(super) fn cpu_peak<'a>() -> Column<'a> {
    Column::new("peak %", show::tenths, |run| {
        daemon(run).map(|usage| usage.cpu_peak_pct)
    })
}

pub(super) fn threads<'a>() -> Column<'a> {
    Column::new("threads", show::whole, |run| {
        daemon(run).map(|usage| usage.threads_peak as f64)
    })
}

pub(super) fn cpu_per_operation<'a>() -> Column<'a> {
    Column::new("CPU µs per finished", show::significant, |run| {
        cpu_us_per_finished(daemon(run)?, run)
    })
}

pub(super) fn driver_cpu_average<'a>() -> Column<'a> {
    Column::new("driver average %", show::tenths, |run| {
        run.usage.driver.as_ref().map(|usage| usage.cpu_avg_pct)
    })
}

pub(super) fn driver_cpu_per_operation<'a>() -> Column<'a> {
    Column::new("driver CPU µs per finished", show::significant, |run| {
        cpu_us_per_finished(run.usage.driver.as_ref()?, run)
    })
}

/// Returns the operations finished per second of the driver's CPU time.
pub(super) fn finished_per_driver_cpu_second<'a>() -> Column<'a> {
    Column::new("finished per driver CPU-s", show::whole, |run| {
        let us = cpu_us_per_finished(driver(run)?, run)?;
        (us > 0.0).then(|| 1e6 / us)
    })
}

/// Explains how to read cells with several runs.
pub(super) fn reading(cells: &Cells<'_>) -> String {
    let most = cells.all().iter().map(|cell| cell.runs.len()).max();
    match most.unwrap_or(0) {
        0 | 1 => "One run per cell: no estimate of run-to-run variation.".to_owned(),
        several => {
            let interval = if several >= 5 {
                "; from five runs on also [95 % t interval of their mean, not of the median]"
            } else {
                ""
            };
            format!("Median of the runs (lowest–highest){interval}.")
        }
    }
}

/// Returns the display name of a series; `first_byte` is shown as TTFB.
pub(super) fn series_name(series: &str) -> String {
    match series {
        "first_byte" => "TTFB".to_owned(),
        other => crate::report::page::plain(other),
    }
}

/// Returns the peak number of connections: counted by the daemon, otherwise held by the driver, otherwise its peak of
/// open operations.
pub(super) fn connections(run: &RunResult) -> Option<f64> {
    run.peak_of_daemon()
        .or_else(|| run.most_held().map(|held| held as f64))
        .or(Some(run.operations.peak_active as f64))
        .filter(|peak| *peak > 0.0)
}

/// Returns the daemon's peak memory, KiB.
pub(super) fn peak_kb(run: &RunResult) -> Option<f64> {
    daemon(run).map(|usage| usage.rss_peak_kb as f64)
}

fn known(run: &RunResult, count: u64) -> Option<f64> {
    run.if_known(count).map(|count| count as f64)
}

fn daemon(run: &RunResult) -> Option<&UsageSummary> {
    run.usage.daemon.as_ref()
}

fn driver(run: &RunResult) -> Option<&UsageSummary> {
    run.usage.driver.as_ref()
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

fn growth_kb(usage: &UsageSummary) -> f64 {
    usage.rss_peak_kb.saturating_sub(usage.rss_baseline_kb) as f64
}

fn cpu_us_per_finished(usage: &UsageSummary, run: &RunResult) -> Option<f64> {
    let finished = run.finished();
    (finished > 0).then(|| (usage.user_s + usage.system_s) * 1e6 / finished as f64)
}
