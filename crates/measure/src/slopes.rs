//! What a daemon keeps of the operations that it has served: the slope of its memory and files over a steady load.

use crate::result::{Resources, RunResult, Second};
use crate::slope::Line;

/// What each 1,000 finished operations left behind in the daemon, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slopes {
    /// Resident memory, bytes.
    pub rss_bytes: Line,
    /// Open files.
    pub fds: Line,
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
        let by: Vec<f64> = looks
            .iter()
            .map(|look| self.finished_by(look.at_s))
            .collect();
        let finished = by.last()? - by.first()?;
        if looks.len() < FEW_LOOKS || finished < FEW_OPERATIONS {
            return None;
        }
        let line = |of: fn(&Resources) -> f64| {
            let points = by.iter().zip(&looks);
            let points: Vec<_> = points.map(|(by, look)| (by / 1_000.0, of(look))).collect();
            Line::through(&points)
        };
        Some(Slopes {
            rss_bytes: line(|look| look.daemon.unwrap_or_default().rss_kb as f64 * 1024.0)?,
            fds: line(|look| look.daemon.unwrap_or_default().fds as f64)?,
            looks: looks.len(),
            finished,
        })
    }

    /// Operations that had finished by an instant, seconds since the first start; within a second evenly.
    fn finished_by(&self, at_s: f64) -> f64 {
        let share = |second: &Second| (at_s - second.second as f64).clamp(0.0, 1.0);
        self.seconds
            .iter()
            .map(|second| share(second) * finished(second))
            .sum()
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
