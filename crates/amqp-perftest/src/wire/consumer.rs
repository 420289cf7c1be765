//! A consumer: handles its deliveries and acknowledges them.

use std::collections::VecDeque;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic};
use load::clock;
use load::slots::Id;

use super::Loop;
use super::polling::NextGet;
use crate::ending::Quota;
use crate::ledger::Arrival;
use crate::outcome::count;
use crate::pace::Pace;
use crate::settings::Settings;
use crate::topology;
use amqp_client::frame::encode;
use amqp_client::stamp::Stamp;

/// A consumer of this worker.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) number: u32,
    pub(super) channel: u16,
    /// Unacknowledged deliveries that could be acknowledged, and the tag of the last.
    unacknowledged: u16,
    last: u64,
    pub(super) link: Option<Id>,
    /// True while the broker may deliver more without being asked.
    pub(super) consumes: bool,
    /// Deliveries being processed one after the other, each with the time at which it is done.
    pub(super) busy: VecDeque<Busy>,
    /// First deliveries so far; redeliveries do not count.
    delivered: u64,
    pub(super) pace: Pace,
    pub(super) quota: Quota,
    /// With polling: the state of its requests.
    pub(super) next_get: Option<NextGet>,
}

/// A delivery that is acknowledged at `done`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    done: u64,
    delivery: Delivery,
}

/// A complete message that has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedMessage {
    pub(super) tag: u64,
    pub(super) redelivered: bool,
    /// The stamp, if the body is long enough.
    pub(super) stamp: Option<Stamp>,
    /// True if the body is as it was sent.
    pub(super) is_intact: bool,
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
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            number,
            channel: 0,
            link: None,
            consumes: false,
            busy: VecDeque::new(),
            unacknowledged: 0,
            last: 0,
            delivered: 0,
            pace: Pace::from_settings(settings),
            quota: Quota::from_settings(settings),
            next_get: None,
        }
    }

    /// Detaches the lost connection. Returns how many deliveries return to the queue, as far as is known: the broker
    /// may not have read an acknowledgement.
    pub(super) fn leave(&mut self) -> u64 {
        let given_back = self.busy.len() as u64 + u64::from(self.unacknowledged);
        self.acknowledged_all();
        self.link = None;
        self.consumes = false;
        given_back
    }

    fn acknowledged_all(&mut self) {
        self.busy.clear();
        self.unacknowledged = 0;
    }

    /// Returns the frame that acknowledges all arrived deliveries, processed or not: an arrived message must neither go
    /// to another consumer nor be taken for one that never arrived.
    fn rest(&self) -> Option<[u8; 21]> {
        let open = (self.unacknowledged > 0).then_some(self.last);
        let last = self.busy.back().map(|last| last.delivery.tag).or(open);
        last.map(|tag| ack(self.channel, tag, true))
    }
}

