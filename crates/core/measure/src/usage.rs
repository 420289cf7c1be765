//! Resource use of a process tree: samples, one a second, and the summary of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sample of a process tree, summed over its processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Unix time in nanoseconds.
    pub unix_ns: u64,
    /// Resident memory, KiB.
    pub rss_kb: u64,
    /// Proportional set size, KiB; absent if reading it is too expensive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pss_kb: Option<u64>,
    /// Virtual memory, KiB.
    pub vsz_kb: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub fds: u64,
    /// User CPU time since the start of the processes, clock ticks.
    pub utime_ticks: u64,
    /// System CPU time since the start of the processes, clock ticks.
    pub stime_ticks: u64,
    /// CPU use since the previous sample, in percent of one core.
    pub cpu_pct: f64,
    /// Voluntary context switches since the start of the processes.
    pub voluntary_switches: u64,
    /// Involuntary context switches since the start of the processes.
    pub involuntary_switches: u64,
    /// Processes in the tree.
    pub processes: u64,
    /// Time that its threads waited for a CPU since the start of the processes, nanoseconds; absent if the kernel does
    /// not count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_ns: Option<u64>,
    /// Time that its threads waited for a CPU since the previous sample, in percent of that interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_pct: Option<f64>,
    /// CPU use of its busiest thread since the previous reading of threads, percent of a core; absent in a sample
    /// without such a reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub busiest_thread_pct: Option<f64>,
}

/// Resource use of a process tree over a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageSummary {
    /// Samples taken.
    pub samples: u64,
    /// Resident memory before the load, KiB.
    pub rss_baseline_kb: u64,
    /// Largest resident memory seen, KiB.
    pub rss_peak_kb: u64,
    /// User CPU seconds from the first to the last sample.
    pub user_s: f64,
    /// System CPU seconds from the first to the last sample.
    pub system_s: f64,
    /// CPU use over the run, in percent of one core.
    pub cpu_avg_pct: f64,
    /// Largest CPU use of one sample, in percent of one core.
    pub cpu_peak_pct: f64,
    /// Most threads seen.
    pub threads_peak: u64,
    /// Most open file descriptors seen.
    pub fds_peak: u64,
    /// Voluntary context switches during the run.
    pub voluntary_switches: u64,
    /// Involuntary context switches during the run.
    pub involuntary_switches: u64,
    /// Most processes seen at once.
    pub processes_peak: u64,
    /// Time that threads waited for a CPU during the run, summed over threads, seconds; absent if the kernel does not
    /// count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_s: Option<f64>,
    /// CPU use of the busiest thread of each sample, averaged over the samples, percent of a core.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub busiest_thread_pct: Option<f64>,
    /// Most connections seen in the accept queues of the process tree's listeners; absent if not read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backlog_peak: Option<u64>,
    /// Largest value of each gauge or counter that the process published, by metric name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub gauges_peak: BTreeMap<String, f64>,
}

impl UsageSummary {
    /// Summarizes samples in order of time; `ticks_per_s` is the kernel's clock tick rate (100 on Linux).
    pub fn from_samples(samples: &[Sample], ticks_per_s: u64) -> Self {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            return Self::default();
        };
        let increase = |read: fn(&Sample) -> u64| read(last).saturating_sub(read(first));
        let user_s = increase(|sample| sample.utime_ticks) as f64 / ticks_per_s as f64;
        let system_s = increase(|sample| sample.stime_ticks) as f64 / ticks_per_s as f64;
        let wall_s = increase(|sample| sample.unix_ns) as f64 / 1e9;
        let wait_ns = first.wait_ns.zip(last.wait_ns);
        let peak = |read: fn(&Sample) -> u64| samples.iter().map(read).max().unwrap_or(0);
        let cpu_pct = samples.iter().map(|sample| sample.cpu_pct);
        let busiest = samples
            .iter()
            .filter_map(|sample| sample.busiest_thread_pct);
        Self {
            samples: samples.len() as u64,
            rss_baseline_kb: first.rss_kb,
            rss_peak_kb: peak(|sample| sample.rss_kb),
            user_s,
            system_s,
            cpu_avg_pct: if wall_s > 0.0 {
                100.0 * (user_s + system_s) / wall_s
            } else {
                0.0
            },
            cpu_peak_pct: cpu_pct.fold(0.0, f64::max),
            threads_peak: peak(|sample| sample.threads),
            fds_peak: peak(|sample| sample.fds),
            voluntary_switches: increase(|sample| sample.voluntary_switches),
            involuntary_switches: increase(|sample| sample.involuntary_switches),
            processes_peak: peak(|sample| sample.processes),
            wait_s: wait_ns.map(|(first, last)| last.saturating_sub(first) as f64 / 1e9),
            busiest_thread_pct: mean(busiest),
            backlog_peak: None,
            gauges_peak: BTreeMap::new(),
        }
    }

    /// Returns the use of two process trees that ran side by side. Peaks are added although the trees may have had them at
    /// different times, so their sums are upper bounds.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let mut gauges_peak = self.gauges_peak.clone();
        for (name, value) in &other.gauges_peak {
            *gauges_peak.entry(name.clone()).or_default() += value;
        }
        Self {
            samples: self.samples.max(other.samples),
            rss_baseline_kb: self.rss_baseline_kb + other.rss_baseline_kb,
            rss_peak_kb: self.rss_peak_kb + other.rss_peak_kb,
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            cpu_avg_pct: self.cpu_avg_pct + other.cpu_avg_pct,
            cpu_peak_pct: self.cpu_peak_pct + other.cpu_peak_pct,
            threads_peak: self.threads_peak + other.threads_peak,
            fds_peak: self.fds_peak + other.fds_peak,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            processes_peak: self.processes_peak + other.processes_peak,
            wait_s: sum(self.wait_s, other.wait_s),
            busiest_thread_pct: self
                .busiest_thread_pct
                .into_iter()
                .chain(other.busiest_thread_pct)
                .reduce(f64::max),
            backlog_peak: self.backlog_peak.max(other.backlog_peak),
            gauges_peak,
        }
    }
}

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter()
        .chain(other)
        .reduce(|one, other| one + other)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
