//! The catalogue of metrics: every figure of a run by its key. Thresholds, tables, charts and conclusions read results
//! through it, so each figure is computed in one place.

use crate::imported::SeriesSummary;
use crate::result::{RunResult, Second, SecondSeries};
use crate::similar::suggest;
use crate::spec::{CounterRole, Spec};
use crate::tally::{GOODPUT, OK};
use crate::units::Unit;
use crate::usage::UsageSummary;

use Better::{Higher, Lower, Neither};
use Unit::{Bytes, Count, Nanoseconds, PerSecond, Percent};

/// A figure of a run.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in thresholds: `daemon.rss.peak`.
    pub key: &'static str,
    /// Name in tables: `RSS peak`. The label of a metric of daemon or driver does not name the side.
    pub label: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// The direction in which a value is better.
    pub better: Better,
    /// Reads the value from a result; `None` if it was not measured.
    pub read: fn(&RunResult) -> Option<f64>,
}

/// The direction in which a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// A lower value is better.
    Lower,
    /// A higher value is better.
    Higher,
    /// The value describes the load or the outcome; neither direction is better.
    Neither,
}

/// A statistic of a series.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// Name in thresholds and tables: `p99`.
    pub key: &'static str,
    /// The quantile that it is, if it is one.
    pub quantile: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// Reads the value; `None` if it was not reported.
    pub read: fn(&SeriesSummary) -> Option<f64>,
}

const fn metric(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    better: Better,
    read: fn(&RunResult) -> Option<f64>,
) -> Metric {
    Metric {
        key,
        label,
        unit,
        better,
        read,
    }
}

/// Defines metrics of a run, one in an entry: key, label, unit, better direction, and the value read from the run.
macro_rules! of_a_run {
    ($($key:literal, $label:literal, $unit:ident, $better:ident, |$run:ident| $value:expr;)*) => {
        /// Metrics of the run and of the machine.
        const OF_THE_RUN: &[Metric] = &[$(metric($key, $label, $unit, $better, |$run| $value)),*];
    };
}

