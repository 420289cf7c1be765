//! Consumers that poll with `basic.get`, one request at a time; the next goes with the acknowledgement of the last.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic};

use super::Loop;
use crate::topology;
use amqp_client::frame::encode;

// Class and method, after type, channel and size of a frame.
const DECLARE_OK: [u8; 4] = [0, 50, 0, 11];
const GET_EMPTY: [u8; 4] = [0, 60, 0, 72];

/// The `basic.get` of a consumer and when it is due next: never while one is pending.
#[derive(Debug)]
pub(super) struct NextGet {
    frame: Vec<u8>,
    pub(super) due: u64,
}

impl Loop<'_> {
    /// Returns the first request of a consumer on a channel.
    pub(super) fn first_get(&mut self, index: usize, channel: u16, now: u64) -> Vec<u8> {
        let consumer = &mut self.consumers[index];
        let get = topology::get(&self.driver.plan.driver, u64::from(consumer.number));
        let get = AMQPClass::Basic(basic::AMQPMethod::Get(get));
        let frame = encode(&AMQPFrame::Method(channel, get));
        consumer.next_get = Some(NextGet {
            frame: frame.clone(),
            due: u64::MAX,
        });
        consumer.pace.asks(now);
        frame
    }

    /// Handles basic.get-empty and queue.declare-ok for consumers; returns true if it did.
    pub(super) fn consumer_method(
        &mut self,
        index: usize,
        frame: &[u8],
        now: u64,
        answer: &mut Vec<u8>,
    ) -> bool {
        match frame.get(7..11) {
            Some(method) if method == GET_EMPTY => {}
            Some(method) if method == DECLARE_OK => {
                self.on_queue_depth(index, frame);
                return true;
            }
            _ => return false,
        }
        if self.driver.ending.asks() && self.consumers[index].busy.is_empty() {
            self.finish(index);
        }
        self.counts.empty += u64::from(self.worker.phases.is_measuring(now));
        self.answered(index, now, answer);
        true
    }

    /// Handles the answer to a `basic.get`: the next one is sent at once, or as soon as it is due.
    pub(super) fn answered(&mut self, index: usize, now: u64, answer: &mut Vec<u8>) {
        let consumer = &mut self.consumers[index];
        if let Some(next_get) = &mut consumer.next_get
            && !consumer.quota.is_full()
        {
            next_get.due = consumer.pace.asks_again();
            self.ask(index, now, answer);
        }
    }

    /// Sends a `basic.get` if it is due. Returns when the next is due.
    pub(super) fn ask(&mut self, index: usize, now: u64, answer: &mut Vec<u8>) -> u64 {
        let closing = self.closing;
        let consumer = &mut self.consumers[index];
        let Some(next_get) = &mut consumer.next_get else {
            return u64::MAX;
        };
        if next_get.due <= now && !closing {
            next_get.due = u64::MAX;
            answer.extend_from_slice(&next_get.frame);
            consumer.pace.asks(now);
        }
        next_get.due
    }
}
