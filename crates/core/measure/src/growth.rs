//! Growth under steady load: do memory, files, threads, and the CPU time of an operation grow with time?

use crate::result::{Cost, Resources, RunResult, Second};
use crate::summary::SummaryStats;
use crate::tally::{OK, STARTED};
use crate::units::Unit;

/// The growth of a figure under steady load.
///
/// The steady part of a run is cut into blocks of equal length. Each difference between the means of neighbouring blocks
/// is one value, and Student's t gives the interval of their mean. A mean hides the scatter within its block, however its
/// samples depend on each other. Differences have the right interval even if means drift like a random walk, and one that
/// is too wide if means are independent. A single jump, as when a cache is filled, is one large difference among small
/// ones, so its interval contains 0; a leak makes all differences alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Growth per hour.
    pub per_hour: f64,
    /// 95 % interval of the growth per hour, lower and upper end.
    pub interval: (f64, f64),
}

/// A figure whose growth is judged, of the daemon or of the driver.
#[derive(Debug, Clone, Copy)]
pub struct Growing {
    /// The key of the figure, without the side: `rss`.
    pub key: &'static str,
    /// The unit of the figure.
    pub unit: Unit,
    /// Reads the figure from a sample and the operations that finished per second.
    read: fn(&Cost, f64) -> f64,
}

/// The figures whose growth is judged.
pub const FIGURES: [Growing; 4] = [
    Growing {
        key: "rss",
        unit: Unit::Bytes,
        read: |cost, _| cost.rss_kb as f64 * 1024.0,
    },
    Growing {
        key: "fds",
        unit: Unit::Count,
        read: |cost, _| cost.fds as f64,
    },
    Growing {
        key: "threads",
        unit: Unit::Count,
        read: |cost, _| cost.threads as f64,
    },
    Growing {
        key: "cpu.each",
        unit: Unit::Nanoseconds,
        read: |cost, rate| cost.cpu_pct * 1e7 / rate,
    },
];

/// Reads the use of one process tree from a sample.
pub type Side = fn(&Resources) -> Option<Cost>;

/// The process trees whose growth is judged, by name.
pub const SIDES: [(&str, Side); 2] = [
    ("daemon", |sample| sample.daemon),
    ("driver", |sample| sample.driver),
];

/// Number of blocks: nine differences, so that t is 2.3.
const BLOCKS: usize = 10;
/// Minimum number of samples for a trend.
const MIN_SAMPLES: usize = 30;
/// Minimum number of finished operations for a trend.
const MIN_OPERATIONS: f64 = 1_000.0;
/// Maximum ratio between the open operations of the two halves of a steady load. A ramp has 1.4.
const MAX_STEADY_RATIO: f64 = 1.25;
/// Difference of the open operations of the two halves that is never a ramp: a busy machine makes it.
const FEW_OPEN: f64 = 20.0;

impl Trend {
    /// Computes the trend of block means at these times, in hours. Returns `None` for fewer than six blocks.
    fn through(blocks: &[(f64, f64)]) -> Option<Self> {
        let steps = blocks.windows(2);
        let steps = steps.map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
        let interval = SummaryStats::from_values(steps)?.interval?;
        Some(Self {
            per_hour: f64::midpoint(interval.0, interval.1),
            interval,
        })
    }

    /// Returns the growth per hour that the samples prove: the lower end of the interval, or 0 if that is negative.
    pub fn proven(&self) -> f64 {
        self.interval.0.max(0.0)
    }
}