of_a_run! {
    "started", "started", Count, Neither, |run| Some(run.operations.started as f64);
    "ok", "completed", Count, Higher, |run| Some(run.operations.ok as f64);
    "errors", "failed", Count, Lower, |run| Some(run.operations.failed as f64);
    "errors.rate", "failed", Percent, Lower, |run| share(run.operations.failed, run.operations.started);
    // The checks need a driver that checks answers and keeps these counters.
    "checks", "checks passed", Percent, Higher, |run| {
        let passed = run.total(CounterRole::ChecksPassed);
        share(passed, passed + run.total(CounterRole::ChecksFailed))
    };
    "checks.errors", "failed or wrong", Percent, Lower, |run| {
        let failed = run.operations.failed + run.total(CounterRole::OperationsFailingChecks);
        share(failed, run.operations.started)
    };
    "success", "success", Percent, Higher, |run| run.success_pct();
    "unfinished", "unfinished", Count, Lower, |run| known(run, run.operations.unfinished);
    "missed", "missed", Count, Lower, |run| known(run, run.operations.missed);
    "peak", "driver peak", Count, Neither, |run| known(run, run.operations.peak_active);
    "peak.daemon", "daemon peak", Count, Neither, |run| run.peak_of_daemon();
    "rate", "completed", PerSecond, Higher, |run| run.per_second(OK);
    // The goodput needs a plan with objectives.
    "goodput", "within objectives", PerSecond, Higher, |run| {
        run.objectives().next()?;
        run.per_second(GOODPUT)
    };
    "goodput.pct", "within objectives", Percent, Higher, |run| {
        run.objectives().next()?;
        share(run.count(GOODPUT), run.due())
    };
    "connections", "connections", Count, Neither, |run| connections(run);
    "connections.opened", "opened", Count, Neither, |run| Some(run.total(CounterRole::Opened) as f64);
    "connections.held", "held", Count, Higher, |run| Some(run.most_held()? as f64);
    "connections.lost", "lost", Count, Lower, |run| Some(run.total(CounterRole::Lost) as f64);
    "backlog.peak", "backlog peak", Count, Lower, |run| backlog_peak(run);
    "down", "downtime", Nanoseconds, Lower, |run| run.down_ns();
    "daemon.instances", "daemons", Count, Neither, |run| Some(run.daemon.instances as f64);
    "daemon.rss.trend", "RSS, proven growth per hour", Bytes, Lower, |run| run.proven_growth("daemon", "rss");
    "daemon.fds.trend", "open files, proven growth per hour", Count, Lower, |run| run.proven_growth("daemon", "fds");
    "daemon.threads.trend", "threads, proven growth per hour", Count, Lower, |run| run.proven_growth("daemon", "threads");
    "daemon.cpu.each.trend", "CPU per operation, proven growth per hour", Nanoseconds, Lower, |run| run.proven_growth("daemon", "cpu.each");
    "driver.rss.trend", "RSS, proven growth per hour", Bytes, Lower, |run| run.proven_growth("driver", "rss");
    "driver.fds.trend", "open files, proven growth per hour", Count, Lower, |run| run.proven_growth("driver", "fds");
    "driver.threads.trend", "threads, proven growth per hour", Count, Lower, |run| run.proven_growth("driver", "threads");
    "driver.cpu.each.trend", "CPU per operation, proven growth per hour", Nanoseconds, Lower, |run| run.proven_growth("driver", "cpu.each");
    "driver.cpu.rate", "finished per driver CPU-s", PerSecond, Higher, |run| {
        value("driver.cpu.each", run).filter(|ns| *ns > 0.0).map(|ns| 1e9 / ns)
    };
    "kernel.memory", "kernel memory", Bytes, Lower, |run| run.kernel_kb().map(bytes);
    "kernel.objects", "kernel objects", Bytes, Lower, |run| Some(bytes(run.usage.system?.objects_kb()));
    "kernel.each", "kernel memory per connection", Bytes, Lower, |run| {
        let connections = connections(run)? as u64;
        let kb = run.usage.system?.kb_for_each(connections).ok()?;
        Some(kb * 1024.0)
    };
    "tcp.listen_overflows", "accept queue overflows", Count, Lower,
        |run| Some(run.usage.system?.tcp.listen_overflows as f64);
    "tcp.listen_drops", "listen drops", Count, Lower,
        |run| Some(run.usage.system?.tcp.listen_drops as f64);
    "tcp.syn_cookies", "SYN cookies", Count, Lower,
        |run| Some(run.usage.system?.tcp.syn_cookies_sent as f64);
    "tcp.timeouts", "retransmission timeouts", Count, Lower,
        |run| Some(run.usage.system?.tcp.timeouts as f64);
    "tcp.retransmits", "segments retransmitted", Count, Lower,
        |run| Some(run.usage.system?.tcp.retransmits as f64);
    "tcp.resets", "connections reset", Count, Lower,
        |run| Some(run.usage.system?.tcp.resets as f64);
    "others.cpu.average", "others' CPU, average", Percent, Lower,
        |run| run.usage.disturbance?.others_cpu_pct;
    "others.cpu.peak", "others' CPU, peak", Percent, Lower,
        |run| run.usage.disturbance?.others_cpu_peak_pct;
    "workers.wait", "longest wait of a worker for a CPU", Percent, Lower,
        |run| run.usage.disturbance?.worker_wait_pct;
    "workers.stalls", "stalls", Count, Lower,
        |run| Some(run.usage.disturbance?.stalls.count as f64);
    "workers.stalls.longest", "longest stall", Nanoseconds, Lower,
        |run| Some(run.usage.disturbance?.stalls.longest_ns as f64);
    "workers.stalls.total", "stalls in total", Nanoseconds, Lower,
        |run| Some(run.usage.disturbance?.stalls.total_ns as f64);
    "driver.throttled", "throttled periods", Count, Lower,
        |run| Some(run.usage.disturbance?.driver_quota?.throttled as f64);
}

