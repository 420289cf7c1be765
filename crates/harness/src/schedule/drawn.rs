//! Workers that begin at random, and then keep an interval each or go on by themselves.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Due, Share};

/// The starts of one share's workers, in order. Worker j does operations j, j + workers, j + 2 workers…
#[derive(Debug)]
pub(super) struct Drawn {
    workers: u64,
    /// Operations of each.
    pub(super) ops: u64,
    /// Nanoseconds between two operations of a worker; infinite where it goes on by itself.
    interval: f64,
    /// Sorted by their place in the interval.
    beginnings: Vec<Beginning>,
    round: u64,
    place: usize,
}

#[derive(Debug)]
struct Beginning {
    /// Nanoseconds into the interval.
    at: u64,
    /// The first round in which it takes part.
    first: u64,
    worker: u64,
}

impl Drawn {
    /// Every share draws for all workers, and keeps its own.
    pub(super) fn new(
        workers: u64,
        most: Duration,
        interval: Option<Duration>,
        seed: u64,
        share: Share,
    ) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let interval = interval.map_or(f64::INFINITY, |interval| interval.as_nanos() as f64);
        let mut beginnings: Vec<Beginning> = (0..workers)
            .map(|worker| {
                let uniform: f64 = random.random();
                let delay = uniform * most.as_nanos() as f64;
                let first = (delay / interval).floor();
                Beginning {
                    at: (delay - if first > 0.0 { first * interval } else { 0.0 }) as u64,
                    first: first as u64,
                    worker,
                }
            })
            .filter(|beginning| beginning.worker % share.of == share.index)
            .collect();
        beginnings.sort_unstable_by_key(|beginning| beginning.at);
        Self {
            workers,
            ops: u64::MAX,
            interval,
            // Nobody takes part in the rounds before.
            round: beginnings.iter().map(|of| of.first).min().unwrap_or(0),
            beginnings,
            place: 0,
        }
    }

    /// Whether workers go on by themselves.
    pub(super) fn is_closed(&self) -> bool {
        self.interval.is_infinite()
    }

    /// The operation after `index` of a worker that goes on by itself.
    pub(super) fn following(&self, index: u64) -> Option<u64> {
        let following = index.checked_add(self.workers)?;
        (self.is_closed() && following / self.workers < self.ops).then_some(following)
    }

    pub(super) fn next(&mut self) -> Option<Due> {
        loop {
            if self.place == self.beginnings.len() {
                let last = self
                    .beginnings
                    .iter()
                    .map(|beginning| beginning.first)
                    .max()?;
                self.place = 0;
                self.round += 1;
                if self.is_closed() || self.round.saturating_sub(last) >= self.ops {
                    // Nothing follows, however often it is asked.
                    self.beginnings.clear();
                    return None;
                }
            }
            let beginning = self.beginnings.get(self.place)?;
            self.place += 1;
            let Some(done) = self.round.checked_sub(beginning.first) else {
                continue;
            };
            if done < self.ops {
                let before = match self.round {
                    0 => 0,
                    round => (round as f64 * self.interval) as u64,
                };
                return Some(Due {
                    at: before + beginning.at,
                    index: done * self.workers + beginning.worker,
                });
            }
        }
    }
}
