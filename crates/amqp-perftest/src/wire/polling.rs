//! Consumers that ask for each message: `basic.get`, one question at a time, the next with the acknowledgement of the
//! last.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic};

use super::Loop;
use crate::session::encode;
use crate::topology;

// Class and method, behind type, channel and size of a frame.
const DECLARE_OK: [u8; 4] = [0, 50, 0, 11];
const GET_EMPTY: [u8; 4] = [0, 60, 0, 72];

/// What a consumer asks with, and when it does so next: never while it waits for an answer.
#[derive(Debug)]
pub(super) struct Question {
    frame: Vec<u8>,
    pub(super) due: u64,
}

impl Loop<'_> {
    /// The first question of a consumer on a channel.
    pub(super) fn first_question(&mut self, place: usize, channel: u16, now: u64) -> Vec<u8> {
        let consumer = &mut self.consumers[place];
        let get = topology::get(&self.driver.plan.driver, u64::from(consumer.number));
        let get = AMQPClass::Basic(basic::AMQPMethod::Get(get));
        let frame = encode(&AMQPFrame::Method(channel, get));
        consumer.question = Some(Question {
            frame: frame.clone(),
            due: u64::MAX,
        });
        consumer.pace.asks(now);
        frame
    }

    /// Takes what is none of the few methods that come with every message, if it is meant for a consumer.
    pub(super) fn consumer_method(
        &mut self,
        place: usize,
        frame: &[u8],
        now: u64,
        answer: &mut Vec<u8>,
    ) -> bool {
        match frame.get(7..11) {
            Some(method) if method == GET_EMPTY => {}
            Some(method) if method == DECLARE_OK => {
                self.told_number(place, frame);
                return true;
            }
            _ => return false,
        }
        if self.driver.ending.asks() && self.consumers[place].busy.is_empty() {
            self.finish(place);
        }
        self.counts.empty += u64::from(self.worker.phases.is_measuring(now));
        self.answered(place, now, answer);
        true
    }

    /// A question was answered: the next is asked at once, or as soon as it may be.
    pub(super) fn answered(&mut self, place: usize, now: u64, answer: &mut Vec<u8>) {
        let consumer = &mut self.consumers[place];
        if let Some(question) = &mut consumer.question
            && !consumer.quota.is_full()
        {
            question.due = consumer.pace.asks_again();
            self.ask(place, now, answer);
        }
    }

    /// Asks, if it is time; returns when it will be.
    pub(super) fn ask(&mut self, place: usize, now: u64, answer: &mut Vec<u8>) -> u64 {
        let closing = self.closing;
        let consumer = &mut self.consumers[place];
        let Some(question) = &mut consumer.question else {
            return u64::MAX;
        };
        if question.due <= now && !closing {
            question.due = u64::MAX;
            answer.extend_from_slice(&question.frame);
            consumer.pace.asks(now);
        }
        question.due
    }
}