/// A figure of a process tree, such as a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SideMetric {
    /// Name behind the side's: `rss.peak`.
    pub(crate) key: &'static str,
    /// The unit of the value.
    pub(crate) unit: Unit,
    /// Reads the value; `None` if it was not measured.
    pub(crate) read: fn(&UsageSummary, &RunResult) -> Option<f64>,
}

/// Defines metrics of a process tree twice, for the daemon and for the driver, and once for any tree. Each reads a
/// `UsageSummary` and the run.
macro_rules! of_both_sides {
    ($($key:literal, $label:literal, $unit:expr, |$usage:ident, $run:pat_param| $value:expr;)*) => {
        /// Metrics of the daemon's processes.
        const OF_THE_DAEMON: &[Metric] = &[$(
            metric(concat!("daemon.", $key), $label, $unit, Lower, |run| {
                let ($usage, $run) = (run.usage.daemon.as_ref()?, run);
                $value
            }),
        )*];
        /// Metrics of the driver's processes.
        const OF_THE_DRIVER: &[Metric] = &[$(
            metric(concat!("driver.", $key), $label, $unit, Lower, |run| {
                let ($usage, $run) = (run.usage.driver.as_ref()?, run);
                $value
            }),
        )*];
        /// Metrics of any process tree.
        const OF_A_SIDE: &[SideMetric] = &[$(SideMetric {
            key: $key,
            unit: $unit,
            read: |$usage, $run| $value,
        }),*];
    };
}

of_both_sides! {
    "rss.baseline", "RSS before the load", Bytes, |usage, _| Some(bytes(usage.rss_baseline_kb));
    "rss.peak", "RSS peak", Bytes, |usage, _| Some(bytes(usage.rss_peak_kb));
    "rss.growth", "RSS growth", Bytes,
        |usage, _| Some(bytes(usage.rss_peak_kb.saturating_sub(usage.rss_baseline_kb)));
    "rss.each", "RSS growth per connection", Bytes, |usage, run| {
        Some(run.rss_kb_per_connection(usage)? * 1024.0)
    };
    "cpu.average", "CPU average, % of a core", Percent, |usage, _| Some(usage.cpu_avg_pct);
    "cpu.peak", "CPU peak, % of a core", Percent, |usage, _| Some(usage.cpu_peak_pct);
    "cpu.each", "CPU per finished operation", Nanoseconds, |usage, run| {
        let finished = run.finished();
        (finished > 0).then(|| (usage.user_s + usage.system_s) * 1e9 / finished as f64)
    };
    "cpu.user", "CPU time, user", Nanoseconds, |usage, _| Some(usage.user_s * 1e9);
    "cpu.system", "CPU time, system", Nanoseconds, |usage, _| Some(usage.system_s * 1e9);
    "processes.peak", "processes, peak", Count, |usage, _| Some(usage.processes_peak as f64);
    "threads.peak", "threads, peak", Count, |usage, _| Some(usage.threads_peak as f64);
    "fds.peak", "open files, peak", Count, |usage, _| Some(usage.fds_peak as f64);
    "switches.voluntary", "voluntary switches", Count,
        |usage, _| Some(usage.voluntary_switches as f64);
    "switches.involuntary", "involuntary switches", Count,
        |usage, _| Some(usage.involuntary_switches as f64);
    "wait", "waited for a CPU, all threads", Nanoseconds, |usage, _| Some(usage.wait_s? * 1e9);
}

