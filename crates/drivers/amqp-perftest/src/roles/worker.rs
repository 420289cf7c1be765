//! State of one worker that its publishers and consumers share.

use load::driver::{Phases, Worker};
use load::event_loop::LoopState;
use load::pacer::Pacer;
use load::recorder::Recorder;

use super::connection::{Lost, LostConnections};
use crate::ledger::{Arrival, KEPT};
use crate::outcome::count;
use crate::settings::{self, PRODUCERS};
use crate::shared::Shared;
use amqp_client::stamp::Stamp;

/// Interval between checks for the end once everything is published, and between checks for an early end.
pub(crate) const CHECK_INTERVAL_NS: u64 = 2_000_000;

/// A part of a worker's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Messages are published and consumed.
    Load,
    /// Consumers are cancelled. Deliveries still arrive and are acknowledged; nothing new is requested.
    Cancelling,
    /// Connections are closed. Deliveries can no longer be acknowledged.
    Closing,
}

/// State of one worker that its publishers and consumers share.
#[derive(Debug)]
pub(crate) struct WorkerState<'a> {
    pub(crate) run: &'a Shared,
    pub(crate) record: Recorder,
    /// The phases, as they are in this turn of the loop.
    pub(crate) phases: Phases,
    pub(crate) stage: Stage,
    pub(crate) lost: LostConnections,
    arrivals: Vec<Arrival>,
    /// True if this is one of the workers that publish.
    publishes: bool,
    is_paced: bool,
    has_published: bool,
    /// Time of the next check for an early end, and the last at which a consumer was active.
    next_check: u64,
    last_activity: u64,
    ends_early: bool,
}

/// A complete message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The delivery tag.
    pub tag: u64,
    /// True if it may have been delivered before.
    pub redelivered: bool,
    /// The stamp, if the body is long enough.
    pub stamp: Option<Stamp>,
    /// True if the body is as it was sent, provided that it has a stamp.
    pub is_intact: bool,
}

impl<'a> WorkerState<'a> {
    pub(crate) fn new(run: &'a Shared, worker: &Worker) -> Self {
        run.begin(worker);
        let index = run.layout.worker(worker.share);
        let group = settings::group(&run.plan, PRODUCERS);
        Self {
            run,
            record: worker.record.clone(),
            phases: worker.phases,
            stage: Stage::Load,
            lost: LostConnections::new(worker.record.clone()),
            arrivals: Vec::with_capacity(KEPT),
            publishes: index < run.layout.publishers(),
            is_paced: group.is_some_and(|group| group.clients == 0),
            has_published: false,
            next_check: 0,
            last_activity: worker.phases.origin,
            ends_early: false,
        }
    }

    /// Returns when open operations are given up, which is the end of the drain phase. That phase begins when all
    /// producers have finished, or at the end of the load, or with the last late start.
    pub(crate) fn drained(&self, pacer: &Pacer) -> u64 {
        let drain = self.phases.drained - self.phases.end;
        let published = self.run.published_all();
        let late = self.phases.drained.saturating_add(pacer.overrun());
        published.map_or(late, |at| at + drain)
    }

    /// Returns true if starts come from a schedule.
    pub(crate) fn is_paced(&self) -> bool {
        self.is_paced
    }

    /// Returns true once nothing more is published by this worker.
    pub(crate) fn has_published(&self) -> bool {
        self.has_published
    }

    /// Returns true if arrivals wait for [`hand_in`](Self::hand_in).
    pub(crate) fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Returns true if the worker may be done soon.
    pub(crate) fn checks_for_end(&self) -> bool {
        self.has_published || self.run.ending.may_come()
    }

    /// Notes that a consumer is active, which puts off an early end.
    pub(crate) fn on_activity(&mut self, now: u64) {
        self.last_activity = now;
    }

    /// Handles the end of publishing, after which `written` messages of each stream are to be accounted for.
    pub(crate) fn on_published(&mut self, written: impl Iterator<Item = (u32, u64)>) {
        self.has_published = true;
        if self.publishes {
            self.run.ledger.producers_done(written);
        }
    }

    /// Returns true once every message of the run has ended, as far as consumers are concerned.
    pub(crate) fn is_consumed(&self) -> bool {
        self.run.layout.producers == 0 || self.ends_early || self.run.is_complete()
    }

    /// Begins a check for an early end (--cmessages, --exit-when), if one is due. Returns true if it is.
    pub(crate) fn begin_end_check(&mut self, now: u64) -> bool {
        let is_due = self.run.ending.may_come() && now >= self.next_check;
        if is_due {
            self.next_check = now + CHECK_INTERVAL_NS;
        }
        is_due
    }

    /// Ends a check for an early end. Returns true if the run ends now; all deliveries must then be acknowledged.
    pub(crate) fn ends_now<T>(&mut self, cx: &mut LoopState<T>) -> bool {
        let now = cx.now;
        let ending = &self.run.ending;
        ending.on_activity(self.last_activity);
        let ends = !self.ends_early && now >= self.phases.measure && ending.has_come(now);
        if ends {
            self.ends_early = true;
            cx.end_load();
            self.phases = cx.phases;
        }
        ends
    }

    /// Takes an arrived message into account. Returns true if it is measured: it then counts as consumed once it is
    /// processed.
    #[inline]
    pub(crate) fn accept(&mut self, consumer: u32, received: &ReceivedMessage, now: u64) -> bool {
        let run = self.run;
        match received.stamp {
            Some(stamp) if !received.is_intact => {
                if !run.is_damaged(&stamp, &self.record) {
                    self.record.count(count::FOREIGN, 1);
                }
            }
            Some(stamp) if run.is_ours(&stamp, &self.phases, now) => {
                self.arrivals.push(Arrival {
                    stream: stamp.stream,
                    consumer,
                    sequence: stamp.sequence,
                    latency: run.latency(&stamp, now),
                    redelivered: received.redelivered,
                });
                // One read may bring more than fit: the list must not grow in the load.
                if self.arrivals.len() == KEPT {
                    self.hand_in();
                }
                let counts = run.counts(stamp.stream);
                if !counts {
                    self.record.count_of_warmup(count::CONSUMED, 1);
                } else if received.redelivered {
                    self.record.count(count::REDELIVERED, 1);
                }
                return counts;
            }
            Some(_) if run.is_of_warmup(&self.phases, now) => self.record.count(count::WARMUP, 1),
            _ => self.record.count(count::FOREIGN, 1),
        }
        false
    }

    /// Hands arrivals to the ledger of all workers.
    pub(crate) fn hand_in(&mut self) {
        self.run.ledger.take(&mut self.arrivals, &self.record);
    }

    /// Counts a lost connection and its arrived messages, which must not be counted as lost with their confirm.
    pub(crate) fn on_lost(&mut self, number: u64, lost: &Lost) {
        self.lost.add(number, lost, self.phases.origin);
        self.hand_in();
    }
}
