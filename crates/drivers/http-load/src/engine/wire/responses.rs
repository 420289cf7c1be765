//! The steps after a response: the redirect, the next request, or the end of the connection.

use std::io::Read as _;

use load::net::http1::Answer;
use load::recorder::Recorder;
use load::slots::Id;

use super::connection::Connection;
use super::{Cx, WireWorker};
use crate::counters::CompletedResponse;
use crate::outcome::{self, count};
use crate::roles::clients::{ConnectionState, Retry};

/// Counts unread bytes on an idle connection. A server that once sent too much has answered each later request with the
/// rest of the response before.
pub(super) fn count_unread(mut connection: Connection, buffer: &mut [u8], record: &Recorder) {
    // A server of HTTP/2 may send frames at any time.
    if connection.streams.is_none()
        && let Ok(left) = connection.socket.read(buffer)
    {
        record.count(count::EXCESS, left as u64);
    }
}

impl<'a> WireWorker<'a> {
    /// Handles a complete response at `now`; `after` is the number of bytes that came after it.
    pub(super) fn answered(
        &mut self,
        id: Id,
        answer: Answer,
        (now, after): (u64, usize),
        cx: &mut Cx<'a>,
    ) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if std::mem::take(&mut connection.awaiting_first_response) {
            self.clients.first_answered(&mut cx.state);
        }
        let (first_byte, written) = (connection.first_byte, connection.written);
        // The request was not sent completely, so the connection cannot carry another one.
        let cut = connection.is_partly_sent();
        let Some(mut operation) = connection.answered() else {
            return;
        };
        let response = CompletedResponse {
            status: answer.status,
            index: connection.owner.index,
            body: answer.body,
            sum: connection.sum.map(|sum| sum.0),
            written,
            first_byte,
            now,
            stream: connection.end_stream(self.shared, operation.request),
        };
        let captured = connection.captured.as_deref();
        let record = &cx.state.record;
        let is_complete = self
            .clients
            .answered(&mut operation, response, captured, record);
        // Bytes received before the request was sent are not a response.
        let unsolicited = after > 0 && connection.first().is_none();
        if unsolicited && answer.keep_alive {
            record.count(count::EXCESS, after as u64);
        }
        let keeps = self.shared.settings.keep_alive;
        if keeps && !answer.keep_alive {
            record.count(count::CLOSED, 1);
        }
        let is_kept = answer.keep_alive && keeps && !unsolicited && !cut;
        match (is_complete, is_kept) {
            (true, true) => self.start_next(id, now, cx),
            (true, false) => self.end(id, outcome::EARLY_CLOSE, cx),
            (false, true) => {
                connection.take(operation);
                self.queue_send(id, cx);
            }
            (false, false) => {
                let (index, ended) = (connection.owner.index, connection.state);
                cx.connections.remove(id);
                let clients = &mut self.clients;
                let pending = clients.connect_redirected(operation, index, ended, &mut cx.state);
                self.connect(pending, cx);
            }
        }
    }

    /// Starts the next request on a connection that has responded. With HTTP/2 the caller sends it.
    pub(super) fn start_next(&mut self, id: Id, now: u64, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let owner = connection.owner;
        let next = if owner.pool {
            self.clients.next_waiting()
        } else if self.clients.think(owner, now, Some(id), &mut cx.state) {
            connection.state = ConnectionState::Idle;
            return;
        } else {
            self.clients.next_of_client(owner, now, &mut cx.state)
        };
        match next {
            Some(operation) => {
                connection.take(operation);
                if connection.streams.is_none() {
                    self.queue_send(id, cx);
                }
            }
            None if owner.pool => {
                if connection.in_flight() == 0 {
                    connection.state = ConnectionState::Idle;
                }
                self.idle.push_back(id);
            }
            // Other requests of the connection are still to be answered.
            None if connection.in_flight() > 0 => {}
            None => self.leave(id, cx),
        }
    }

    /// Sends the next operation of a client that has thought, or lets it leave.
    pub(super) fn resume(&mut self, id: Id, retry: Retry, cx: &mut Cx<'a>) {
        let next = self.clients.resume(retry, &mut cx.state);
        match (next, cx.connections.get_mut(id)) {
            (Some(operation), Some(connection)) => {
                connection.take(operation);
                self.queue_send(id, cx);
            }
            _ => self.leave(id, cx),
        }
    }

    /// Closes the connection of a client that leaves.
    fn leave(&mut self, id: Id, cx: &mut Cx<'a>) {
        if let Some(left) = cx.connections.remove(id) {
            self.clients.left(left.state, &mut cx.state);
            count_unread(left, &mut cx.buffer, &cx.state.record);
        }
    }
}
