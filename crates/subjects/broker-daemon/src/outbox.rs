//! What a connection has to write: its output, and answers that wait for the log with the output behind them.

use std::io::{self, IoSlice};
use std::mem;

use amq_protocol::protocol::AMQPClass;

use crate::answers::Answers;
use crate::output::Output;

/// Bytes of pending output above which a client gets no more deliveries.
const FULL: usize = 512 * 1024;
/// Bytes of pending output above which its requests wait too, because their answers need room.
const CHOKED: usize = 2 * FULL;

/// The pending output of a connection, and what its socket made of the output before.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    output: Output,
    answers: Answers,
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

    /// Returns the bytes of pending output, including the part that waits for the log.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        let behind = if self.answers.is_empty() {
            0
        } else {
            self.answers.pending()
        };
        self.output.pending() + behind
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
        let stuck = if self.is_stuck {
            self.output.own_bytes()
        } else {
            0
        };
        stuck + self.answers.own_bytes()
    }

    /// Returns the output of a channel: behind its waiting answers, if there are any.
    #[inline]
    pub(crate) fn of_channel(&mut self, channel: u16) -> &mut Output {
        if self.answers.is_empty() {
            &mut self.output
        } else {
            self.answers.behind(channel).unwrap_or(&mut self.output)
        }
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
        (count, written.is_ok())
    }

    /// Takes an empty buffer away that may be reused.
    pub(crate) fn spare(&mut self) -> Option<Vec<u8>> {
        self.output.spare()
    }

    /// Adds an answer that waits for a ticket of the log. Returns true if it is the first one of its channel.
    pub(crate) fn answer(&mut self, channel: u16, ticket: u64, answer: AMQPClass) -> bool {
        let is_first = !self.answers.is_waiting(channel);
        self.answers.push(channel, ticket, answer);
        is_first
    }

    /// Sends the answers of a channel whose tickets are reached. Returns true if others still wait.
    pub(crate) fn send_answers(&mut self, channel: u16, synced: u64) -> bool {
        while let Some(answer) = self.answers.take_due(channel, synced) {
            self.output.method(channel, answer.method);
            self.output.append(answer.behind);
        }
        self.answers.is_waiting(channel)
    }

    /// Drops the answers of an open channel that will never be sent, but not the output for earlier channels of this
    /// number. Returns class and method of the first refused request.
    pub(crate) fn refuse_answers(&mut self, channel: u16) -> Option<(u16, u16)> {
        while let Some(answer) = self.answers.take_due(channel, u64::MAX) {
            if !answer.is_orphan {
                self.answers.forget(channel);
                return Some(answer.request);
            }
            self.output.append(answer.behind);
        }
        None
    }

    /// Tells the waiting answers of a channel that it is closed.
    pub(crate) fn orphan_answers(&mut self, channel: u16) {
        self.answers.orphan(channel);
    }

    /// Drops all waiting answers with the output behind them.
    pub(crate) fn drop_answers(&mut self) {
        self.answers = Answers::default();
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
