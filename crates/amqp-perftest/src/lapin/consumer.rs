//! A consumer: handles its deliveries and acknowledges them.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ::lapin::Channel;
use ::lapin::message::Delivery;
use ::lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
};
use amq_protocol::protocol::basic;
use futures_util::{Stream as _, StreamExt as _};
use load::clock;

use super::WorkerState;
use super::ending::DepthQuery;
use super::link::End;
use super::polling::Polling;
use crate::ending::Quota;
use crate::ledger::Arrival;
use crate::outcome::count;
use crate::pace::Pace;
use crate::settings::Settings;
use amqp_client::stamp::Stamp;

/// Deliveries taken before other clients are served.
const AT_ONCE: usize = 256;

/// A consumer of this worker.
pub(super) struct Consumer {
    pub(super) number: u32,
    pub(super) channel: Option<Rc<Channel>>,
    pub(super) stream: Option<::lapin::Consumer>,
    /// Unacknowledged deliveries that could be acknowledged, and the tag of the last.
    pub(super) unacknowledged: u16,
    last: u64,
    /// First deliveries so far; redeliveries do not count.
    delivered: u64,
    /// Deliveries being processed one after the other, each with the time at which it is done.
    pub(super) busy: VecDeque<Busy>,
    waker: Option<Waker>,
    pub(super) pace: Pace,
    pub(super) polling: Polling,
    pub(super) quota: Quota,
    pub(super) depth_query: Option<DepthQuery>,
}

/// A delivery that is acknowledged at `done`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    done: u64,
    delivered: Delivered,
}

/// A delivery to acknowledge.
#[derive(Debug, Clone, Copy)]
struct Delivered {
    tag: u64,
    redelivered: bool,
    /// True if it belongs to the measured part of the run.
    counts: bool,
}

/// Starts consuming on a channel and waits for the answer. Without an answer, lapin knows its consumer only once the
/// frame is written, and drops earlier deliveries, which blocks the queue for ever.
pub(super) async fn consume(
    channel: &Channel,
    asked: basic::Consume,
) -> ::lapin::Result<::lapin::Consumer> {
    let options = BasicConsumeOptions {
        no_local: asked.no_local,
        no_ack: asked.no_ack,
        exclusive: asked.exclusive,
        nowait: false,
    };
    channel
        .basic_consume(asked.queue, asked.consumer_tag, options, asked.arguments)
        .await
}

/// Cancels a consumer and takes the deliveries under way. All arrived deliveries are then acknowledged: a requeued one
/// would reach another consumer, or be taken for a message that never arrived.
pub(super) async fn take_rest(state: &WorkerState<'_>, number: u32) {
    let consumer = &state.consumers[&number];
    let (channel, stream, pending_get) = {
        let mut consumer = consumer.borrow_mut();
        let pending_get = consumer.polling.take();
        (
            consumer.channel.clone(),
            consumer.stream.take(),
            pending_get,
        )
    };
    if let Some(pending_get) = pending_get
        && let Ok(Some(message)) = pending_get.await
    {
        consumer.borrow_mut().delivered(state, &message.delivery);
    }
    if let (Some(channel), Some(mut stream)) = (channel, stream) {
        let cancel = channel.basic_cancel(stream.tag(), BasicCancelOptions::default());
        // A closed channel cancels nothing, and its stream ends.
        let _ = cancel.await;
        while let Some(Ok(delivery)) = stream.next().await {
            consumer.borrow_mut().delivered(state, &delivery);
        }
    }
    consumer.borrow_mut().acknowledge_rest();
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Consumer")
            .field("number", &self.number)
            .field("busy", &self.busy)
            .finish_non_exhaustive()
    }
}

