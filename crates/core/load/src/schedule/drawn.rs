//! Workers that begin at random times, and then keep an interval each or continue by themselves.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Due, Share};

/// The starts of one share's workers, in order. Worker j does operations j, j + workers, j + 2 workers…
#[derive(Debug)]
pub(super) struct RandomOffsets {
    workers: u64,
    /// Operations of each worker.
    pub(super) ops: u64,
    /// Nanoseconds between two operations of a worker; infinite if it continues by itself.
    interval: f64,
    /// Sorted by their offset in the interval.
    first_starts: Vec<FirstStart>,
    round: u64,
    position: usize,
}

#[derive(Debug)]
struct FirstStart {
    /// Nanoseconds into the interval.
    at: u64,
    /// The first round in which it takes part.
    first: u64,
    worker: u64,
}

impl RandomOffsets {
    /// Draws for all workers, and keeps the share's draws.
    pub(super) fn new(
        workers: u64,
        most: Duration,
        interval: Option<Duration>,
        seed: u64,
        share: Share,
    ) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let interval = interval.map_or(f64::INFINITY, |interval| interval.as_nanos() as f64);
        let mut first_starts: Vec<FirstStart> = (0..workers)
            .map(|worker| {
                let uniform: f64 = random.random();
                let delay = uniform * most.as_nanos() as f64;
                let first = (delay / interval).floor();
                FirstStart {
                    at: (delay - if first > 0.0 { first * interval } else { 0.0 }) as u64,
                    first: first as u64,
                    worker,
                }
            })
            .filter(|first_start| first_start.worker % share.of == share.index)
            .collect();
        first_starts.sort_unstable_by_key(|first_start| first_start.at);
        Self {
            workers,
            ops: u64::MAX,
            interval,
            // No worker takes part in the rounds before.
            round: first_starts.iter().map(|of| of.first).min().unwrap_or(0),
            first_starts,
            position: 0,
        }
    }

    /// Returns true if workers continue by themselves.
    pub(super) fn is_closed(&self) -> bool {
        self.interval.is_infinite()
    }

    /// Returns the operation after `index` of a worker that continues by itself.
    pub(super) fn next_of_worker(&self, index: u64) -> Option<u64> {
        let next_of_worker = index.checked_add(self.workers)?;
        (self.is_closed() && next_of_worker / self.workers < self.ops).then_some(next_of_worker)
    }

    pub(super) fn next(&mut self) -> Option<Due> {
        loop {
            if self.position == self.first_starts.len() {
                let last = self
                    .first_starts
                    .iter()
                    .map(|first_start| first_start.first)
                    .max()?;
                self.position = 0;
                self.round += 1;
                if self.is_closed() || self.round.saturating_sub(last) >= self.ops {
                    // Further calls return nothing either.
                    self.first_starts.clear();
                    return None;
                }
            }
            let first_start = self.first_starts.get(self.position)?;
            self.position += 1;
            let Some(done) = self.round.checked_sub(first_start.first) else {
                continue;
            };
            if done < self.ops {
                let before = match self.round {
                    0 => 0,
                    round => (round as f64 * self.interval) as u64,
                };
                return Some(Due {
                    at: before + first_start.at,
                    index: done * self.workers + first_start.worker,
                });
            }
        }
    }
}
