//! What a connection has to write: its output, and answers that wait until the change they confirm is on disk, with the
//! output that follows them on their channels.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem;

use amq_protocol::protocol::AMQPClass;

use crate::output::Output;

/// Bytes of pending output above which a client gets no more deliveries.
const FULL: usize = 512 * 1024;
/// Bytes of pending output above which its requests wait too, because their answers need room.
const CHOKED: usize = 2 * FULL;
/// Spare buffers that are kept.
const SPARES: usize = 64;

/// An answer that waits for the log.
#[derive(Debug)]
struct WaitingAnswer {
    ticket: u64,
    /// Class and method of the request.
    request: (u16, u16),
    method: AMQPClass,
    /// Output of the channel after the answer.
    behind: Output,
    /// Set if the channel that sent the request is closed.
    is_orphan: bool,
}

/// The pending output of a connection, and what its socket made of the output before.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    output: Output,
    /// Waiting answers by channel. If a channel is closed meanwhile, its close-ok waits behind them, and so does a new
    /// channel with the same number.
    answers: HashMap<u16, VecDeque<WaitingAnswer>>,
    /// Set if the client asked to close; it is answered after these.
    is_leaving: bool,
    /// True if it is listed as one with pending output.
    is_listed: bool,
    /// True if the socket accepted no more.
    is_stuck: bool,
    /// True if consumers were skipped because it was full.
    was_passed_over: bool,
    /// The time of the last write, in milliseconds of the broker's clock.
    written: u64,
}

