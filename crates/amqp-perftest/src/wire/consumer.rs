//! A consumer: what it is given, and what it answers.

use std::collections::VecDeque;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic};
use harness::clock;
use harness::slots::Id;

use super::Loop;
use super::polling::Question;
use crate::ending::Quota;
use crate::ledger::Arrival;
use crate::outcome::count;
use crate::pace::Pace;
use crate::series::END_TO_END;
use crate::session::encode;
use crate::settings::Settings;
use crate::stamp::{self, Stamp};
use crate::topology;

/// A consumer of this worker.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) number: u32,
    pub(super) channel: u16,
    /// Deliveries that are not acknowledged yet, though they could be.
    pub(super) unacknowledged: u16,
    /// The last of them.
    pub(super) last_tag: u64,
    pub(super) link: Option<Id>,
    /// Deliveries that are being dealt with, one after the other, and when each is done.
    pub(super) busy: VecDeque<Busy>,
    /// Deliveries so far that had not been delivered before.
    delivered: u64,
    pub(super) pace: Pace,
    pub(super) quota: Quota,
    /// With polling: what it asks with.
    pub(super) question: Option<Question>,
}

/// A delivery that is acknowledged when it is `done`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    done: u64,
    tag: u64,
    redelivered: bool,
}

impl Consumer {
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            number,
            channel: 0,
            link: None,
            busy: VecDeque::new(),
            unacknowledged: 0,
            delivered: 0,
            pace: Pace::of(settings),
            quota: Quota::of(settings),
            last_tag: 0,
            question: None,
        }
    }
}

impl Loop<'_> {
    /// Lets a consumer consume on a channel of a connection.
    pub(super) fn join_consumer(&mut self, place: usize, id: Id, channel: u16) {
        let consumer = &mut self.consumers[place];
        consumer.channel = channel;
        consumer.link = Some(id);
        consumer.busy.clear();
        consumer.unacknowledged = 0;
        consumer.quota.forget();
        if consumer.quota.is_full() {
            return;
        }
        let settings = &self.driver.plan.driver;
        let frame = if settings.polling {
            self.first_question(place, channel, clock::now())
        } else {
            let consume = topology::consume(settings, u64::from(consumer.number));
            let consume = AMQPClass::Basic(basic::AMQPMethod::Consume(consume));
            encode(&AMQPFrame::Method(channel, consume))
        };
        if let Err(error) = self.write(id, &frame) {
            self.lose(id, &error.to_string());
        }
    }

    /// A message has come, whole.
    pub(super) fn delivered(
        &mut self,
        place: usize,
        tag: u64,
        redelivered: bool,
        stamp: Option<Stamp>,
        now: u64,
        answer: &mut Vec<u8>,
    ) {
        if self.watches && !self.is_wanted(place, tag, now, answer) {
            return;
        }
        match stamp {
            Some(stamp) if self.driver.is_ours(&stamp, &self.worker.phases, now) => {
                self.arrived(place, stamp, redelivered, now);
            }
            Some(_) if self.driver.layout.producers == 0 => self.counts.warmup += 1,
            _ => self.counts.foreign += 1,
        }
        let settings = &self.driver.plan.driver;
        if self.timed {
            return self.deal_with(place, tag, redelivered, now, answer);
        }
        if !settings.auto_ack {
            self.acknowledge(place, tag, redelivered, answer);
        }
    }

    /// Acknowledges a delivery when it is dealt with, and asks for the next.
    fn deal_with(
        &mut self,
        place: usize,
        tag: u64,
        redelivered: bool,
        now: u64,
        answer: &mut Vec<u8>,
    ) {
        let auto_ack = self.driver.plan.driver.auto_ack;
        let consumer = &mut self.consumers[place];
        let done = consumer.pace.done(now);
        if !auto_ack && done <= now && consumer.busy.is_empty() {
            self.acknowledge(place, tag, redelivered, answer);
        } else if !auto_ack {
            consumer.busy.push_back(Busy {
                done,
                tag,
                redelivered,
            });
        }
        self.answered(place, now, answer);
    }

    /// Acknowledges what consumers have dealt with, and asks what is due; returns when the next will be.
    pub(super) fn acknowledge_done(&mut self, now: u64) -> u64 {
        if !self.timed {
            return u64::MAX;
        }
        let mut next = u64::MAX;
        for place in 0..self.consumers.len() {
            let mut answer = Vec::new();
            while let Some(done) = self.consumers[place]
                .busy
                .pop_front_if(|busy| busy.done <= now)
            {
                self.acknowledge(place, done.tag, done.redelivered, &mut answer);
            }
            next = next.min(self.ask(place, now, &mut answer));
            let consumer = &self.consumers[place];
            next = next.min(consumer.busy.front().map_or(u64::MAX, |busy| busy.done));
            if let Some(id) = consumer.link.filter(|_| !answer.is_empty())
                && let Err(error) = self.write(id, &answer)
            {
                self.lose(id, &error.to_string());
            }
        }
        next
    }

    fn arrived(&mut self, place: usize, stamp: Stamp, redelivered: bool, now: u64) {
        self.arrivals.push(Arrival {
            stream: stamp.stream,
            consumer: self.consumers[place].number,
            sequence: stamp.sequence,
            redelivered,
        });
        if stamp::counts(stamp.stream) {
            self.counts.consumed += 1;
            self.counts.redelivered += u64::from(redelivered);
            if redelivered {
                return;
            }
            match self.driver.latency(&stamp, now) {
                Some(latency) => self.worker.record.value(END_TO_END, latency),
                None => self.counts.negative += 1,
            }
        }
    }

    fn acknowledge(&mut self, place: usize, tag: u64, redelivered: bool, answer: &mut Vec<u8>) {
        let settings = &self.driver.plan.driver;
        let consumer = &mut self.consumers[place];
        if !redelivered {
            let refuses = settings.refuses(consumer.delivered);
            consumer.delivered += 1;
            if refuses {
                answer.extend_from_slice(&nack(consumer.channel, tag, settings.requeue));
                return self.worker.record.count(count::GIVEN_BACK, 1);
            }
        }
        consumer.unacknowledged += 1;
        consumer.last_tag = tag;
        if consumer.unacknowledged >= settings.multi_ack_every {
            answer.extend_from_slice(&ack(consumer.channel, tag, consumer.unacknowledged > 1));
            consumer.unacknowledged = 0;
        }
    }
}

/// `basic.ack` (60, 80).
pub(super) fn ack(channel: u16, tag: u64, multiple: bool) -> [u8; 21] {
    acknowledgement(80, channel, tag, u8::from(multiple))
}

/// `basic.nack` (60, 120) of one delivery.
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