impl Consumer {
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            number,
            channel: None,
            stream: None,
            unacknowledged: 0,
            last: 0,
            delivered: 0,
            busy: VecDeque::new(),
            waker: None,
            pace: Pace::from_settings(settings),
            polling: Polling::default(),
            quota: Quota::from_settings(settings),
            depth_query: None,
        }
    }

    /// Attaches a channel, with a stream if it consumes and without one if it polls.
    pub(super) fn attach(&mut self, channel: Rc<Channel>, stream: Option<::lapin::Consumer>) {
        self.channel = Some(channel);
        self.stream = stream;
    }

    /// Detaches the lost connection. Returns how many deliveries return to the queue, as far as is known: the broker
    /// may not have read an acknowledgement.
    pub(super) fn leave(&mut self) -> u64 {
        let given_back = self.busy.len() as u64 + u64::from(self.unacknowledged);
        self.channel = None;
        self.stream = None;
        self.polling = Polling::default();
        self.depth_query = None;
        self.quota.forget();
        self.busy.clear();
        self.unacknowledged = 0;
        given_back
    }

    /// Acknowledges all arrived deliveries, processed or not.
    pub(super) fn acknowledge_rest(&mut self) {
        let open = (self.unacknowledged > 0).then_some(self.last);
        let last = self.busy.back().map(|last| last.delivered.tag).or(open);
        if let (Some(tag), Some(channel)) = (last, &self.channel) {
            hand_over(channel.basic_ack(tag, BasicAckOptions { multiple: true }));
            self.busy.clear();
            self.unacknowledged = 0;
        }
    }

    /// Remembers the waker for the next activity.
    pub(super) fn waits(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    /// Wakes the connection so that it is polled.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Takes arrived deliveries.
    pub(super) fn poll(
        &mut self,
        state: &WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        if state.driver.plan.driver.polling {
            return match self.channel.clone() {
                Some(channel) => self.poll_get(state, &channel, context),
                None => Ok(()),
            };
        }
        for _ in 0..AT_ONCE {
            let Some(stream) = &mut self.stream else {
                return self.poll_depth_query(state, context);
            };
            match Pin::new(stream).poll_next(context) {
                Poll::Ready(Some(delivery)) => self.delivered(state, &delivery?),
                Poll::Ready(None) => {
                    if !self.quota.is_full() {
                        state.record.count(count::CANCELLED, 1);
                    }
                    self.stream = None;
                }
                Poll::Pending => return self.poll_depth_query(state, context),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    pub(super) fn delivered(&mut self, state: &WorkerState<'_>, delivery: &Delivery) {
        let now = clock::now();
        state.counts.borrow_mut().delivered += 1;
        let (tag, redelivered) = (delivery.delivery_tag, delivery.redelivered);
        if state.driver.ending.is_open() && !self.is_wanted(state, tag, now) {
            return;
        }
        let phases = state.phases.get();
        let mut counts = false;
        match Stamp::check(&delivery.data) {
            Some((stamp, false)) => {
                if !state.driver.is_damaged(&stamp, &state.record) {
                    state.counts.borrow_mut().foreign += 1;
                }
            }
            Some((stamp, _)) if state.driver.is_ours(&stamp, &phases, now) => {
                counts = state.driver.counts(stamp.stream);
                self.arrived(state, &stamp, redelivered, now);
            }
            Some(_) if state.driver.is_of_warmup(&phases, now) => {
                state.counts.borrow_mut().warmup += 1;
            }
            _ => state.counts.borrow_mut().foreign += 1,
        }
        let done = self.pace.done(now);
        if state.driver.plan.driver.auto_ack {
            return;
        }
        let delivered = Delivered {
            tag,
            redelivered,
            counts,
        };
        if done <= now && self.busy.is_empty() {
            return self.acknowledge(state, delivered);
        }
        self.busy.push_back(Busy { done, delivered });
        // The worker's loop must wake for it.
        state.sooner.set(true);
    }

    fn arrived(&self, state: &WorkerState<'_>, stamp: &Stamp, redelivered: bool, now: u64) {
        state.arrived(Arrival {
            stream: stamp.stream,
            consumer: self.number,
            sequence: stamp.sequence,
            latency: state.driver.latency(stamp, now),
            redelivered,
        });
        if state.driver.counts(stamp.stream) {
            let mut counts = state.counts.borrow_mut();
            counts.consumed += 1;
            counts.redelivered += u64::from(redelivered);
        } else {
            state.counts.borrow_mut().consumed_of_warmup += 1;
        }
    }

    fn acknowledge(&mut self, state: &WorkerState<'_>, delivered: Delivered) {
        let Delivered {
            tag,
            redelivered,
            counts,
        } = delivered;
        let Some(channel) = &self.channel else {
            return;
        };
        let settings = &state.driver.plan.driver;
        if !redelivered {
            let refuses = settings.refuses(self.delivered);
            self.delivered += 1;
            if refuses {
                let options = BasicNackOptions {
                    multiple: false,
                    requeue: settings.requeue,
                };
                hand_over(channel.basic_nack(tag, options));
                let given_back = u64::from(settings.requeue);
                state.driver.ledger.given_back(given_back);
                return state.record.count(count::GIVEN_BACK, u64::from(counts));
            }
        }
        self.unacknowledged += 1;
        self.last = tag;
        if self.unacknowledged >= settings.multi_ack_every {
            let multiple = self.unacknowledged > 1;
            hand_over(channel.basic_ack(tag, BasicAckOptions { multiple }));
            self.unacknowledged = 0;
        }
    }

    /// Acknowledges processed deliveries. Returns when the next is done.
    pub(super) fn acknowledge_done(&mut self, state: &WorkerState<'_>, now: u64) -> u64 {
        while let Some(done) = self.busy.pop_front_if(|busy| busy.done <= now) {
            self.acknowledge(state, done.delivered);
        }
        let next = self.busy.front().map_or(u64::MAX, |busy| busy.done);
        if !state.driver.plan.driver.polling || self.channel.is_none() {
            return next;
        }
        if self.polling.due() <= now {
            // Its connection sends the request.
            self.wake();
            return next;
        }
        next.min(self.polling.due())
    }
}

/// Has lapin queue a frame without waiting until it is written. If the connection is lost, its stream reports that.
pub(super) fn hand_over(answer: impl Future<Output = ::lapin::Result<()>>) {
    let _ = pin!(answer).poll(&mut Context::from_waker(Waker::noop()));
}
