//! Early ends of a run for wire consumers: refusing surplus deliveries, querying the queue depth, acknowledging before
//! the end.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, queue};

use super::consumer::nack;
use super::{LOOK_NS, Loop};
use crate::outcome::count;
use crate::topology;
use amqp_client::frame::{encode, whole_frame};

impl Loop<'_> {
    /// Returns true if a delivery is within the consumer's number. A delivery beyond it is requeued, unless it has left
    /// its queue for good.
    pub(super) fn is_wanted(
        &mut self,
        index: usize,
        tag: u64,
        now: u64,
        answer: &mut Vec<u8>,
    ) -> bool {
        self.last_delivery = now;
        let (driver, consumer) = (self.driver, &mut self.consumers[index]);
        let settings = &driver.plan.driver;
        if consumer.quota.takes(now, &driver.ending) {
            if consumer.quota.is_full() && !settings.polling {
                consumer.consumes = false;
                let cancel = AMQPClass::Basic(basic::AMQPMethod::Cancel(basic::Cancel {
                    consumer_tag: topology::tag(u64::from(consumer.number)),
                    nowait: true,
                }));
                answer.extend(encode(&AMQPFrame::Method(consumer.channel, cancel)));
            }
            return true;
        }
        if !settings.auto_ack {
            answer.extend_from_slice(&nack(consumer.channel, tag, true));
            self.worker.record.count(count::GIVEN_BACK, 1);
        }
        settings.auto_ack
    }

    /// Polls the early-exit condition (--cmessages, --exit-when).
    pub(super) fn check_for_end(&mut self, now: u64) {
        if !self.watches || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_NS;
        let ending = &self.driver.ending;
        for index in 0..self.consumers.len() {
            let consumer = &mut self.consumers[index];
            if !consumer.busy.is_empty() {
                self.last_delivery = now;
            } else if consumer.quota.is_full() {
                self.finish(index);
            } else if ending.asks() && consumer.next_get.is_none() && consumer.quota.asks(now) {
                self.query_depth(index);
            }
        }
        ending.heard(self.last_delivery);
        if !self.ends_early && now >= self.worker.phases.measure && ending.has_come(now) {
            (0..self.consumers.len()).for_each(|index| self.acknowledge_rest(index));
            self.ends_early = true;
            self.worker.pacer.stop_at(now);
            self.worker.phases.end = self.worker.phases.end.min(now);
        }
    }

    /// Queries the depth of a consumer's queue. It uses the consumer's own channel, so that deliveries sent before the
    /// answer arrive before it.
    fn query_depth(&mut self, index: usize) {
        let consumer = &self.consumers[index];
        let settings = &self.driver.plan.driver;
        let declare = topology::passive(settings, &settings.queue_of(u64::from(consumer.number)));
        let declare = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
        let frame = encode(&AMQPFrame::Method(consumer.channel, declare));
        self.write_for(index, &frame);
    }

    /// Handles the queue depth (`queue.declare-ok`).
    pub(super) fn on_queue_depth(&mut self, index: usize, frame: &[u8]) {
        let Ok(Some((_, AMQPFrame::Method(_, AMQPClass::Queue(method))))) = whole_frame(frame)
        else {
            return;
        };
        let consumer = &mut self.consumers[index];
        if let queue::AMQPMethod::DeclareOk(declared) = method
            && consumer.quota.on_depth(declared.message_count)
            && consumer.busy.is_empty()
        {
            self.finish(index);
        }
    }

    /// Marks a consumer as done, unless another message comes.
    pub(super) fn finish(&mut self, index: usize) {
        self.acknowledge_rest(index);
        self.consumers[index].quota.finish(&self.driver.ending);
    }

    fn write_for(&mut self, index: usize, frame: &[u8]) {
        if let Some(id) = self.consumers[index].link
            && let Err(error) = self.write(id, frame)
        {
            self.lose(id, &error.to_string());
        }
    }
}
