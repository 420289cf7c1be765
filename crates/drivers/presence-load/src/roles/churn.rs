//! When users leave and come back during the load.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::State;
use crate::roles::population::Part;
use crate::shared::Shared;

/// The rate at which users leave and come back.
#[derive(Debug)]
pub(super) struct Churn {
    every_ns: f64,
    cut: f64,
    /// Number of users that were due.
    due: u64,
    seed: u64,
}

impl Churn {
    /// Creates the share of a worker with this number of users that send heartbeats: only those leave.
    pub(super) fn new(shared: &Shared, part: Part, senders: usize) -> Option<Self> {
        let settings = shared.settings();
        let share = senders as f64 / part.population.senders() as f64;
        let rate = settings.churn.filter(|_| senders > 0);
        rate.map(|rate| Self {
            every_ns: 1e9 / (rate * share),
            cut: settings.churn_cut,
            due: 0,
            seed: shared.plan.seed.wrapping_add(part.share.index),
        })
    }

    /// Takes the next user that is due to leave. Returns true if its connection is to be cut, and random numbers to
    /// choose it with. They are of its own, because how many are used depends on who is there.
    ///
    /// # Errors
    /// The time at which the next one is due.
    pub(super) fn take_due(&mut self, state: &State) -> Result<(bool, StdRng), u64> {
        let after = ((self.due + 1) as f64 * self.every_ns) as u64;
        let due = state.phases.begin.saturating_add(after);
        if due >= state.phases.end {
            return Err(u64::MAX);
        }
        if due > state.now {
            return Err(due);
        }
        self.due += 1;
        let mut random = StdRng::seed_from_u64(self.seed ^ self.due << 32);
        Ok((random.random_range(0.0..1.0) < self.cut, random))
    }
}
