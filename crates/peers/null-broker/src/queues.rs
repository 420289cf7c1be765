//! The queues of the null broker.

use std::collections::{HashMap, VecDeque};

/// A message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) header: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) redelivered: bool,
    /// The time at which it may be delivered, nanoseconds of CLOCK_MONOTONIC.
    pub(super) due: u64,
    /// The time at which it was read, if its delivery is recorded.
    pub(super) read_at: Option<u64>,
}

/// A queue with the properties of its declaration.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) durable: bool,
    pub(super) messages: VecDeque<Message>,
}

/// All queues, and the bindings of the exchanges: by exchange and routing key.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) by_name: HashMap<String, Queue>,
    pub(super) bindings: HashMap<(String, String), String>,
    /// Number of names given to queues that were declared without one.
    names: u64,
}

impl Queues {
    /// Returns a name for a queue that is declared without one.
    pub(super) fn new_name(&mut self) -> String {
        self.names += 1;
        format!("amq.gen-{}", self.names)
    }

    /// Returns the queue that a message is routed to.
    pub(super) fn route(&mut self, exchange: &str, routing_key: &str) -> Option<&mut Queue> {
        if exchange.is_empty() {
            return self.by_name.get_mut(routing_key);
        }
        let key = (exchange.to_owned(), routing_key.to_owned());
        self.by_name.get_mut(self.bindings.get(&key)?)
    }

    /// Returns when the next held message may be delivered.
    pub(super) fn due(&self) -> u64 {
        let fronts = self
            .by_name
            .values()
            .filter_map(|queue| queue.messages.front());
        fronts
            .map(|front| front.due)
            .filter(|due| *due > 0)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Returns messages to their original positions.
    pub(super) fn requeue(&mut self, messages: VecDeque<(u64, String, Message)>) {
        for (_, queue, message) in messages.into_iter().rev() {
            if let Some(queue) = self.by_name.get_mut(&queue) {
                queue.messages.push_front(Message {
                    redelivered: true,
                    ..message
                });
            }
        }
    }
}