/// The statistics of a series that a result stores.
pub const STATISTICS: [Statistic; 11] = [
    Statistic {
        key: "count",
        quantile: None,
        unit: Count,
        read: |series| Some(series.count? as f64),
    },
    quantile("min", 0.0, |series| Some(series.min_ns? as f64)),
    Statistic {
        key: "mean",
        quantile: None,
        unit: Nanoseconds,
        read: |series| series.mean_ns,
    },
    quantile("p50", 0.5, |series| Some(series.p50_ns? as f64)),
    quantile("p75", 0.75, |series| Some(series.p75_ns? as f64)),
    quantile("p90", 0.9, |series| Some(series.p90_ns? as f64)),
    quantile("p95", 0.95, |series| Some(series.p95_ns? as f64)),
    quantile("p99", 0.99, |series| Some(series.p99_ns? as f64)),
    quantile("p99.9", 0.999, |series| Some(series.p999_ns? as f64)),
    // Another spelling of p99.9.
    quantile("p999", 0.999, |series| Some(series.p999_ns? as f64)),
    quantile("max", 1.0, |series| Some(series.max_ns? as f64)),
];

const fn quantile(
    key: &'static str,
    quantile: f64,
    read: fn(&SeriesSummary) -> Option<f64>,
) -> Statistic {
    Statistic {
        key,
        quantile: Some(quantile),
        unit: Nanoseconds,
        read,
    }
}

/// A statistic of a series over one second.
#[derive(Debug, Clone, Copy)]
pub struct SecondStatistic {
    /// Name in tables, and with its unit in CSV: `p99`.
    pub key: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// Reads the value.
    pub read: fn(&SecondSeries) -> u64,
}

/// The statistics that a result stores of each second.
pub const OF_A_SECOND: [SecondStatistic; 4] = [
    of_a_second("count", Count, |series| series.count),
    of_a_second("p50", Nanoseconds, |series| series.p50_ns),
    of_a_second("p99", Nanoseconds, |series| series.p99_ns),
    of_a_second("max", Nanoseconds, |series| series.max_ns),
];

const fn of_a_second(
    key: &'static str,
    unit: Unit,
    read: fn(&SecondSeries) -> u64,
) -> SecondStatistic {
    SecondStatistic { key, unit, read }
}

/// Reads a statistic of [`OF_A_SECOND`] by key; `None` if the series has no values in the second.
pub(crate) fn in_second(second: &Second, series: &str, key: &str) -> Option<u64> {
    let mut all = OF_A_SECOND.iter();
    let statistic = all.find(|statistic| statistic.key == key)?;
    let mut series_of_second = second.series.iter();
    let found = series_of_second.find(|found| found.name == series)?;
    Some((statistic.read)(found))
}

/// Returns every metric.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    OF_THE_RUN.iter().chain(OF_THE_DAEMON).chain(OF_THE_DRIVER)
}

/// Returns the metric with this key.
pub fn find(key: &str) -> Option<&'static Metric> {
    all().find(|metric| metric.key == key)
}

/// Returns the metric with this key of the catalogue.
///
/// # Panics
/// If no metric has the key.
pub(crate) fn by_key(key: &str) -> &'static Metric {
    find(key).expect("a key of the catalogue")
}

pub(crate) fn value(key: &str, run: &RunResult) -> Option<f64> {
    (by_key(key).read)(run)
}

/// Returns the metric of a process tree with this key of the catalogue, without the name of a side.
///
/// # Panics
/// If no metric has the key.
pub(crate) fn of_side(key: &str) -> &'static SideMetric {
    let mut all = OF_A_SIDE.iter();
    all.find(|metric| metric.key == key)
        .expect("a key of the catalogue")
}

/// Returns the statistic with this key.
pub fn statistic_by_key(key: &str) -> Option<&'static Statistic> {
    STATISTICS.iter().find(|statistic| statistic.key == key)
}

/// Key of the failures that daemons are compared by.
pub(crate) const FAILURES: &str = "errors.rate";

