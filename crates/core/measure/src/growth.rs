//! Growth of a daemon under steady load: the slope of its memory and open files over finished operations.

use crate::regression::LinearFit;
use crate::result::{Cost, RunResult, Second};
use crate::tally::{OK, STARTED};

/// Growth of the daemon per 1,000 finished operations, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthUnderLoad {
    /// Resident memory, bytes.
    pub rss_bytes: LinearFit,
    /// The slopes of the first and the second half of the samples. If both are similar to the whole, the daemon keeps
    /// growing; if the second is far smaller, the daemon levels off. `None` for a half in which nothing finished.
    ///
    /// They replace a confidence interval: consecutive samples are correlated, so an interval from their scatter would
    /// be too narrow.
    pub rss_bytes_halves: [Option<f64>; 2],
    /// Open files.
    pub fds: LinearFit,
    /// The slopes of the halves, as for the memory.
    pub fds_halves: [Option<f64>; 2],
    /// Samples that the lines are fitted to.
    pub samples: usize,
    /// Operations that finished between the first sample and the last.
    pub finished: f64,
}

/// Minimum number of samples for a slope.
const MIN_SAMPLES: usize = 30;
/// Minimum number of finished operations for a slope.
const MIN_OPERATIONS: f64 = 1_000.0;
/// Maximum ratio between the open operations of the two halves of a steady load. A ramp has 1.9.
const MAX_STEADY_RATIO: f64 = 1.5;

impl RunResult {
    /// Fits the slopes over the steady part of the run: without its first quarter, and until the last second with a
    /// start. Returns `None` if that part is too short or the load was not steady.
    pub fn growth_under_load(&self) -> Option<GrowthUnderLoad> {
        let last = self.seconds.iter().rposition(starts)?;
        let steady = self.seconds.get(last / 4 + 1..last)?;
        let (early, late) = steady.split_at(steady.len() / 2);
        let (before, after) = (open(early), open(late));
        if before.max(after) > MAX_STEADY_RATIO * before.min(after) {
            return None;
        }
        let (from, to) = (steady.first()?.second as f64, steady.last()?.second as f64);
        let sums = Sums::new(&self.seconds);
        let samples = self.resources.iter();
        let in_steady_part = samples.filter(|sample| (from..to).contains(&sample.at_s));
        // Operations finished by each sample, and the sample of the daemon.
        let samples: Vec<(f64, Cost)> = in_steady_part
            .filter_map(|sample| Some((sums.finished_by(sample.at_s), sample.daemon?)))
            .collect();
        let finished = samples.last()?.0 - samples.first()?.0;
        if samples.len() < MIN_SAMPLES || finished < MIN_OPERATIONS {
            return None;
        }
        let points = |read: fn(&Cost) -> f64| -> Vec<(f64, f64)> {
            let points = samples.iter();
            points
                .map(|(by, cost)| (by / 1_000.0, read(cost)))
                .collect()
        };
        let rss = points(|cost| cost.rss_kb as f64 * 1024.0);
        let fds = points(|cost| cost.fds as f64);
        Some(GrowthUnderLoad {
            rss_bytes: LinearFit::through(&rss)?,
            rss_bytes_halves: halves(&rss),
            fds: LinearFit::through(&fds)?,
            fds_halves: halves(&fds),
            samples: samples.len(),
            finished,
        })
    }
}

/// Returns the slopes of both halves of the points.
fn halves(points: &[(f64, f64)]) -> [Option<f64>; 2] {
    let (first, second) = points.split_at(points.len() / 2);
    [first, second].map(|half| LinearFit::through(half).map(|line| line.slope))
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

/// Returns the mean over the seconds of the peak number of open operations.
fn open(seconds: &[Second]) -> f64 {
    let peaks: u64 = seconds.iter().map(|second| second.active_peak).sum();
    peaks.max(1) as f64 / seconds.len().max(1) as f64
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
    use super::*;

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
