//! What a producer is to publish, from when each message is charged, and which body it has.

use std::collections::VecDeque;
use std::time::Duration;

use harness::driver::Worker;
use harness::pacer::{Pacer, Start};
use harness::plan::Group;
use harness::schedule::{Schedule, Share};

use crate::driver::Perftest;
use crate::settings::{PRODUCERS, Settings};

/// Starts that one producer has not published yet.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Starts of the schedule that are due.
    due: VecDeque<u64>,
    /// Without a schedule: the first start, not yet published.
    begins: Option<Start>,
    /// Without a schedule: the last start, which the next one follows at once.
    goes_on: Option<Start>,
}

impl Starts {
    /// A start has come: one message of a schedule (`paced`), or the beginning of a producer that goes on by itself.
    pub(crate) fn add(&mut self, start: Start, paced: bool) {
        if paced {
            self.due.push_back(start.at);
        } else {
            self.begins = Some(start);
        }
    }

    /// The start of the next message, if there is one to publish.
    pub(crate) fn next(&mut self, pacer: &mut Pacer, now: u64) -> Option<u64> {
        if let Some(first) = self.begins.take() {
            self.goes_on = Some(first);
            return Some(now);
        }
        if let Some(last) = self.goes_on {
            self.goes_on = pacer.again(last, now);
            return self.goes_on.map(|start| start.at);
        }
        self.due.pop_front()
    }

    /// How many messages could be published now; without a schedule there is no end to them.
    pub(crate) fn waiting(&self) -> usize {
        match self.begins.is_some() || self.goes_on.is_some() {
            true => usize::MAX,
            false => self.due.len(),
        }
    }

    /// Counts the starts that have come due and are not yet published: messages of a schedule, or the first one of a
    /// producer that goes on by itself.
    pub(crate) fn due(&self) -> usize {
        self.due.len() + usize::from(self.begins.is_some())
    }

    /// Forgets what was still to be published; how many messages were due.
    pub(crate) fn end(&mut self) -> u64 {
        let due = std::mem::take(&mut self.due).len() as u64;
        self.goes_on = None;
        due + u64::from(self.begins.take().is_some())
    }
}

/// The schedule of the producers alone, of which a worker has the part of its own producers.
pub(crate) fn schedule(driver: &Perftest, worker: &Worker) -> Pacer {
    let (phases, index) = (worker.phases, worker.share.index);
    let of = driver.layout.publishers(worker.share.of);
    let mut groups = driver.plan.groups.iter();
    let place = groups.position(|group| group.name == PRODUCERS);
    let share = Share { index, of };
    let mine = place.filter(|_| index < of);
    let schedules = mine.map(|place| match driver.plan.driver.random_start_delay {
        Duration::ZERO => driver.plan.schedules(share).swap_remove(place),
        most => delayed(driver, &driver.plan.groups[place], most, share),
    });
    Pacer::new(phases.origin, phases.end, schedules.into_iter().collect())
}

/// Producers that begin at random: each then keeps its part of the rate, or goes on by itself.
fn delayed(driver: &Perftest, group: &Group, most: Duration, share: Share) -> Schedule {
    let producers = driver.layout.producers;
    let interval = |rate: f64| Duration::try_from_secs_f64(producers as f64 / rate);
    // A rate so low that nothing more is due is none that ends.
    let interval = group
        .rate
        .map(|rate| interval(rate).unwrap_or(Duration::MAX));
    let schedule = Schedule::drawn(producers, most, interval, driver.plan.seed, share);
    match group.ops {
        // With a rate they are those of all.
        Some(ops) if group.rate.is_some() => schedule.limited(ops / producers),
        Some(ops) => schedule.limited(ops),
        None => schedule,
    }
}

/// The place of the size that it is time for, where sizes change with time; `since` in nanoseconds of the run.
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
