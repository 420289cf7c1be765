//! Disturbances that kept daemon and driver from running: stalls, waiting for a CPU, quotas, and other work on the
//! machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::{Cost, Resources, Second};
use crate::warning::WORKER_CPU_LIMIT_PCT;

mod disk;
mod warnings;

pub use disk::{Disk, DiskSample};
pub use warnings::Context;
use warnings::OTHERS_INVALID_PCT;

/// Shortest time between two samples that is judged, seconds. The kernel counts CPU time in ticks of 10 ms: in less
/// time, one tick would already be more than the use of others that makes a result SUSPECT.
const SHORTEST_SAMPLE_S: f64 = 0.1;

/// Intervals in which a worker's loop did not run although operations were due, excluding its own work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// Number of stalls, each longer than 10 ms.
    pub count: u64,
    /// Longest stall, nanoseconds.
    pub longest_ns: u64,
    /// Sum of all stalls, nanoseconds.
    pub total_ns: u64,
    /// Time in shorter interruptions: the loop neither waited for events, nor worked, nor waited for a CPU,
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub short_ns: u64,
    /// Number of times that a signal or a stop ended a wait for events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupted: u64,
}

/// Returns true for a count that old results do not have.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Stalls {
    /// Adds a stall.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.merge(Self {
            count: 1,
            longest_ns: ns,
            total_ns: ns,
            ..Self::default()
        });
    }

    /// Adds the stalls of another worker or second.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.total_ns += other.total_ns;
        self.short_ns += other.short_ns;
        self.interrupted += other.interrupted;
    }

    /// Returns itself, or `None` if there was no stall and no interruption.
    pub fn found(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// Periods of a control group's CPU quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// Periods in which the group had something to run.
    pub periods: u64,
    /// Periods in which the group used up its quota and was throttled.
    pub throttled: u64,
    /// Throttled time, nanoseconds, summed over CPUs.
    pub held_ns: u64,
}

impl Throttled {
    /// Returns the difference to an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled: self.throttled.saturating_sub(earlier.throttled),
            held_ns: self.held_ns.saturating_sub(earlier.held_ns),
        }
    }

    /// Returns the share of throttled periods, in percent.
    fn pct(self) -> f64 {
        100.0 * self.throttled as f64 / self.periods.max(1) as f64
    }
}

/// Disturbances of daemon and driver over the measured time. A figure that was not read is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// Stalls of all workers.
    pub stalls: Stalls,
    /// Measured seconds in which the workers reported.
    pub seconds: u64,
    /// Seconds of these in which a worker used most of its core.
    pub full_seconds: u64,
    /// CPU use of the busiest worker in its busiest second, percent of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_cpu_peak_pct: Option<f64>,
    /// Time that the longest-waiting worker of each second waited for a CPU, averaged over the seconds, percent of the
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_wait_pct: Option<f64>,
    /// Time that threads of the daemon waited for a CPU: percent of the time, or of the time that they wanted to run if
    /// that is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_wait_pct: Option<f64>,
    /// CPUs that daemon and driver may use, on which other processes are measured.
    pub cpus: u64,
    /// CPU use of daemon, its services and driver together, percent of one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_cpu_pct: Option<f64>,
    /// CPU use of other processes on these CPUs, percent of one core. Absent if the daemon's own use is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_cpu_pct: Option<f64>,
    /// CPU use of other processes in the sample with the highest value, percent of one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_cpu_peak_pct: Option<f64>,
    /// Number of samples, about one a second.
    #[serde(rename = "looks")]
    pub samples: u64,
    /// Samples in which other processes used more than a quarter of the CPUs.
    #[serde(rename = "disturbed_looks")]
    pub disturbed_samples: u64,
    /// Throttling by the quota of the driver's control group; absent without a quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_quota: Option<Throttled>,
    /// Throttling by the quota of the daemon's control group, if that is another group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_quota: Option<Throttled>,
    /// The disk, if the daemon syncs what it is sent, and its disk is this machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

impl Disturbance {
    /// Summarizes the seconds and samples that begin at `from_s` seconds after the first start or later.
    pub fn from_seconds(seconds: &[Second], samples: &[Resources], cpus: u64, from_s: f64) -> Self {
        let mut sum = Self {
            cpus,
            ..Self::default()
        };
        let is_measured = |second: &&Second| second.second as f64 >= from_s.floor();
        let mut waited = Mean::default();
        for second in seconds.iter().filter(is_measured) {
            sum.stalls.merge(second.stalls.unwrap_or_default());
            sum.seconds += 1;
            sum.full_seconds += u64::from(second.worker_cpu_pct > Some(WORKER_CPU_LIMIT_PCT));
            sum.worker_cpu_peak_pct = largest(sum.worker_cpu_peak_pct, second.worker_cpu_pct);
            waited.add(second.worker_wait_pct, 1.0);
        }
        sum.worker_wait_pct = waited.value();
        sum.add_samples(samples, from_s);
        sum
    }