impl RunResult {
    /// Computes the trend of a figure of [`FIGURES`] over the steady part of the run: without its first half, in which heaps warm up, and until
    /// the last second with a start. Returns `None` if that part is too short or the load was not steady.
    pub fn trend(&self, side: Side, figure: &Growing) -> Option<Trend> {
        let last = self.seconds.iter().rposition(starts)?;
        let steady = self.seconds.get(last / 2 + 1..last)?;
        let (early, late) = steady.split_at(steady.len() / 2);
        let (before, after) = (open(early), open(late));
        let most_steady = (MAX_STEADY_RATIO * before.min(after)).max(before.min(after) + FEW_OPEN);
        if before.max(after) > most_steady {
            return None;
        }
        let (from, to) = (steady.first()?.second as f64, steady.last()?.second as f64);
        let sums = Sums::new(&self.seconds);
        let samples = self.resources.iter();
        let in_steady_part = samples.filter(|sample| (from..to).contains(&sample.at_s));
        let samples: Vec<(f64, Cost)> = in_steady_part
            .filter_map(|sample| Some((sample.at_s, side(sample)?)))
            .collect();
        let finished = sums.finished_by(to) - sums.finished_by(from);
        if samples.len() < MIN_SAMPLES || finished < MIN_OPERATIONS {
            return None;
        }
        // The samples that are left over are the earliest.
        let blocks = samples.rchunks_exact(samples.len() / BLOCKS);
        let point = |block: &[(f64, Cost)]| {
            let (first, last) = (block[0].0, block[block.len() - 1].0);
            let rate = (sums.finished_by(last) - sums.finished_by(first)) / (last - first);
            let values = block.iter().map(|(_, cost)| (figure.read)(cost, rate));
            let mean = values.sum::<f64>() / block.len() as f64;
            (f64::midpoint(first, last) / 3_600.0, mean)
        };
        let mut means: Vec<_> = blocks.take(BLOCKS).map(point).collect();
        means.reverse();
        Trend::through(&means)
    }

    /// Returns the growth per hour that is proven, by the names of side and figure.
    pub(crate) fn proven_growth(&self, side: &str, figure: &str) -> Option<f64> {
        let (_, side) = SIDES.into_iter().find(|(name, _)| *name == side)?;
        let figure = FIGURES.iter().find(|growing| growing.key == figure)?;
        Some(self.trend(side, figure)?.proven())
    }
}

/// Finished operations second by second, with their running sum.
struct Sums<'a> {
    seconds: &'a [Second],
    /// Operations finished before each second.
    before: Vec<f64>,
}

impl<'a> Sums<'a> {
    fn new(seconds: &'a [Second]) -> Self {
        let sum = |sum: &mut f64, second: &Second| {
            let before = *sum;
            *sum += finished(second);
            Some(before)
        };
        Self {
            seconds,
            before: seconds.iter().scan(0.0, sum).collect(),
        }
    }

    /// Returns the operations finished by an instant, in seconds since the first start, interpolated evenly within a
    /// second.
    fn finished_by(&self, at_s: f64) -> f64 {
        let begun = self
            .seconds
            .partition_point(|second| second.second as f64 <= at_s);
        begun.checked_sub(1).map_or(0.0, |last| {
            let second = &self.seconds[last];
            let share = (at_s - second.second as f64).clamp(0.0, 1.0);
            self.before[last] + share * finished(second)
        })
    }
}

/// Returns the median over the seconds of the peak number of open operations: a stall fills only a few of them.
fn open(seconds: &[Second]) -> f64 {
    let peaks = seconds.iter().map(|second| second.active_peak as f64);
    SummaryStats::from_values(peaks).map_or(1.0, |peaks| peaks.median.max(1.0))
}

fn starts(second: &Second) -> bool {
    second
        .counts
        .get(STARTED)
        .is_some_and(|started| *started > 0)
}