impl Loop<'_> {
    /// Attaches a consumer to a channel of a connection.
    pub(super) fn attach_consumer(&mut self, index: usize, id: Id, channel: u16) {
        let consumer = &mut self.consumers[index];
        consumer.channel = channel;
        consumer.link = Some(id);
        consumer.quota.forget();
        if consumer.quota.is_full() {
            return;
        }
        let settings = &self.driver.plan.driver;
        let frame = if settings.polling {
            self.first_get(index, channel, clock::now())
        } else {
            consumer.consumes = true;
            let consume = topology::consume(settings, u64::from(consumer.number));
            let consume = AMQPClass::Basic(basic::AMQPMethod::Consume(consume));
            encode(&AMQPFrame::Method(channel, consume))
        };
        if let Err(error) = self.write(id, &frame) {
            self.lose(id, &error.to_string());
        }
    }

    /// Cancels the consumers, once the deliveries under way have arrived.
    pub(super) fn cancel_consumers(&mut self) {
        for index in 0..self.consumers.len() {
            let consumer = &self.consumers[index];
            let Some(id) = consumer.link.filter(|_| consumer.consumes) else {
                continue;
            };
            let cancel = basic::AMQPMethod::Cancel(basic::Cancel {
                consumer_tag: topology::tag(u64::from(consumer.number)),
                nowait: false,
            });
            let frame = AMQPFrame::Method(consumer.channel, AMQPClass::Basic(cancel));
            if let Err(error) = self.write(id, &encode(&frame)) {
                self.lose(id, &error.to_string());
            }
        }
    }

    /// Acknowledges the arrived deliveries of a consumer.
    pub(super) fn acknowledge_rest(&mut self, index: usize) {
        let consumer = &self.consumers[index];
        if let (Some(id), Some(ack)) = (consumer.link, consumer.rest()) {
            match self.write(id, &ack) {
                Ok(()) => self.consumers[index].acknowledged_all(),
                Err(error) => self.lose(id, &error.to_string()),
            }
        }
    }

    /// Handles a complete message.
    pub(super) fn delivered(
        &mut self,
        index: usize,
        received: ReceivedMessage,
        now: u64,
        answer: &mut Vec<u8>,
    ) {
        let ReceivedMessage {
            tag,
            redelivered,
            stamp,
            is_intact,
        } = received;
        self.counts.delivered += 1;
        if self.closing_connections && !self.driver.plan.driver.auto_ack {
            // It can no longer be acknowledged: it returns to its queue, and has not arrived.
            return;
        }
        if self.watches && !self.is_wanted(index, tag, now, answer) {
            return;
        }
        let phases = &self.worker.phases;
        let mut counts = false;
        match stamp {
            Some(stamp) if !is_intact => {
                if !self.driver.is_damaged(&stamp, &self.worker.record) {
                    self.counts.foreign += 1;
                }
            }
            Some(stamp) if self.driver.is_ours(&stamp, phases, now) => {
                counts = self.driver.counts(stamp.stream);
                self.arrived(index, stamp, redelivered, now);
            }
            Some(_) if self.driver.is_of_warmup(phases, now) => self.counts.warmup += 1,
            _ => self.counts.foreign += 1,
        }
        let delivery = Delivery {
            tag,
            redelivered,
            counts,
        };
        if self.timed {
            return self.deal_with(index, delivery, now, answer);
        }
        if !self.driver.plan.driver.auto_ack {
            self.acknowledge(index, delivery, answer);
        }
    }

    /// Acknowledges a delivery once it is processed, and polls for the next.
    fn deal_with(&mut self, index: usize, delivery: Delivery, now: u64, answer: &mut Vec<u8>) {
        let auto_ack = self.driver.plan.driver.auto_ack;
        let consumer = &mut self.consumers[index];
        let done = consumer.pace.done(now);
        if !auto_ack && done <= now && consumer.busy.is_empty() {
            self.acknowledge(index, delivery, answer);
        } else if !auto_ack {
            consumer.busy.push_back(Busy { done, delivery });
        }
        self.answered(index, now, answer);
    }

    /// Acknowledges processed deliveries and lets due consumers poll. Returns when the next is due.
    pub(super) fn acknowledge_done(&mut self, now: u64) -> u64 {
        if !self.timed {
            return u64::MAX;
        }
        let mut next = u64::MAX;
        for index in 0..self.consumers.len() {
            let mut answer = Vec::new();
            while let Some(done) = self.consumers[index]
                .busy
                .pop_front_if(|busy| busy.done <= now)
            {
                self.acknowledge(index, done.delivery, &mut answer);
            }
            next = next.min(self.ask(index, now, &mut answer));
            let consumer = &self.consumers[index];
            next = next.min(consumer.busy.front().map_or(u64::MAX, |busy| busy.done));
            if let Some(id) = consumer.link.filter(|_| !answer.is_empty())
                && let Err(error) = self.write(id, &answer)
            {
                self.lose(id, &error.to_string());
            }
        }
        next
    }

    fn arrived(&mut self, index: usize, stamp: Stamp, redelivered: bool, now: u64) {
        self.arrivals.push(Arrival {
            stream: stamp.stream,
            consumer: self.consumers[index].number,
            sequence: stamp.sequence,
            latency: self.driver.latency(&stamp, now),
            redelivered,
        });
        if self.driver.counts(stamp.stream) {
            self.counts.consumed += 1;
            self.counts.redelivered += u64::from(redelivered);
        } else {
            self.counts.consumed_of_warmup += 1;
        }
    }

    fn acknowledge(&mut self, index: usize, delivery: Delivery, answer: &mut Vec<u8>) {
        let Delivery {
            tag,
            redelivered,
            counts,
        } = delivery;
        let settings = &self.driver.plan.driver;
        let consumer = &mut self.consumers[index];
        if !redelivered {
            let refuses = settings.refuses(consumer.delivered);
            consumer.delivered += 1;
            if refuses {
                answer.extend_from_slice(&nack(consumer.channel, tag, settings.requeue));
                self.driver.ledger.given_back(u64::from(settings.requeue));
                return self
                    .worker
                    .record
                    .count(count::GIVEN_BACK, u64::from(counts));
            }
        }
        consumer.unacknowledged += 1;
        consumer.last = tag;
        if consumer.unacknowledged >= settings.multi_ack_every {
            answer.extend_from_slice(&ack(consumer.channel, tag, consumer.unacknowledged > 1));
            consumer.unacknowledged = 0;
        }
    }
}

/// Encodes `basic.ack` (60, 80).
pub(super) fn ack(channel: u16, tag: u64, multiple: bool) -> [u8; 21] {
    acknowledgement(80, channel, tag, u8::from(multiple))
}

/// Encodes `basic.nack` (60, 120) of one delivery.
pub(super) fn nack(channel: u16, tag: u64, requeue: bool) -> [u8; 21] {
    acknowledgement(120, channel, tag, u8::from(requeue) << 1)
}

fn acknowledgement(method: u8, channel: u16, tag: u64, bits: u8) -> [u8; 21] {
    let mut frame = [0; 21];
    frame[0] = 1;
    frame[1..3].copy_from_slice(&channel.to_be_bytes());
    frame[6] = 13;
    frame[8] = 60;
    frame[10] = method;
    frame[11..19].copy_from_slice(&tag.to_be_bytes());
    frame[19] = bits;
    frame[20] = 0xCE;
    frame
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::basic::{AMQPMethod, Ack, Nack};

    use super::*;

    fn frame(method: AMQPMethod) -> Vec<u8> {
        encode(&AMQPFrame::Method(7, AMQPClass::Basic(method)))
    }

    #[test]
    fn acknowledgements_are_the_octets_of_the_specification() {
        let tag = 1 << 40 | 5;
        for multiple in [false, true] {
            let whole = frame(AMQPMethod::Ack(Ack {
                delivery_tag: tag,
                multiple,
            }));
            assert_eq!(ack(7, tag, multiple).as_slice(), whole);
        }
        for requeue in [false, true] {
            let whole = frame(AMQPMethod::Nack(Nack {
                delivery_tag: tag,
                multiple: false,
                requeue,
            }));
            assert_eq!(nack(7, tag, requeue).as_slice(), whole);
        }
    }
}
