//! What follows on an answer: where it led, the next request, or the end of the connection.

use std::os::fd::AsRawFd as _;

use harness::slots::Id;
use nix::sys::socket::{MsgFlags, recv};

use super::Loop;
use super::connection::{Connection, State};
use crate::answer::Answer;
use crate::operation::{Operation, start_of};
use crate::outcome::{self, count};
use crate::turn::Answered;

impl Loop<'_> {
    /// An answer is whole, and so many bytes came after it.
    pub(super) fn answered(&mut self, id: Id, answer: Answer, now: u64, after: usize) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (first_byte, written) = (connection.first_byte, connection.written);
        self.newcomers -= u64::from(std::mem::take(&mut connection.newcomer));
        // The rest of a request would have to be sent before the next one is.
        let cut = connection.is_cut();
        let Some(mut operation) = connection.answered() else {
            return;
        };
        let answered = Answered {
            status: answer.status,
            place: connection.place,
            body: answer.body,
            sum: connection.sum.map(|sum| sum.0),
            written,
            first_byte,
            now,
        };
        let seen = connection.seen.as_deref();
        let has_ended = self
            .turn
            .answered(&self.worker.record, &mut operation, answered, seen);
        self.open -= u64::from(has_ended);
        // What came before it was asked for is no answer.
        let unasked = after > 0 && self.is_unasked(id);
        if unasked && answer.keep_alive {
            self.worker.record.count(count::EXCESS, after as u64);
        }
        let is_kept = answer.keep_alive && self.driver.settings.keep_alive && !unasked && !cut;
        match (has_ended, is_kept) {
            (true, true) => self.go_on(id, operation, now),
            (true, false) => self.end(id, outcome::EARLY_CLOSE),
            (false, true) => self.ask_this(id, operation),
            (false, false) => self.ask_elsewhere(id, operation, now),
        }
    }

    /// Counts what lies unread on a connection that nothing is expected of: a server that once sent too much has answered
    /// each request since with what was left of the one before.
    pub(super) fn count_left(&mut self, connection: &Connection) {
        let socket = connection.socket.as_raw_fd();
        if let Ok(left) = recv(socket, &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
            self.worker.record.count(count::EXCESS, left as u64);
        }
    }

    fn is_unasked(&mut self, id: Id) -> bool {
        let connection = self.connections.get_mut(id);
        connection.is_some_and(|connection| connection.first().is_none())
    }

    fn ask_this(&mut self, id: Id, operation: Operation) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.take(operation);
            self.ask(id);
        }
    }

    /// The connection ends with a redirect: where that leads is asked over another one to the same server.
    fn ask_elsewhere(&mut self, id: Id, operation: Operation, now: u64) {
        let Some(Connection { place, .. }) = self.connections.remove(id) else {
            return;
        };
        self.established -= 1;
        self.connect(Some(operation), place, now);
    }

    /// The next request over a connection that has answered one.
    fn go_on(&mut self, id: Id, operation: Operation, now: u64) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let next = match self.driver.closed[usize::from(operation.group)] {
            true => {
                let last = connection.last;
                let start = self
                    .worker
                    .pacer
                    .again(start_of(operation.group, last), now);
                start.map(|start| self.operation(start))
            }
            false => self.waiting.pop_front(),
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        match next {
            Some(operation) => self.ask_this(id, operation),
            None if connection.first().is_some() => {}
            // A user who leaves takes his connection with him.
            None if self.driver.closed[usize::from(operation.group)] => {
                let left = self.connections.remove(id);
                self.established -= 1;
                left.iter().for_each(|left| self.count_left(left));
            }
            None => {
                connection.state = State::Idle;
                self.idle.push_back(id);
            }
        }
    }
}
