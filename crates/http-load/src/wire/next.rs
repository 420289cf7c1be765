//! The steps after a response: the redirect, the next request, or the end of the connection.

use std::os::fd::AsRawFd as _;

use load::slots::Id;
use nix::sys::socket::{MsgFlags, recv};

use super::EventLoop;
use super::connection::{Connection, State};
use crate::answer::Answer;
use crate::operation::{Operation, start_of};
use crate::outcome::{self, count};
use crate::turn::CompletedResponse;

impl EventLoop<'_> {
    /// Handles a complete response; `after` is the number of bytes that came after it.
    pub(super) fn answered(&mut self, id: Id, answer: Answer, now: u64, after: usize) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (first_byte, written) = (connection.first_byte, connection.written);
        if std::mem::take(&mut connection.awaiting_first_response) {
            self.ramp.end();
        }
        // The request was not sent completely, so the connection cannot carry another one.
        let cut = connection.is_partly_sent();
        let Some(mut operation) = connection.answered() else {
            return;
        };
        let answered = CompletedResponse {
            status: answer.status,
            index: connection.index,
            body: answer.body,
            sum: connection.sum.map(|sum| sum.0),
            written,
            first_byte,
            now,
        };
        let captured = connection.captured.as_deref();
        let has_ended =
            self.counters
                .answered(&self.worker.record, &mut operation, answered, captured);
        self.open -= u64::from(has_ended);
        // Bytes received before the request was sent are not a response.
        let unsolicited = after > 0 && self.is_unsolicited(id);
        if unsolicited && answer.keep_alive {
            self.worker.record.count(count::EXCESS, after as u64);
        }
        let is_kept = answer.keep_alive && self.driver.settings.keep_alive && !unsolicited && !cut;
        match (has_ended, is_kept) {
            (true, true) => self.start_next(id, operation, now),
            (true, false) => self.end(id, outcome::EARLY_CLOSE),
            (false, true) => self.send_on(id, operation),
            (false, false) => self.send_on_new(id, operation, now),
        }
    }

    /// Counts unread bytes on an idle connection. A server that once sent too much has answered each later request with
    /// the rest of the response before.
    pub(super) fn count_unread(&mut self, connection: &Connection) {
        let socket = connection.socket.as_raw_fd();
        if let Ok(left) = recv(socket, &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
            self.worker.record.count(count::EXCESS, left as u64);
        }
    }

    fn is_unsolicited(&mut self, id: Id) -> bool {
        let connection = self.connections.get_mut(id);
        connection.is_some_and(|connection| connection.first().is_none())
    }

    fn send_on(&mut self, id: Id, operation: Operation) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.take(operation);
            self.queue_send(id);
        }
    }

    /// Follows a redirect over another connection to the same server, since this one ends.
    fn send_on_new(&mut self, id: Id, operation: Operation, now: u64) {
        let Some(Connection { index, .. }) = self.connections.remove(id) else {
            return;
        };
        self.established -= 1;
        self.connect(Some(operation), index, now);
    }

    /// Starts the next request on a connection that has responded.
    fn start_next(&mut self, id: Id, operation: Operation, now: u64) {
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
            Some(operation) => self.send_on(id, operation),
            None if connection.first().is_some() => {}
            // A client that leaves closes its connection.
            None if self.driver.closed[usize::from(operation.group)] => {
                let left = self.connections.remove(id);
                self.established -= 1;
                left.iter().for_each(|left| self.count_unread(left));
            }
            None => {
                connection.state = State::Idle;
                self.idle.push_back(id);
            }
        }
    }
}
