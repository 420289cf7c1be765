//! The schedule of a worker: its part of the rate, and the users of a closed loop.

use load::driver::Worker;
use load::event_loop::LoopState;
use load::pacer::{Pacer, Start};
use load::schedule::Share;

use super::{Cx, Load, Timer};
use crate::population::{Behaviour, Part};
use crate::shared::Shared;

/// Gives a worker the operations of its own users. Returns true if that is what the plan's schedule gives it: if workers
/// have equally many users, operation k belongs to worker k mod n. Otherwise it gets a schedule of its own, so that each
/// user has the same rate.
pub(crate) fn fit(shared: &Shared, part: Part, worker: &mut Worker) -> bool {
    let workers = worker.share.of;
    let population = shared.population;
    let special = population.users() - population.senders();
    if population.rooms.is_multiple_of(workers) && (special == 0 || workers == 1) {
        return true;
    }
    let users = 0..part.users() as u32;
    let behaviour = |user: &u32| population.behaviour(part.index_of(*user));
    let senders = users.filter(|user| behaviour(user) == Behaviour::Active);
    let senders = senders.count() as u64;
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
pub(crate) struct ClosedLoop {
    /// The time between an acknowledgement and the next heartbeat.
    think_ns: u64,
    /// The last start of each sender.
    previous: Vec<Option<Start>>,
}

impl ClosedLoop {
    pub(crate) fn new(shared: &Shared, senders: usize) -> Option<Self> {
        shared.is_closed.then(|| Self {
            think_ns: (1e9 / shared.settings().heartbeats_per_sec) as u64,
            previous: vec![None; senders],
        })
    }

    pub(crate) fn begin(&mut self, sender: u32, start: Start) {
        self.previous[sender as usize] = Some(start);
    }

    /// Returns true if a sender has sent its first heartbeat.
    pub(crate) fn has_begun(&self, sender: usize) -> bool {
        self.previous[sender].is_some()
    }

    /// Returns when a sender whose heartbeat ended at `now` sends the next one.
    pub(crate) fn next_at(&self, now: u64) -> u64 {
        now + self.think_ns
    }

    /// Returns the next start of a sender, or `None` if it sends nothing any more.
    pub(crate) fn next<T>(&self, sender: u32, state: &mut LoopState<T>) -> Option<Start> {
        let previous = self.previous[sender as usize]?;
        state.next_of_client(previous, state.now)
    }
}

/// Returns true if no heartbeat starts any more at `now`. A closed loop has no schedule beyond its first starts, and a
/// worker without senders has none at all; both last until the end of the load.
pub(crate) fn is_over<T>(state: &LoopState<T>, now: u64) -> bool {
    state.pacer.over(now) && now >= state.phases.end
}

impl<'a> Load<'a> {
    pub(super) fn is_over(&self, state: &LoopState<Timer>) -> bool {
        is_over(state, state.now)
    }

    /// Lets a sender of a closed loop send its next heartbeat after its think time.
    pub(super) fn wait_for_next(&mut self, sender: u32, now: u64, cx: &mut Cx<'a>) {
        if let Some(closed) = &self.closed {
            cx.state
                .timers
                .set(closed.next_at(now), Timer::Next(sender));
        }
    }

    pub(super) fn next_of_sender(&mut self, sender: u32, cx: &mut Cx<'a>) {
        let Some(closed) = &self.closed else {
            return;
        };
        if self.users[self.senders[sender as usize] as usize].is_churning {
            // It is away because the plan asks for that.
            let at = closed.next_at(cx.state.now);
            cx.state.timers.set(at, Timer::Next(sender));
        } else if let Some(start) = closed.next(sender, &mut cx.state) {
            self.begin_heartbeat(sender, start, cx);
        }
    }
}
