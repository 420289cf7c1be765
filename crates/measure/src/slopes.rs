//! What a daemon keeps of the operations that it has served: the slope of its memory and files over a steady load.

use crate::result::{Resources, RunResult, Second};
use crate::slope::Line;

/// What each 1,000 finished operations left behind in the daemon, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slopes {
    /// Resident memory, bytes.
    pub rss_bytes: Line,
    /// The slopes of the first and the second half of the looks alone. Where both are like the whole, the daemon grows
    /// on; where the second is far smaller, it fills up. `None` for a half in which nothing finished.
    ///
    /// They stand for an interval: looks that follow each other are alike, so one from their scatter would be too narrow.
    pub rss_bytes_halves: [Option<f64>; 2],
    /// Open files.
    pub fds: Line,
    /// As for the memory.
    pub fds_halves: [Option<f64>; 2],
    /// Looks at the daemon that the lines go through.
    pub looks: usize,
    /// Operations that finished between the first of them and the last.
    pub finished: f64,
}

/// Looks that a slope needs.
const FEW_LOOKS: usize = 30;
/// Finished operations that a slope needs.
const FEW_OPERATIONS: f64 = 1_000.0;
/// A load is steady if neither half of its seconds has more than so many times open what the other has. A ramp has 1.9.
const STEADY: f64 = 1.5;

impl RunResult {
    /// The slopes over the part of the run in which the load was steady: without its first quarter, and until nothing
    /// was started any more. `None` where that is too short, or the load was not steady.
    #[must_use]
    pub fn slopes(&self) -> Option<Slopes> {
        let last = self.seconds.iter().rposition(starts)?;
        let steady = self.seconds.get(last / 4 + 1..last)?;
        let (early, late) = steady.split_at(steady.len() / 2);
        let (before, after) = (open(early), open(late));
        if before.max(after) > STEADY * before.min(after) {
            return None;
        }
        let (from, to) = (steady.first()?.second as f64, steady.last()?.second as f64);
        let looks: Vec<&Resources> = self
            .resources
            .iter()
            .filter(|look| (from..to).contains(&look.at_s) && look.daemon.is_some())
            .collect();
        let sums = Sums::of(&self.seconds);
        let by: Vec<f64> = looks.iter().map(|look| sums.by(look.at_s)).collect();
        let finished = by.last()? - by.first()?;
        if looks.len() < FEW_LOOKS || finished < FEW_OPERATIONS {
            return None;
        }
        let points = |of: fn(&Resources) -> f64| -> Vec<(f64, f64)> {
            let points = by.iter().zip(&looks);
            points.map(|(by, look)| (by / 1_000.0, of(look))).collect()
        };
        let rss = points(|look| look.daemon.unwrap_or_default().rss_kb as f64 * 1024.0);
        let fds = points(|look| look.daemon.unwrap_or_default().fds as f64);
        Some(Slopes {
            rss_bytes: Line::through(&rss)?,
            rss_bytes_halves: halves(&rss),
            fds: Line::through(&fds)?,
            fds_halves: halves(&fds),
            looks: looks.len(),
            finished,
        })
    }
}

/// The slopes of both halves of the points.
fn halves(points: &[(f64, f64)]) -> [Option<f64>; 2] {
    let (first, second) = points.split_at(points.len() / 2);
    [first, second].map(|half| Line::through(half).map(|line| line.slope))
}

/// Operations that finished, second by second, summed once.
struct Sums<'a> {
    seconds: &'a [Second],
    /// What had finished before each second.
    before: Vec<f64>,
}

impl<'a> Sums<'a> {
    fn of(seconds: &'a [Second]) -> Self {
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

    /// What had finished by an instant, seconds since the first start; within a second evenly.
    fn by(&self, at_s: f64) -> f64 {
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

/// What is open at most in a second, on average.
fn open(seconds: &[Second]) -> f64 {
    let peaks: u64 = seconds.iter().map(|second| second.active_peak).sum();
    peaks.max(1) as f64 / seconds.len().max(1) as f64
}

fn starts(second: &Second) -> bool {
    second
        .counts
        .get("started")
        .is_some_and(|started| *started > 0)
}

fn finished(second: &Second) -> f64 {
    let ok = second.counts.get("ok").copied().unwrap_or(0);
    (ok + second.errors.values().sum::<u64>()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_finished_by_an_instant_is_the_sum_of_the_seconds_before_it_and_a_share_of_its_own()
    {
        // A second without a row: nothing finished in it.
        let seconds = [(0, 10), (1, 20), (3, 40)].map(|(second, ok)| Second {
            second,
            counts: [("ok".to_owned(), ok)].into(),
            ..Second::default()
        });
        let sums = Sums::of(&seconds);
        let at = [-1.0, 0.0, 0.5, 1.0, 1.25, 2.5, 3.0, 3.5, 9.0].map(|at_s| sums.by(at_s));
        assert_eq!(at, [0.0, 0.0, 5.0, 10.0, 15.0, 30.0, 30.0, 50.0, 70.0]);
        assert_eq!(Sums::of(&[]).by(1.0), 0.0);
    }
}