impl Outbox {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            written: now,
            ..Self::default()
        }
    }

    /// Returns the outputs that wait for the log. There are hardly ever any.
    fn behind(&self) -> impl Iterator<Item = &Output> {
        self.answers.values().flatten().map(|answer| &answer.behind)
    }

    /// Returns the bytes of pending output, including the part that waits for the log.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        let own = self.output.pending();
        if self.answers.is_empty() {
            return own;
        }
        own + self.behind().map(Output::pending).sum::<usize>()
    }

    /// Returns true if the client's requests must wait until it reads its answers.
    #[inline]
    pub(crate) fn is_choked(&self) -> bool {
        self.pending() > CHOKED
    }

    /// Returns true if it takes a delivery. Otherwise consumers are skipped until [`Outbox::take_passed_over`].
    #[inline]
    pub(crate) fn takes_delivery(&mut self) -> bool {
        let is_full = self.pending() >= FULL;
        self.was_passed_over |= is_full;
        !is_full
    }

    /// Returns true once after consumers were skipped, as soon as half of the output is written.
    pub(crate) fn take_passed_over(&mut self) -> bool {
        self.was_passed_over && self.pending() <= FULL / 2 && mem::take(&mut self.was_passed_over)
    }

    /// Returns the memory in bytes, without the messages, of output that does not leave at once.
    pub(crate) fn own_bytes(&self) -> usize {
        let stuck = self.is_stuck.then_some(&self.output);
        let all = self.behind().chain(stuck);
        all.map(Output::own_bytes).sum()
    }

    /// Returns the output of a channel: behind its waiting answers, if there are any.
    #[inline]
    pub(crate) fn of_channel(&mut self, channel: u16) -> &mut Output {
        // Most have none, and a look into the map would cost each delivery more than all else here.
        if self.answers.is_empty() {
            return &mut self.output;
        }
        let last = self.answers.get_mut(&channel).and_then(VecDeque::back_mut);
        last.map_or(&mut self.output, |last| &mut last.behind)
    }

    /// Lists it as one with pending output. Returns false if it is listed already.
    #[inline]
    pub(crate) fn list(&mut self) -> bool {
        !mem::replace(&mut self.is_listed, true)
    }

    /// Takes it off that list. Returns false if it cannot be written before the socket is writable again.
    pub(crate) fn unlist(&mut self, is_writable: bool) -> bool {
        self.is_listed = false;
        is_writable || !self.is_stuck
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Returns how many milliseconds ago something was written.
    pub(crate) fn silence(&self, now: u64) -> u64 {
        now.saturating_sub(self.written)
    }

    /// Adds a heartbeat, unless something was written after this many milliseconds ago or is about to be.
    pub(crate) fn beat(&mut self, now: u64, after: u64) -> bool {
        let is_due = self.output.pending() == 0 && self.silence(now) >= after;
        if is_due {
            self.written = now;
            self.output.heartbeat();
        }
        is_due
    }

    /// Writes the output with `write`, until that would block. Returns the number of bytes, and false if the socket is
    /// broken.
    pub(crate) fn write(
        &mut self,
        now: u64,
        spares: &mut Vec<Vec<u8>>,
        write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> (usize, bool) {
        let before = self.output.pending();
        let written = self.output.write_to(write);
        let count = before - self.output.pending();
        if count > 0 {
            self.written = now;
        }
        self.is_stuck = matches!(written, Ok(false));
        if written.is_err() {
            self.output = Output::default();
        }
        if let Some(buffer) = self.output.spare()
            && spares.len() < SPARES
        {
            spares.push(buffer);
        }
        (count, written.is_ok())
    }

    /// Adds an answer that waits for a ticket of the log. Returns true if it is the first one of its channel.
    pub(crate) fn answer(&mut self, channel: u16, ticket: u64, method: AMQPClass) -> bool {
        let waiting = self.answers.entry(channel).or_default();
        waiting.push_back(WaitingAnswer {
            ticket,
            request: request_of(&method),
            method,
            behind: Output::default(),
            is_orphan: false,
        });
        waiting.len() == 1
    }

    /// Takes the first answer of a channel if its ticket is reached.
    fn take_due(&mut self, channel: u16, synced: u64) -> Option<WaitingAnswer> {
        let waiting = self.answers.get_mut(&channel)?;
        let due = waiting.pop_front_if(|first| first.ticket <= synced)?;
        if waiting.is_empty() {
            self.answers.remove(&channel);
        }
        Some(due)
    }

    /// Sends the answers of a channel whose tickets are reached. Returns true if others still wait.
    pub(crate) fn send_answers(&mut self, channel: u16, synced: u64) -> bool {
        while let Some(answer) = self.take_due(channel, synced) {
            self.output.method(channel, answer.method);
            self.output.append(answer.behind);
        }
        self.answers.contains_key(&channel)
    }

    /// Drops the answers of an open channel that will never be sent, but not the output for earlier channels of this
    /// number. Returns class and method of the first refused request.
    pub(crate) fn refuse_answers(&mut self, channel: u16) -> Option<(u16, u16)> {
        while let Some(answer) = self.take_due(channel, u64::MAX) {
            if !answer.is_orphan {
                self.answers.remove(&channel);
                return Some(answer.request);
            }
            self.output.append(answer.behind);
        }
        None
    }

    /// Marks the answers of a closed channel: a disk failure then does not close the new channel with the same number.
    pub(crate) fn orphan_answers(&mut self, channel: u16) {
        for answer in self.answers.get_mut(&channel).into_iter().flatten() {
            answer.is_orphan = true;
        }
    }

    /// Drops all waiting answers with the output behind them.
    pub(crate) fn drop_answers(&mut self) {
        self.answers.clear();
    }

    /// Drops all output.
    pub(crate) fn clear(&mut self) {
        self.output = Output::default();
        self.drop_answers();
    }

    /// Returns true if connection.close must be answered later, because answers of channels come first.
    pub(crate) fn must_leave_later(&mut self) -> bool {
        self.is_leaving = !self.answers.is_empty();
        self.is_leaving
    }

    /// Returns true if connection.close waited for answers and can be answered now.
    pub(crate) fn may_leave(&self) -> bool {
        self.is_leaving && self.answers.is_empty()
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
