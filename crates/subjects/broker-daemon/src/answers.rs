//! Answers that wait until the change they confirm is on disk, and the output that follows them on their channels.

use std::collections::{HashMap, VecDeque};

use amq_protocol::protocol::AMQPClass;

use crate::output::Output;

/// The answers of a connection that wait for the log, by channel. If a channel is closed meanwhile, its close-ok waits
/// behind them, and so does a new channel with the same number.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    channels: HashMap<u16, VecDeque<WaitingAnswer>>,
}

#[derive(Debug)]
pub(crate) struct WaitingAnswer {
    /// The log ticket that it waits for.
    ticket: u64,
    /// Class and method of the request.
    pub(crate) request: (u16, u16),
    pub(crate) method: AMQPClass,
    /// Output of the channel after the answer.
    pub(crate) behind: Output,
    /// Set if the channel that sent the request is closed.
    pub(crate) is_orphan: bool,
}

impl Answers {
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Returns the bytes of output that follow answers.
    pub(crate) fn pending(&self) -> usize {
        let all = self.channels.values().flatten();
        all.map(|answer| answer.behind.pending()).sum()
    }

    /// Returns the memory of this output in bytes, without the messages.
    pub(crate) fn own_bytes(&self) -> usize {
        let all = self.channels.values().flatten();
        all.map(|answer| answer.behind.own_bytes()).sum()
    }

    /// Returns true if answers of this channel are waiting.
    pub(crate) fn is_waiting(&self, channel: u16) -> bool {
        self.channels.contains_key(&channel)
    }

    pub(crate) fn push(&mut self, channel: u16, ticket: u64, method: AMQPClass) {
        let answer = WaitingAnswer {
            ticket,
            request: request_of(&method),
            method,
            behind: Output::default(),
            is_orphan: false,
        };
        self.channels.entry(channel).or_default().push_back(answer);
    }

    /// Returns the output for a channel with waiting answers.
    pub(crate) fn behind(&mut self, channel: u16) -> Option<&mut Output> {
        let last = self.channels.get_mut(&channel)?.back_mut()?;
        Some(&mut last.behind)
    }

    /// Takes the first answer of a channel if its ticket is reached.
    pub(crate) fn take_due(&mut self, channel: u16, synced: u64) -> Option<WaitingAnswer> {
        let waiting = self.channels.get_mut(&channel)?;
        let due = waiting.pop_front_if(|first| first.ticket <= synced)?;
        if waiting.is_empty() {
            self.channels.remove(&channel);
        }
        Some(due)
    }

    /// Drops all answers of a channel with the output that follows them.
    pub(crate) fn forget(&mut self, channel: u16) {
        self.channels.remove(&channel);
    }

    /// Marks the answers of a closed channel: a disk failure then does not close the new channel with the same number.
    pub(crate) fn orphan(&mut self, channel: u16) {
        for answer in self.channels.get_mut(&channel).into_iter().flatten() {
            answer.is_orphan = true;
        }
    }
}

/// Returns class and method of the request that belongs to an answer.
fn request_of(answer: &AMQPClass) -> (u16, u16) {
    match (answer.get_amqp_class_id(), answer.get_amqp_method_id()) {
        // exchange.unbind is 40, and its answer 51 (RabbitMQ's extension).
        (40, 51) => (40, 40),
        (class, method) => (class, method - method % 10),
    }
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::{exchange, queue, tx};

    use super::*;

    #[test]
    fn an_answer_names_its_request() {
        for (answer, request) in [
            (
                AMQPClass::Queue(queue::AMQPMethod::DeclareOk(queue::DeclareOk::default())),
                (50, 10),
            ),
            (
                AMQPClass::Queue(queue::AMQPMethod::UnbindOk(queue::UnbindOk {})),
                (50, 50),
            ),
            (
                AMQPClass::Exchange(exchange::AMQPMethod::UnbindOk(exchange::UnbindOk {})),
                (40, 40),
            ),
            (
                AMQPClass::Tx(tx::AMQPMethod::CommitOk(tx::CommitOk {})),
                (90, 20),
            ),
        ] {
            assert_eq!(request_of(&answer), request);
        }
    }
}
