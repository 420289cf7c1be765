//! Early ends of a run for lapin consumers: refusing surplus deliveries, querying the queue depth, acknowledging before
//! the end.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ::lapin::options::{BasicCancelOptions, BasicNackOptions, QueueDeclareOptions};
use ::lapin::types::{FieldTable, ShortString};
use ::lapin::{Channel, Queue};

use super::consumer::{Consumer, hand_over};
use super::link::End;
use super::{LOOK_NS, WorkerState};
use crate::outcome::count;
use crate::topology;

/// A pending query of a queue's depth.
pub(super) type DepthQuery = Pin<Box<dyn Future<Output = ::lapin::Result<Queue>>>>;

async fn passive(channel: Rc<Channel>, queue: ShortString) -> ::lapin::Result<Queue> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let arguments = FieldTable::default();
    channel.queue_declare(queue, options, arguments).await
}

impl WorkerState<'_> {
    /// Polls the early-exit condition (--cmessages, --exit-when).
    pub(super) fn check_for_end(&self, now: u64) {
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
                consumer.query_depth(self, now);
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
    /// Returns true if a delivery is within the consumer's number. A delivery beyond it is requeued, unless it has left
    /// its queue for good.
    pub(super) fn is_wanted(&mut self, state: &WorkerState<'_>, tag: u64, now: u64) -> bool {
        state.last_delivery.set(now);
        let auto_ack = state.driver.plan.driver.auto_ack;
        let takes = self.quota.takes(now, &state.driver.ending);
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
            state.record.count(count::GIVEN_BACK, 1);
        }
        takes || auto_ack
    }

    /// Queries the depth of its queue. It uses its own channel, so that deliveries sent before the answer arrive before
    /// it.
    fn query_depth(&mut self, state: &WorkerState<'_>, now: u64) {
        let settings = &state.driver.plan.driver;
        let Some(channel) = self.channel.clone().filter(|_| !settings.polling) else {
            return;
        };
        if self.quota.asks(now) {
            let queue = settings.queue_of(u64::from(self.number));
            self.depth_query = Some(Box::pin(passive(channel, queue.as_str().into())));
            self.wake();
        }
    }

    /// Takes the answer, once all earlier deliveries are taken.
    pub(super) fn poll_depth_query(
        &mut self,
        state: &WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        let Some(depth_query) = &mut self.depth_query else {
            return Ok(());
        };
        let Poll::Ready(queue) = depth_query.as_mut().poll(context) else {
            return Ok(());
        };
        self.depth_query = None;
        if self.quota.on_depth(queue?.message_count()) && self.busy.is_empty() {
            self.finish(state);
        }
        Ok(())
    }

    /// Marks the consumer as done, unless another message comes.
    pub(super) fn finish(&mut self, state: &WorkerState<'_>) {
        self.acknowledge_rest();
        self.quota.finish(&state.driver.ending);
    }
}
