//! The end of a run before its time: what consumers give back, ask, and acknowledge before it.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ::lapin::options::{BasicCancelOptions, BasicNackOptions, QueueDeclareOptions};
use ::lapin::types::{FieldTable, ShortString};
use ::lapin::{Channel, Queue};

use super::consumer::{Consumer, hand_over};
use super::link::End;
use super::{Desk, LOOK_NS};
use crate::outcome::count;
use crate::topology;

/// How many messages lie in a queue, asked for.
pub(super) type Census = Pin<Box<dyn Future<Output = ::lapin::Result<Queue>>>>;

async fn passive(channel: Rc<Channel>, queue: ShortString) -> ::lapin::Result<Queue> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let arguments = FieldTable::default();
    channel.queue_declare(queue, options, arguments).await
}

impl Desk<'_> {
    /// Now and then, where the run may end early: whether consumers have had what they were to have, and whether that is
    /// the end.
    pub(super) fn look_for_end(&self, now: u64) {
        let ending = &self.driver.ending;
        if !ending.is_open() || now < self.next_look.get() {
            return;
        }
        self.next_look.set(now + LOOK_NS);
        for consumer in self.consumers.values() {
            let mut consumer = consumer.borrow_mut();
            if !consumer.busy.is_empty() {
                self.last_delivery.set(now);
            } else if consumer.quota.is_full() {
                consumer.finish(self);
            } else if ending.asks() {
                consumer.ask_for_number(self, now);
            }
        }
        ending.heard(self.last_delivery.get());
        let mut phases = self.phases.get();
        if !self.ends_early.get() && now >= phases.measure && ending.has_come(now) {
            for consumer in self.consumers.values() {
                consumer.borrow_mut().acknowledge_rest();
            }
            self.ends_early.set(true);
            self.pacer.borrow_mut().stop_at(now);
            phases.end = phases.end.min(now);
            self.phases.set(phases);
        }
    }
}

impl Consumer {
    /// Whether a delivery is one of those that it was to have; one beyond them goes back, unless it has left its queue for
    /// good.
    pub(super) fn is_wanted(&mut self, desk: &Desk<'_>, tag: u64, now: u64) -> bool {
        desk.last_delivery.set(now);
        let auto_ack = desk.driver.plan.driver.auto_ack;
        let takes = self.quota.takes(now, &desk.driver.ending);
        let Some(channel) = self.channel.clone() else {
            return takes;
        };
        if takes && self.quota.is_full() && self.stream.is_some() {
            let tag = topology::tag(u64::from(self.number));
            hand_over(channel.basic_cancel(tag, BasicCancelOptions::default()));
        }
        if !takes && !auto_ack {
            let options = BasicNackOptions {
                multiple: false,
                requeue: true,
            };
            hand_over(channel.basic_nack(tag, options));
            desk.record.count(count::GIVEN_BACK, 1);
        }
        takes || auto_ack
    }

    /// Asks how many messages lie in its queue: on its own channel, so that what was delivered before the answer has come
    /// before it.
    fn ask_for_number(&mut self, desk: &Desk<'_>, now: u64) {
        let settings = &desk.driver.plan.driver;
        let Some(channel) = self.channel.clone().filter(|_| !settings.polling) else {
            return;
        };
        if self.quota.asks(now) {
            let queue = settings.queue_of(u64::from(self.number));
            self.census = Some(Box::pin(passive(channel, queue.as_str().into())));
            self.wake();
        }
    }

    /// Takes the answer, once all that came before it is taken.
    pub(super) fn poll_census(
        &mut self,
        desk: &Desk<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        let Some(census) = &mut self.census else {
            return Ok(());
        };
        let Poll::Ready(queue) = census.as_mut().poll(context) else {
            return Ok(());
        };
        self.census = None;
        if self.quota.is_told(queue?.message_count()) && self.busy.is_empty() {
            self.finish(desk);
        }
        Ok(())
    }

    /// It waits for nothing more, unless something comes.
    pub(super) fn finish(&mut self, desk: &Desk<'_>) {
        self.acknowledge_rest();
        self.quota.finish(&desk.driver.ending);
    }
}