fn finished(second: &Second) -> f64 {
    let ok = second.counts.get(OK).copied().unwrap_or(0);
    (ok + second.errors.values().sum::<u64>()) as f64
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    use test_kit::scaled;

    use super::*;

    /// Seconds of a simulated run.
    const LENGTH: u64 = 1_200;
    /// Operations per second of a simulated run.
    const RATE: u64 = 500;

    /// Simulates a run at a steady rate. `cost` returns memory in KiB and open files after some operations.
    fn simulated(mut cost: impl FnMut(f64) -> (f64, f64)) -> RunResult {
        let second = |second| Second {
            second,
            active_peak: 50,
            counts: [(STARTED.to_owned(), RATE), (OK.to_owned(), RATE)].into(),
            ..Second::default()
        };
        let mut sample = |second: u64| {
            let (rss, fds) = cost((second * RATE) as f64);
            let cost = Cost {
                // Memory comes in pages of 4 KiB.
                rss_kb: (20_000.0 + rss) as u64 / 4 * 4,
                fds: (100.0 + fds) as u64,
                threads: 4,
                cpu_pct: 20.0,
                ..Cost::default()
            };
            Resources {
                at_s: second as f64,
                daemon: Some(cost),
                ..Resources::default()
            }
        };
        RunResult {
            seconds: (0..LENGTH).map(second).collect(),
            resources: (0..LENGTH).map(&mut sample).collect(),
            ..RunResult::default()
        }
    }

    /// Returns values of which each keeps a share of the one before; their standard deviation is about 20 for 0.9.
    fn noise(random: &mut StdRng, kept: f64) -> impl FnMut() -> f64 {
        let mut value = 0.0;
        move || {
            let normal: f64 = (0..12).map(|_| random.random_range(-0.5..0.5)).sum();
            value = kept * value + 8.7 * normal;
            value
        }
    }

    /// Returns true if memory or files are proven to grow.
    fn grows(run: &RunResult) -> [bool; 2] {
        ["rss", "fds"].map(|figure| run.proven_growth("daemon", figure).unwrap() > 0.0)
    }

    #[test]
    fn a_leak_of_a_kib_or_a_file_for_1000_operations_is_found() {
        for seed in 0..40 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut noise = noise(&mut random, 0.9);
            let leaking = simulated(|done| (done / 1_000.0 + noise(), done / 1_000.0 + noise()));
            assert_eq!(grows(&leaking), [true; 2], "{seed}");
            let trend = leaking.trend(SIDES[0].1, &FIGURES[0]).unwrap();
            // 1.8 million operations in an hour.
            let kib = trend.per_hour / 1_024.0;
            assert!((kib - 1_800.0).abs() < 360.0, "{seed}: {trend:?}");
        }
    }

    #[test]
    fn a_cache_that_fills_and_then_stays_is_flat() {
        for seed in 0..40 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut noise = noise(&mut random, 0.9);
            let all = (LENGTH * RATE) as f64;
            let filling = simulated(|done| {
                let filled = (done / all).min(0.4);
                (50_000.0 * filled + noise(), 1_000.0 * filled + noise())
            });
            assert_eq!(grows(&filling), [false; 2], "{seed}");
        }
    }

    #[test]
    fn a_jump_is_flat_whenever_it_happens() {
        for tenth in 0..10 {
            let at = (tenth * LENGTH * RATE) as f64 / 10.0;
            let jumping = simulated(|done| {
                if done > at {
                    (4_000.0, 50.0)
                } else {
                    (0.0, 0.0)
                }
            });
            assert_eq!(grows(&jumping), [false; 2], "{tenth}");
        }
    }

    #[test]
    fn false_alarms_are_at_most_5_percent_whatever_samples_depend_on() {
        // Independent samples, samples that depend on each other, and a random walk.
        for kept in [0.0, 0.9, 0.99, 1.0] {
            let (mut alarms, runs) = ([0; 2], scaled(400).max(40));
            for seed in 0..runs {
                let mut random = StdRng::seed_from_u64(seed);
                let mut noise = noise(&mut random, kept);
                let flat = simulated(|_| (noise(), noise() / 20.0));
                for (alarms, grows) in alarms.iter_mut().zip(grows(&flat)) {
                    *alarms += u64::from(grows);
                }
            }
            assert!(
                alarms.iter().all(|alarms| *alarms * 20 <= runs),
                "{kept}: {alarms:?}"
            );
        }
    }

    #[test]
    fn operations_finished_by_an_instant_include_a_share_of_its_second() {
        // A second without a row: nothing finished in it.
        let seconds = [(0, 10), (1, 20), (3, 40)].map(|(second, ok)| Second {
            second,
            counts: [(OK.to_owned(), ok)].into(),
            ..Second::default()
        });
        let sums = Sums::new(&seconds);
        let at = [-1.0, 0.0, 0.5, 1.0, 1.25, 2.5, 3.0, 3.5, 9.0].map(|at_s| sums.finished_by(at_s));
        assert_eq!(at, [0.0, 0.0, 5.0, 10.0, 15.0, 30.0, 30.0, 50.0, 70.0]);
        assert_eq!(Sums::new(&[]).finished_by(1.0), 0.0);
    }
}
