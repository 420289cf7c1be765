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
use super::link::End;
use crate::ledger::Arrival;
use crate::outcome::count;
use crate::series::END_TO_END;
use crate::stamp::{self, Stamp};

/// Deliveries that are taken before others have their turn.
const AT_ONCE: usize = 256;

/// A consumer of this worker.
#[derive(Debug)]
pub(super) struct Consumer {
    number: u32,
    channel: Option<Rc<Channel>>,
    stream: Option<::lapin::Consumer>,
    /// Deliveries that are not acknowledged yet, though they could be.
    unacknowledged: u16,
    /// Deliveries so far that had not been delivered before.
    delivered: u64,
    /// With a latency: deliveries that are being dealt with, one after the other, and when each is done.
    busy: VecDeque<Busy>,
    waker: Option<Waker>,
}

/// A delivery that is acknowledged when it is `done`.
#[derive(Debug, Clone, Copy)]
struct Busy {
    done: u64,
    tag: u64,
    redelivered: bool,
}

/// Lets a channel consume. The answer is waited for: what comes before lapin knows the consumer, it drops in silence, and
/// without an answer it writes the request first.
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

/// Cancels a consumer and takes what was on its way to it.
pub(super) async fn take_rest(desk: &Desk<'_>, number: u32) {
    let consumer = &desk.consumers[&number];
    let (channel, stream) = {
        let mut consumer = consumer.borrow_mut();
        (consumer.channel.clone(), consumer.stream.take())
    };
    let (Some(channel), Some(mut stream)) = (channel, stream) else {
        return;
    };
    let cancel = channel.basic_cancel(stream.tag(), BasicCancelOptions::default());
    // A channel that is gone cancels nothing, and its stream ends.
    let _ = cancel.await;
    while let Some(Ok(delivery)) = stream.next().await {
        consumer.borrow_mut().delivered(desk, &delivery);
    }
}

impl Consumer {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            channel: None,
            stream: None,
            unacknowledged: 0,
            delivered: 0,
            busy: VecDeque::new(),
            waker: None,
        }
    }

    /// Takes a channel that consumes.
    pub(super) fn join(&mut self, channel: Rc<Channel>, stream: ::lapin::Consumer) {
        self.channel = Some(channel);
        self.stream = Some(stream);
    }

    /// Its connection is gone.
    pub(super) fn leave(&mut self) {
        self.channel = None;
        self.stream = None;
        self.busy.clear();
        self.unacknowledged = 0;
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
        for _ in 0..AT_ONCE {
            let Some(stream) = &mut self.stream else {
                return Ok(());
            };
            match Pin::new(stream).poll_next(context) {
                Poll::Ready(Some(delivery)) => self.delivered(desk, &delivery?),
                Poll::Ready(None) => {
                    desk.record.count(count::CANCELLED, 1);
                    self.stream = None;
                }
                Poll::Pending => return Ok(()),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    fn delivered(&mut self, desk: &Desk<'_>, delivery: &Delivery) {
        let now = clock::now();
        let (tag, redelivered) = (delivery.delivery_tag, delivery.redelivered);
        match Stamp::read(&delivery.data) {
            Some(stamp) if desk.driver.is_ours(&stamp, &desk.phases.get(), now) => {
                self.arrived(desk, &stamp, redelivered, now);
            }
            Some(_) if desk.driver.layout.producers == 0 => desk.counts.borrow_mut().warmup += 1,
            _ => desk.counts.borrow_mut().foreign += 1,
        }
        let settings = &desk.driver.plan.driver;
        if settings.auto_ack {
            return;
        }
        if settings.consumer_latency.is_zero() {
            return self.acknowledge(desk, tag, redelivered);
        }
        let begins = self.busy.back().map_or(now, |last| last.done.max(now));
        self.busy.push_back(Busy {
            done: begins + settings.consumer_latency.as_nanos() as u64,
            tag,
            redelivered,
        });
        // The worker's loop waits for it.
        desk.sooner.set(true);
    }

    fn arrived(&self, desk: &Desk<'_>, stamp: &Stamp, redelivered: bool, now: u64) {
        desk.arrived(Arrival {
            stream: stamp.stream,
            consumer: self.number,
            sequence: stamp.sequence,
            redelivered,
        });
        if stamp::counts(stamp.stream) {
            let mut counts = desk.counts.borrow_mut();
            counts.consumed += 1;
            counts.redelivered += u64::from(redelivered);
            if !redelivered {
                desk.record
                    .value(END_TO_END, now.saturating_sub(stamp.start));
            }
        }
    }

    fn acknowledge(&mut self, desk: &Desk<'_>, tag: u64, redelivered: bool) {
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
                return desk.record.count(count::GIVEN_BACK, 1);
            }
        }
        self.unacknowledged += 1;
        if self.unacknowledged >= settings.multi_ack_every {
            let multiple = self.unacknowledged > 1;
            hand_over(channel.basic_ack(tag, BasicAckOptions { multiple }));
            self.unacknowledged = 0;
        }
    }

    /// Acknowledges what it has dealt with; returns when the next will be.
    pub(super) fn acknowledge_done(&mut self, desk: &Desk<'_>, now: u64) -> u64 {
        while let Some(done) = self.busy.pop_front_if(|busy| busy.done <= now) {
            self.acknowledge(desk, done.tag, done.redelivered);
        }
        self.busy.front().map_or(u64::MAX, |busy| busy.done)
    }
}

/// Has lapin queue a frame without waiting until it is written. Where the connection is lost, its stream says so.
fn hand_over(answer: impl Future<Output = ::lapin::Result<()>>) {
    let _ = pin!(answer).poll(&mut Context::from_waker(Waker::noop()));
}
