//! The schedule of a worker: its part of the rate, and the users of a closed loop.

use std::time::Duration;

use load::driver::Worker;
use load::pacer::{Pacer, Start};
use load::schedule::Share;
use traffic::ThinkTime;

use super::State;
use crate::shared::Shared;

/// Gives a worker the operations of its own users. `senders` of them send heartbeats. Returns true if that is what the
/// plan's schedule gives it: if workers have equally many users, operation k belongs to worker k mod n. Otherwise it gets
/// a schedule of its own, so that each user has the same rate.
pub(super) fn fit(shared: &Shared, senders: u64, worker: &mut Worker) -> bool {
    let workers = worker.share.of;
    let population = shared.population;
    let special = population.users() - population.senders();
    if population.rooms.is_multiple_of(workers) && (special == 0 || workers == 1) {
        return true;
    }
    let share = senders as f64 / population.senders() as f64;
    let mut plan = shared.plan.clone();
    plan.seed = plan.seed.wrapping_add(worker.share.index);
    for group in &mut plan.groups {
        group.rate = group.rate.map(|rate| rate * share);
        group.clients = if shared.is_closed { senders } else { 0 };
        for stage in &mut group.stages {
            if let load::plan::Goal::Rate(rate) = &mut stage.to {
                *rate *= share;
            }
        }
    }
    let schedules = match senders {
        0 => Vec::new(),
        _ => plan.schedules(Share::ALL),
    };
    worker.pacer = Pacer::new(worker.phases.begin, worker.phases.end, schedules);
    false
}

/// The loops of users that wait for their acknowledgements.
#[derive(Debug)]
pub(super) struct ClosedLoop {
    /// The time between an acknowledgement and the next heartbeat.
    think: ThinkTime,
    seed: u64,
    /// Number of pauses so far.
    pauses: u64,
    /// The last start of each sender.
    previous: Vec<Option<Start>>,
}

impl ClosedLoop {
    pub(super) fn new(shared: &Shared, senders: usize) -> Option<Self> {
        let settings = shared.settings();
        let own = settings.conversation.as_ref().and_then(|own| own.think);
        let constant = Duration::from_nanos((1e9 / settings.heartbeats_per_sec) as u64);
        shared.is_closed.then(|| Self {
            think: own.unwrap_or(ThinkTime::Constant(constant)),
            seed: shared.plan.seed,
            pauses: 0,
            previous: vec![None; senders],
        })
    }

    pub(super) fn begin(&mut self, sender: u32, start: Start) {
        self.previous[sender as usize] = Some(start);
    }

    /// Returns true if a sender has sent its first heartbeat.
    pub(super) fn has_begun(&self, sender: usize) -> bool {
        self.previous[sender].is_some()
    }

    /// Returns when a sender whose heartbeat ended at `now` sends the next one: after this think time, or else the plan's.
    pub(super) fn next_at(&mut self, now: u64, think: Option<&ThinkTime>) -> u64 {
        self.pauses += 1;
        let think = think.unwrap_or(&self.think);
        now + think.nanoseconds(self.seed, self.pauses)
    }

    /// Returns the next start of a sender, or `None` if it sends nothing any more.
    pub(super) fn next(&self, sender: u32, state: &mut State) -> Option<Start> {
        let previous = self.previous[sender as usize]?;
        state.next_of_client(previous, state.now)
    }
}
