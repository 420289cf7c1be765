//! The end of a run before its time: what consumers give back, ask, and acknowledge before it.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, queue};

use super::consumer::nack;
use super::{LOOK_NS, Loop};
use crate::outcome::count;
use crate::session::{encode, whole_frame};
use crate::topology;

impl Loop<'_> {
    /// Whether a delivery is one of those that its consumer was to have; one beyond them goes back, unless it has left its
    /// queue for good.
    pub(super) fn is_wanted(
        &mut self,
        place: usize,
        tag: u64,
        now: u64,
        answer: &mut Vec<u8>,
    ) -> bool {
        self.last_delivery = now;
        let (driver, consumer) = (self.driver, &mut self.consumers[place]);
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

    /// Now and then, where the run may end early: whether consumers have had what they were to have, and whether that is
    /// the end.
    pub(super) fn look_for_end(&mut self, now: u64) {
        if !self.watches || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_NS;
        let ending = &self.driver.ending;
        for place in 0..self.consumers.len() {
            let consumer = &mut self.consumers[place];
            if !consumer.busy.is_empty() {
                self.last_delivery = now;
            } else if consumer.quota.is_full() {
                self.finish(place);
            } else if ending.asks() && consumer.question.is_none() && consumer.quota.asks(now) {
                self.ask_for_number(place);
            }
        }
        ending.heard(self.last_delivery);
        if !self.ends_early && now >= self.worker.phases.measure && ending.has_come(now) {
            (0..self.consumers.len()).for_each(|place| self.acknowledge_rest(place));
            self.ends_early = true;
            self.worker.pacer.stop_at(now);
            self.worker.phases.end = self.worker.phases.end.min(now);
        }
    }

    /// Asks how many messages lie in a consumer's queue: on its own channel, so that what was delivered before the answer
    /// has come before it.
    fn ask_for_number(&mut self, place: usize) {
        let consumer = &self.consumers[place];
        let settings = &self.driver.plan.driver;
        let declare = topology::passive(settings, &settings.queue_of(u64::from(consumer.number)));
        let declare = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
        let frame = encode(&AMQPFrame::Method(consumer.channel, declare));
        self.write_for(place, &frame);
    }

    /// So many lie there (`queue.declare-ok`).
    pub(super) fn told_number(&mut self, place: usize, frame: &[u8]) {
        let Ok(Some((_, AMQPFrame::Method(_, AMQPClass::Queue(method))))) = whole_frame(frame)
        else {
            return;
        };
        let consumer = &mut self.consumers[place];
        if let queue::AMQPMethod::DeclareOk(declared) = method
            && consumer.quota.is_told(declared.message_count)
            && consumer.busy.is_empty()
        {
            self.finish(place);
        }
    }

    /// A consumer waits for nothing more, unless something comes.
    pub(super) fn finish(&mut self, place: usize) {
        self.acknowledge_rest(place);
        self.consumers[place].quota.finish(&self.driver.ending);
    }

    fn write_for(&mut self, place: usize, frame: &[u8]) {
        if let Some(id) = self.consumers[place].link
            && let Err(error) = self.write(id, frame)
        {
            self.lose(id, &error.to_string());
        }
    }
}
