//! A consumer: decides which deliveries it acknowledges or refuses, when it asks for more, and when it is done.

use std::collections::VecDeque;

use super::ending::Quota;
use super::pace::Pace;
use super::worker::{ReceivedMessage, Stage, WorkerState};
use crate::outcome::count;
use crate::settings::Settings;

/// A request of a consumer to its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Consume,
    Get,
    Ack {
        tag: u64,
        multiple: bool,
    },
    /// `basic.nack` of one delivery.
    Nack {
        tag: u64,
        requeue: bool,
    },
    Cancel,
    /// A passive `queue.declare` of its queue. It uses the consumer's own channel, so that deliveries sent before the
    /// answer arrive before it.
    QueryDepth,
}

/// A part of an engine that performs the actions of one consumer.
pub(crate) trait Perform {
    /// Performs an action, without waiting. A lost connection performs nothing.
    fn perform(&mut self, action: Action);
}

#[derive(Debug)]
pub(crate) struct Consumer {
    number: u32,
    subscription: Subscription,
    /// Unacknowledged deliveries that could be acknowledged, and the tag of the last.
    unacknowledged: u16,
    last: u64,
    /// Deliveries being processed one after the other, each with the time at which it is done.
    busy: VecDeque<(u64, Delivery)>,
    /// First deliveries so far; redeliveries do not count.
    delivered: u64,
    pace: Pace,
    /// Time at which the next `basic.get` is due: never while one is pending, or without polling.
    next_get: u64,
    quota: Quota,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscription {
    None,
    /// The broker may deliver more without being asked.
    Active,
    /// Until the broker answers, it may still deliver more.
    Cancelling,
}

/// A delivery to acknowledge.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    tag: u64,
    redelivered: bool,
    /// True if it belongs to the measured part of the run.
    counts: bool,
}

