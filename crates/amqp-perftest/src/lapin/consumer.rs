//! A consumer: what it is given, and what it answers.

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
use harness::clock;

use super::Desk;
use super::ending::Census;
use super::link::End;
use super::polling::Polling;
use crate::ending::Quota;
use crate::ledger::Arrival;
use crate::outcome::count;
use crate::pace::Pace;
use crate::settings::Settings;
use crate::stamp::Stamp;

/// Deliveries that are taken before others have their turn.
const AT_ONCE: usize = 256;

/// A consumer of this worker.
pub(super) struct Consumer {
    pub(super) number: u32,
    pub(super) channel: Option<Rc<Channel>>,
    pub(super) stream: Option<::lapin::Consumer>,
    /// Deliveries that are not acknowledged yet, though they could be, and the tag of the last of them.
    pub(super) unacknowledged: u16,
    last: u64,
    /// Deliveries so far that had not been delivered before.
    delivered: u64,
    /// Deliveries that are being dealt with, one after the other, and when each is done.
    pub(super) busy: VecDeque<Busy>,
    waker: Option<Waker>,
    pub(super) pace: Pace,
    pub(super) polling: Polling,
    pub(super) quota: Quota,
    pub(super) census: Option<Census>,
}

/// A delivery that is acknowledged when it is `done`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    done: u64,
    delivered: Delivered,
}

/// What is to be acknowledged.
#[derive(Debug, Clone, Copy)]
struct Delivered {
    tag: u64,
    redelivered: bool,
    /// Whether it is of the run, and not of its warm-up.
    counts: bool,
}

/// Lets a channel consume, and waits for the answer: without one lapin knows its consumer only once the frame is written,
/// and drops what comes before, which holds the queue up for ever.
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