    fn add_samples(&mut self, samples: &[Resources], from_s: f64) {
        let [mut others, mut own, mut daemon_cpu, mut daemon_wait] = [Mean::default(); 4];
        let quarter = OTHERS_INVALID_PCT * self.cpus as f64;
        for (index, pair) in samples.windows(2).enumerate() {
            let (before, sample) = (&pair[0], &pair[1]);
            let lasted_s = sample.at_s - before.at_s;
            // The first sample precedes the first start, and a short run has no pair that begins in its measured time.
            let counted_s = sample.at_s - before.at_s.max(from_s);
            let is_last = index + 2 == samples.len() && self.samples == 0;
            let is_long = lasted_s >= SHORTEST_SAMPLE_S && counted_s > 0.0;
            if !is_long || (counted_s < lasted_s / 2.0 && !is_last) {
                continue;
            }
            let cpu = |side: Option<Cost>| side.map_or(0.0, |cost| cost.cpu_pct);
            let services = sample.services.values().map(|cost| cost.cpu_pct);
            let used = cpu(sample.driver) + cpu(sample.daemon) + services.sum::<f64>();
            own.add(Some(used), lasted_s);
            daemon_cpu.add(sample.daemon.map(|cost| cost.cpu_pct), lasted_s);
            daemon_wait.add(sample.daemon.and_then(|cost| cost.wait_pct), lasted_s);
            others.add(sample.others_cpu_pct, lasted_s);
            self.others_cpu_peak_pct = largest(self.others_cpu_peak_pct, sample.others_cpu_pct);
            self.samples += 1;
            self.disturbed_samples += u64::from(sample.others_cpu_pct > Some(quarter));
        }
        self.own_cpu_pct = own.value();
        self.others_cpu_pct = others.value();
        self.daemon_wait_pct = daemon_wait.value().map(|wait| {
            let wanted = daemon_cpu.value().unwrap_or(0.0) + wait;
            100.0 * wait / wanted.max(100.0)
        });
    }
}

/// A time-weighted mean.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, weight: f64) {
        if let Some(value) = value {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    fn value(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

fn largest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_first_second_and_short_runs_are_judged_and_shorter_ones_have_no_sample() {
        let of = |at: &[f64], from_s| {
            let others = |at_s| Resources {
                at_s,
                others_cpu_pct: (at_s > 0.0).then_some(100.0 * at_s),
                ..Resources::default()
            };
            let samples: Vec<Resources> = at.iter().copied().map(others).collect();
            let sum = Disturbance::from_seconds(&[], &samples, 2, from_s);
            (sum.samples, sum.others_cpu_pct)
        };
        // The first sample is taken just before the first start.
        assert_eq!(of(&[-0.03, 0.5], 0.0), (1, Some(50.0)));
        assert_eq!(of(&[-0.03, 0.5], 0.1), (1, Some(50.0)));
        assert_eq!(of(&[-0.03, 0.97, 1.97], 1.0), (1, Some(197.0)));
        // Only a small part of the only sample is measured time.
        assert_eq!(of(&[-0.03, 1.0], 0.9), (1, Some(100.0)));
        assert_eq!(of(&[-0.03, 0.9], 1.0), (0, None));
        // A tick of the kernel's CPU time is a large part of so short a time.
        assert_eq!(of(&[-0.03, 0.05], 0.0), (0, None));
        assert_eq!(of(&[-0.03, 0.97, 0.99], 0.0), (1, Some(97.0)));
    }

    #[test]
    fn the_warm_up_is_left_out_of_the_sum() {
        let held = |ns| {
            let mut stalls = Stalls::default();
            stalls.add(ns);
            Some(stalls)
        };
        let second = |second, stalls, cpu, wait| Second {
            second,
            stalls,
            worker_cpu_pct: Some(cpu),
            worker_wait_pct: Some(wait),
            ..Second::default()
        };
        let seconds = [
            second(0, held(900 * MS), 99.0, 80.0),
            second(1, None, 90.0, 10.0),
            second(2, held(20 * MS), 10.0, 20.0),
        ];
        let redis = Cost {
            cpu_pct: 7.0,
            ..Cost::default()
        };
        let sample = |at_s, others_cpu_pct, wait_pct| Resources {
            at_s,
            services: [("redis".to_owned(), redis)].into(),
            daemon: Some(Cost {
                cpu_pct: 30.0,
                wait_pct: Some(wait_pct),
                ..Cost::default()
            }),
            driver: Some(Cost {
                cpu_pct: 10.0,
                ..Cost::default()
            }),
            others_cpu_pct,
            ..Resources::default()
        };
        let samples = [
            sample(-0.1, None, 0.0),
            sample(1.0, Some(200.0), 400.0),
            sample(2.0, Some(60.0), 10.0),
            sample(4.0, Some(30.0), 40.0),
        ];
        let sum = Disturbance::from_seconds(&seconds, &samples, 2, 1.0);
        assert_eq!((sum.seconds, sum.full_seconds), (2, 1));
        assert_eq!(sum.stalls, held(20 * MS).unwrap());
        assert_eq!(sum.worker_cpu_peak_pct, Some(90.0));
        assert_eq!(sum.worker_wait_pct, Some(15.0));
        assert_eq!((sum.samples, sum.disturbed_samples), (2, 1));
        assert_eq!(
            (sum.others_cpu_pct, sum.others_cpu_peak_pct),
            (Some(40.0), Some(60.0))
        );
        assert_eq!(
            (sum.own_cpu_pct, sum.daemon_wait_pct),
            (Some(47.0), Some(30.0))
        );
    }
}
