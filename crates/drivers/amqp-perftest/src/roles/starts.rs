//! The queue of starts of a producer: intended starts and bodies of its messages.

use std::collections::VecDeque;
use std::time::Duration;

use load::driver::Worker;
use load::event_loop::Options;
use load::pacer::{Pacer, Start};
use load::plan::Group;
use load::schedule::{Schedule, Share};

use crate::settings::{PRODUCERS, Settings};
use crate::shared::Shared;

/// Starts taken from the schedule before connections are served again.
const STARTS_AT_ONCE: usize = 4096;

/// Starts that a producer has not published yet.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Due starts of the schedule.
    due: VecDeque<u64>,
    /// Without a schedule: the first start, if not yet published.
    first: Option<Start>,
    /// Without a schedule: the last start; the next one follows at once.
    last: Option<Start>,
}

impl Starts {
    /// Adds a start: a message of a schedule (`paced`), or the first one of an unpaced producer.
    pub(crate) fn add(&mut self, start: Start, paced: bool) {
        if paced {
            self.due.push_back(start.at);
        } else {
            self.first = Some(start);
        }
    }

    /// Returns the start of the next message, if one is to be published.
    pub(crate) fn next(&mut self, pacer: &mut Pacer, now: u64) -> Option<u64> {
        if let Some(first) = self.first.take() {
            self.last = Some(first);
            return Some(now);
        }
        if let Some(last) = self.last {
            self.last = pacer.next_of_client(last, now);
            return self.last.map(|start| start.at);
        }
        self.due.pop_front()
    }

    /// Returns how many messages could be published now; an unpaced producer has no limit.
    pub(crate) fn waiting(&self) -> usize {
        if self.first.is_some() || self.last.is_some() {
            usize::MAX
        } else {
            self.due.len()
        }
    }

    /// Counts the due starts that are not yet published: messages of a schedule, or the first one of an unpaced
    /// producer.
    pub(crate) fn due(&self) -> usize {
        self.due.len() + usize::from(self.first.is_some())
    }

    /// Drops the remaining starts. Returns how many messages were due.
    pub(crate) fn end(&mut self) -> u64 {
        let due = std::mem::take(&mut self.due).len() as u64;
        self.last = None;
        due + u64::from(self.first.take().is_some())
    }
}

/// Returns the options of an engine's loop. An operation begins when its message is written.
pub(crate) fn loop_options() -> Options {
    Options {
        starts_per_turn: STARTS_AT_ONCE,
        begins_at_start: false,
        ..Options::default()
    }
}

/// Returns the pacer of a worker's producers: its share of the producers' schedule.
pub(crate) fn schedule(run: &Shared, worker: &Worker) -> Pacer {
    let phases = worker.phases;
    let index = run.layout.worker(worker.share);
    let mut groups = run.plan.groups.iter();
    let producers = groups.position(|group| group.name == PRODUCERS);
    let mine = producers.zip(run.layout.publishing_share(index));
    let schedules = mine.map(
        |(producers, share)| match run.plan.driver.random_start_delay {
            Duration::ZERO => run.plan.schedules(share).swap_remove(producers),
            most => delayed(run, &run.plan.groups[producers], most, share),
        },
    );
    Pacer::new(phases.origin, phases.end, schedules.into_iter().collect())
}

/// Returns the schedule of producers with random start delays: each then keeps its part of the rate, or publishes
/// unpaced.
fn delayed(run: &Shared, group: &Group, most: Duration, share: Share) -> Schedule {
    let producers = run.layout.producers;
    let interval = |rate: f64| Duration::try_from_secs_f64(producers as f64 / rate);
    // A rate too low to schedule another start must not end the run.
    let interval = group
        .rate
        .map(|rate| interval(rate).unwrap_or(Duration::MAX));
    let schedule = Schedule::drawn(producers, most, interval, run.plan.seed, share);
    match group.ops {
        // With a rate, `ops` is the total of all producers.
        Some(ops) if group.rate.is_some() => schedule.limited(ops / producers),
        Some(ops) => schedule.limited(ops),
        None => schedule,
    }
}

/// Returns the index of the current size, if sizes change with time; `since` is in nanoseconds of the run.
pub(crate) fn size_at(settings: &Settings, since: u64) -> Option<usize> {
    let lasts = settings
        .variable_size
        .iter()
        .map(|size| size.over.as_nanos() as u64);
    let mut at = since.checked_rem(lasts.clone().sum())?;
    lasts
        .into_iter()
        .position(|lasts| match at.checked_sub(lasts) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        })
}