/// Cancels a consumer and takes what was on its way to it. All that has arrived is acknowledged then: what went back to the
/// queue would be given to another consumer, or be taken for a message that never arrived.
pub(super) async fn take_rest(desk: &Desk<'_>, number: u32) {
    let consumer = &desk.consumers[&number];
    let (channel, stream, question) = {
        let mut consumer = consumer.borrow_mut();
        let question = consumer.polling.take();
        (consumer.channel.clone(), consumer.stream.take(), question)
    };
    if let Some(question) = question
        && let Ok(Some(message)) = question.await
    {
        consumer.borrow_mut().delivered(desk, &message.delivery);
    }
    if let (Some(channel), Some(mut stream)) = (channel, stream) {
        let cancel = channel.basic_cancel(stream.tag(), BasicCancelOptions::default());
        // A channel that is gone cancels nothing, and its stream ends.
        let _ = cancel.await;
        while let Some(Ok(delivery)) = stream.next().await {
            consumer.borrow_mut().delivered(desk, &delivery);
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
            pace: Pace::of(settings),
            polling: Polling::default(),
            quota: Quota::of(settings),
            census: None,
        }
    }

    /// Takes a channel that consumes, or on which each message is asked for.
    pub(super) fn join(&mut self, channel: Rc<Channel>, stream: Option<::lapin::Consumer>) {
        self.channel = Some(channel);
        self.stream = stream;
    }

    /// Its connection is gone; how many deliveries go back to the queue with it, as far as is known: an acknowledgement
    /// may not have been read.
    pub(super) fn leave(&mut self) -> u64 {
        let given_back = self.busy.len() as u64 + u64::from(self.unacknowledged);
        self.channel = None;
        self.stream = None;
        self.polling = Polling::default();
        self.census = None;
        self.quota.forget();
        self.busy.clear();
        self.unacknowledged = 0;
        given_back
    }

    /// Acknowledges all that has arrived and was not acknowledged, dealt with or not.
    pub(super) fn acknowledge_rest(&mut self) {
        let open = (self.unacknowledged > 0).then_some(self.last);
        let last = self.busy.back().map(|last| last.delivered.tag).or(open);
        if let (Some(tag), Some(channel)) = (last, &self.channel) {
            hand_over(channel.basic_ack(tag, BasicAckOptions { multiple: true }));
            self.busy.clear();
            self.unacknowledged = 0;
        }
    }

    /// Remembers what to wake when there is something to do.
    pub(super) fn waits(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    /// Has its connection polled.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Takes what has come.
    pub(super) fn poll(&mut self, desk: &Desk<'_>, context: &mut Context<'_>) -> Result<(), End> {
        if desk.driver.plan.driver.polling {
            return match self.channel.clone() {
                Some(channel) => self.poll_question(desk, &channel, context),
                None => Ok(()),
            };
        }
        for _ in 0..AT_ONCE {
            let Some(stream) = &mut self.stream else {
                return self.poll_census(desk, context);
            };
            match Pin::new(stream).poll_next(context) {
                Poll::Ready(Some(delivery)) => self.delivered(desk, &delivery?),
                Poll::Ready(None) => {
                    if !self.quota.is_full() {
                        desk.record.count(count::CANCELLED, 1);
                    }
                    self.stream = None;
                }
                Poll::Pending => return self.poll_census(desk, context),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    pub(super) fn delivered(&mut self, desk: &Desk<'_>, delivery: &Delivery) {
        let now = clock::now();
        desk.counts.borrow_mut().delivered += 1;
        let (tag, redelivered) = (delivery.delivery_tag, delivery.redelivered);
        if desk.driver.ending.is_open() && !self.is_wanted(desk, tag, now) {
            return;
        }
        let phases = desk.phases.get();
        let mut counts = false;
        match Stamp::check(&delivery.data) {
            Some((stamp, false)) => {
                if !desk.driver.is_damaged(&stamp, &desk.record) {
                    desk.counts.borrow_mut().foreign += 1;
                }
            }
            Some((stamp, _)) if desk.driver.is_ours(&stamp, &phases, now) => {
                counts = desk.driver.counts(stamp.stream);
                self.arrived(desk, &stamp, redelivered, now);
            }
            Some(_) if desk.driver.is_of_warmup(&phases, now) => {
                desk.counts.borrow_mut().warmup += 1;
            }
            _ => desk.counts.borrow_mut().foreign += 1,
        }
        let done = self.pace.done(now);
        if desk.driver.plan.driver.auto_ack {
            return;
        }
        let delivered = Delivered {
            tag,
            redelivered,
            counts,
        };
        if done <= now && self.busy.is_empty() {
            return self.acknowledge(desk, delivered);
        }
        self.busy.push_back(Busy { done, delivered });
        // The worker's loop waits for it.
        desk.sooner.set(true);
    }

    fn arrived(&self, desk: &Desk<'_>, stamp: &Stamp, redelivered: bool, now: u64) {
        desk.arrived(Arrival {
            stream: stamp.stream,
            consumer: self.number,
            sequence: stamp.sequence,
            latency: desk.driver.latency(stamp, now),
            redelivered,
        });
        if desk.driver.counts(stamp.stream) {
            let mut counts = desk.counts.borrow_mut();
            counts.consumed += 1;
            counts.redelivered += u64::from(redelivered);
        } else {
            desk.counts.borrow_mut().consumed_of_warmup += 1;
        }
    }

    fn acknowledge(&mut self, desk: &Desk<'_>, delivered: Delivered) {
        let Delivered {
            tag,
            redelivered,
            counts,
        } = delivered;
        let Some(channel) = &self.channel else {
            return;
        };
        let settings = &desk.driver.plan.driver;
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
                desk.driver.ledger.given_back(given_back);
                return desk.record.count(count::GIVEN_BACK, u64::from(counts));
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

    /// Acknowledges what it has dealt with; returns when the next will be.
    pub(super) fn acknowledge_done(&mut self, desk: &Desk<'_>, now: u64) -> u64 {
        while let Some(done) = self.busy.pop_front_if(|busy| busy.done <= now) {
            self.acknowledge(desk, done.delivered);
        }
        let next = self.busy.front().map_or(u64::MAX, |busy| busy.done);
        if !desk.driver.plan.driver.polling || self.channel.is_none() {
            return next;
        }
        if self.polling.due() <= now {
            // Its connection asks.
            self.wake();
            return next;
        }
        next.min(self.polling.due())
    }
}

/// Has lapin queue a frame without waiting until it is written. Where the connection is lost, its stream says so.
pub(super) fn hand_over(answer: impl Future<Output = ::lapin::Result<()>>) {
    let _ = pin!(answer).poll(&mut Context::from_waker(Waker::noop()));
}