/// Metrics that can decide between daemons, beside the statistics of series and the rates of counters.
const DECISIVE: [&str; 5] = [
    FAILURES,
    "down",
    "daemon.rss.peak",
    "daemon.rss.each",
    "daemon.cpu.each",
];

/// Checks that daemons can be compared by a metric of a driver: `SERIES.STATISTIC`, `COUNTER.rate`, or one of the catalogue.
///
/// # Errors
/// It is another one, with the metrics that can be named.
pub fn check_primary(key: &str, spec: &Spec) -> Result<(), String> {
    let series = spec.series.iter().flat_map(|series| {
        let statistics = STATISTICS.iter();
        statistics.map(|statistic| format!("{}.{}", series.name, statistic.key))
    });
    let counters = spec
        .counters
        .iter()
        .filter(|counter| counter.role.is_rate());
    let rates = counters.map(|counter| format!("{}.rate", counter.name));
    let others = DECISIVE.into_iter().map(str::to_owned);
    let known: Vec<String> = series.chain(rates).chain(others).collect();
    if known.iter().any(|name| name == key) {
        return Ok(());
    }
    let suggestion = suggest(key, known.iter().map(String::as_str));
    Err(format!("daemons are not compared by `{key}`: {suggestion}"))
}

/// Returns the rate of a counter, if it is above 0. A run without rows of seconds has the rate over its whole time.
pub(crate) fn rate(run: &RunResult, counter: &str) -> Option<f64> {
    let rate = if run.seconds.is_empty() {
        Some(run.count(counter) as f64 / run.wall_s)
    } else {
        run.per_second(counter)
    };
    rate.filter(|rate| *rate > 0.0)
}

/// Returns the step in which a metric is read: a page of memory, a tick of the CPU clock, an operation, a bucket of the
/// histogram. It limits what several equal values prove.
pub(crate) fn quantum(key: &str, value: f64, run: &RunResult) -> f64 {
    /// Bytes of a page of memory, and nanoseconds of a tick (proc(5), `sysconf(_SC_CLK_TCK)` is 100).
    const PAGE: f64 = 4096.0;
    const TICK: f64 = 1e7;
    let each = |step: f64, number: Option<f64>| step / number.unwrap_or(1.0).max(1.0);
    match key {
        "daemon.rss.peak" | "driver.rss.peak" => PAGE,
        "daemon.rss.each" | "driver.rss.each" => each(PAGE, connections(run)),
        "daemon.cpu.each" | "driver.cpu.each" => each(TICK, Some(run.finished() as f64)),
        "down" => 1e6,
        FAILURES => each(100.0, Some(run.operations.started as f64)),
        _ if key.ends_with("rate") || key == "goodput" => each(1.0, Some(run.wall_s)),
        // Three significant digits.
        _ => value / 1000.0,
    }
}

/// Returns the peak number of connections: counted by the daemon, otherwise held by the driver, otherwise its peak of
/// open operations.
fn connections(run: &RunResult) -> Option<f64> {
    run.peak_of_daemon()
        .or_else(|| run.most_held().map(|held| held as f64))
        .or(Some(run.operations.peak_active as f64))
        .filter(|peak| *peak > 0.0)
}

fn backlog_peak(run: &RunResult) -> Option<f64> {
    let daemon = run.usage.daemon.as_ref();
    let summed = daemon.and_then(|usage| usage.backlog_peak);
    let samples = run.resources.iter();
    let peak = summed.or_else(|| samples.filter_map(|sample| sample.backlog).max());
    peak.map(|peak| peak as f64)
}

fn known(run: &RunResult, count: u64) -> Option<f64> {
    run.if_known(count).map(|count| count as f64)
}

/// Returns a share in percent, or `None` if the whole is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

fn bytes(kib: u64) -> f64 {
    kib as f64 * 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_names_one_metric() {
        for metric in all() {
            let same = all().filter(|other| other.key == metric.key);
            assert_eq!(same.count(), 1, "{}", metric.key);
        }
    }
}