impl Consumer {
    pub(crate) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            number,
            subscription: Subscription::None,
            unacknowledged: 0,
            last: 0,
            busy: VecDeque::new(),
            delivered: 0,
            pace: Pace::from_settings(settings),
            next_get: u64::MAX,
            quota: Quota::from_settings(settings),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        u64::from(self.number)
    }

    /// Returns true while the broker may deliver more without being asked.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscription != Subscription::None
    }

    /// Handles a new channel. Returns the first action on it.
    pub(crate) fn attach(&mut self, state: &WorkerState<'_>, now: u64) -> Option<Action> {
        self.quota.forget();
        if self.quota.is_full() {
            return None;
        }
        if state.run.plan.driver.polling {
            self.pace.on_get(now);
            return Some(Action::Get);
        }
        self.subscription = Subscription::Active;
        Some(Action::Consume)
    }

    /// Handles the loss of the channel. Unacknowledged deliveries return to the queue, as far as is known: the broker
    /// may not have read an acknowledgement.
    pub(crate) fn leave(&mut self, state: &WorkerState<'_>) {
        let given_back = self.busy.len() as u64 + u64::from(self.unacknowledged);
        state.run.ledger.given_back(given_back);
        self.take_busy(state);
        self.unacknowledged = 0;
        self.subscription = Subscription::None;
        self.next_get = u64::MAX;
    }

    /// Cancels the subscription at the end of the run.
    pub(crate) fn cancel(&mut self, io: &mut impl Perform) {
        if self.subscription == Subscription::Active {
            self.subscription = Subscription::Cancelling;
            io.perform(Action::Cancel);
        }
    }

    /// Handles the end of the subscription, which the broker has ended unless it was asked to.
    pub(crate) fn on_cancelled(&mut self, state: &WorkerState<'_>) {
        if self.subscription == Subscription::Active {
            state.record.count(count::CANCELLED, 1);
        }
        self.subscription = Subscription::None;
    }

    pub(crate) fn on_delivery(
        &mut self,
        state: &mut WorkerState<'_>,
        received: &ReceivedMessage,
        now: u64,
        io: &mut impl Perform,
    ) {
        let auto_ack = state.run.plan.driver.auto_ack;
        state.record.count(count::DELIVERED, 1);
        if state.stage == Stage::Closing && !auto_ack {
            // It can no longer be acknowledged: it returns to its queue, and has not arrived.
            return;
        }
        if state.run.ending.may_come() && !self.is_wanted(state, received.tag, now, io) {
            return;
        }
        let delivery = Delivery {
            tag: received.tag,
            redelivered: received.redelivered,
            counts: state.accept(self.number, received, now),
        };
        if auto_ack && delivery.counts {
            state.record.count(count::CONSUMED, 1);
        }
        let done = self.pace.done(now);
        if !auto_ack && done <= now && self.busy.is_empty() {
            self.acknowledge(state, delivery, io);
        } else if !auto_ack {
            self.busy.push_back((done, delivery));
        }
        self.on_answer(state, now, io);
    }

    /// Returns true if a delivery is within the consumer's number. A delivery beyond it is requeued, unless it has left
    /// its queue for good.
    fn is_wanted(
        &mut self,
        state: &mut WorkerState<'_>,
        tag: u64,
        now: u64,
        io: &mut impl Perform,
    ) -> bool {
        state.on_activity(now);
        let auto_ack = state.run.plan.driver.auto_ack;
        if self.quota.takes(now, &state.run.ending) {
            if self.quota.is_full() {
                self.cancel(io);
            }
            return true;
        }
        if !auto_ack {
            io.perform(Action::Nack { tag, requeue: true });
            state.record.count(count::GIVEN_BACK, 1);
        }
        auto_ack
    }

    fn acknowledge(
        &mut self,
        state: &mut WorkerState<'_>,
        delivery: Delivery,
        io: &mut impl Perform,
    ) {
        let Delivery {
            tag,
            redelivered,
            counts,
        } = delivery;
        if counts {
            state.record.count(count::CONSUMED, 1);
        }
        let settings = &state.run.plan.driver;
        if !redelivered {
            let refuses = settings.refuses(self.delivered);
            self.delivered += 1;
            if refuses {
                let requeue = settings.requeue;
                io.perform(Action::Nack { tag, requeue });
                state.run.ledger.given_back(u64::from(requeue));
                return state.record.count(count::GIVEN_BACK, u64::from(counts));
            }
        }
        self.unacknowledged += 1;
        self.last = tag;
        if self.unacknowledged >= settings.multi_ack_every {
            let multiple = self.unacknowledged > 1;
            io.perform(Action::Ack { tag, multiple });
            self.unacknowledged = 0;
        }
    }

    /// Acknowledges all arrived deliveries, processed or not: an arrived message must neither go to another consumer
    /// nor be taken for one that never arrived.
    pub(crate) fn acknowledge_all(&mut self, state: &WorkerState<'_>, io: &mut impl Perform) {
        let open = (self.unacknowledged > 0).then_some(self.last);
        if let Some(tag) = self.take_busy(state).or(open) {
            let multiple = true;
            io.perform(Action::Ack { tag, multiple });
            self.unacknowledged = 0;
        }
    }

    /// Ends the processing of all deliveries, and counts them as consumed: they have arrived. Returns the last tag.
    fn take_busy(&mut self, state: &WorkerState<'_>) -> Option<u64> {
        let counted = self.busy.iter().filter(|(_, delivery)| delivery.counts);
        state.record.count(count::CONSUMED, counted.count() as u64);
        let last = self.busy.back().map(|(_, last)| last.tag);
        self.busy.clear();
        last
    }

    /// Acknowledges processed deliveries, and polls if that is due. Returns when the next of both is due.
    pub(crate) fn on_timer(
        &mut self,
        state: &mut WorkerState<'_>,
        now: u64,
        io: &mut impl Perform,
    ) -> u64 {
        while let Some((_, delivery)) = self.busy.pop_front_if(|(done, _)| *done <= now) {
            self.acknowledge(state, delivery, io);
        }
        self.poll(state, now, io);
        self.due()
    }

    /// Returns when a processed delivery is to be acknowledged, or the next `basic.get` to be sent.
    pub(crate) fn due(&self) -> u64 {
        let done = self.busy.front().map_or(u64::MAX, |(done, _)| *done);
        done.min(self.next_get)
    }

    /// Handles a `basic.get` that found no message.
    pub(crate) fn on_empty(
        &mut self,
        state: &mut WorkerState<'_>,
        now: u64,
        io: &mut impl Perform,
    ) {
        if state.run.ending.queries_depth() {
            self.on_found_empty(state, io);
        }
        if state.phases.is_measuring(now) {
            state.record.count(count::EMPTY_GETS, 1);
        }
        self.on_answer(state, now, io);
    }

    /// Handles the answer to a `basic.get`: the next one is sent at once, or as soon as it is due.
    fn on_answer(&mut self, state: &WorkerState<'_>, now: u64, io: &mut impl Perform) {
        if state.run.plan.driver.polling && !self.quota.is_full() {
            self.next_get = self.pace.next_get();
            self.poll(state, now, io);
        }
    }

    fn poll(&mut self, state: &WorkerState<'_>, now: u64, io: &mut impl Perform) {
        if self.next_get <= now && state.stage == Stage::Load {
            self.next_get = u64::MAX;
            self.pace.on_get(now);
            io.perform(Action::Get);
        }
    }

    /// Checks if it is done, and asks if its queue is empty.
    pub(crate) fn check_for_end(
        &mut self,
        state: &mut WorkerState<'_>,
        now: u64,
        io: &mut impl Perform,
    ) {
        let run = state.run;
        if !self.busy.is_empty() {
            state.on_activity(now);
        } else if self.quota.is_full() {
            self.finish(state, io);
        } else if run.ending.queries_depth()
            && !run.plan.driver.polling
            && self.quota.queries_depth(now)
        {
            io.perform(Action::QueryDepth);
        }
    }

    pub(crate) fn on_depth(
        &mut self,
        state: &WorkerState<'_>,
        messages: u32,
        io: &mut impl Perform,
    ) {
        if self.quota.on_depth(messages) {
            self.on_found_empty(state, io);
        }
    }

    fn on_found_empty(&mut self, state: &WorkerState<'_>, io: &mut impl Perform) {
        if self.busy.is_empty() {
            self.finish(state, io);
        }
    }

    /// Marks it as done, unless another message comes.
    fn finish(&mut self, state: &WorkerState<'_>, io: &mut impl Perform) {
        self.acknowledge_all(state, io);
        self.quota.finish(&state.run.ending);
    }
}

#[cfg(test)]
mod tests;
