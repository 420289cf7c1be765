//! Reading and writing of connections.

use std::io::{ErrorKind, Read as _, Write as _};

use load::clock;
use load::net::dial::finish;
use load::reactor::Event;
use load::slots::Id;

use super::{Cx, Wire};
use crate::outcome::{self, count};
use crate::protocol::ProtocolError;
use crate::protocol::transport::Side;

impl<'a> Wire<'a> {
    /// Serves a connection of TCP that is ready.
    pub(super) fn serve(&mut self, id: Id, event: Event, cx: &mut Cx<'a>) {
        let side = Side::from_token_side(event.side());
        let is_closing = event.closing || event.failed;
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let user = connection.user;
        let Some(stream) = connection.stream(side) else {
            return;
        };
        if stream.is_connecting {
            if let Err(errno) = finish(&stream.socket) {
                return self.lose(id, outcome::connect_error(errno), cx);
            }
            stream.is_connecting = false;
            let transports = &mut self.transports[connection.server];
            connection.transport.connected(side, transports);
            self.perform(id, cx);
        } else if event.writable {
            self.flush_side(id, side, cx);
        }
        if self.users.user(user).has_stopped_reading() {
            // Its events must fill the buffers up to the server, so only the end is noticed.
            if is_closing {
                self.lose(id, outcome::CONNECTION_LOST, cx);
            }
        } else if event.readable || is_closing {
            self.read(id, side, is_closing, cx);
        }
    }

    /// Reads until the kernel has nothing more.
    pub(super) fn read(&mut self, id: Id, side: Side, is_closing: bool, cx: &mut Cx<'a>) {
        loop {
            let Some(connection) = cx.connections.get_mut(id) else {
                return;
            };
            let server = connection.server;
            let Some((stream, transport)) = connection.parts(side) else {
                return;
            };
            let is_plain = self.users.shared().servers[server].tls.is_none();
            let kept = transport.restore(side, &mut cx.buffer);
            let room = cx.buffer.len() - kept;
            match stream.socket.read(&mut cx.buffer[kept..]) {
                Ok(0) => return self.ended(id, side, cx),
                Ok(length) => {
                    self.users.counts.add(count::BYTES, length as u64);
                    self.received(id, side, kept + length, cx);
                    // A short read took everything, unless the peer closes, or TLS holds more.
                    if length < room && !is_closing && is_plain {
                        return;
                    }
                }
                Err(error) => {
                    transport.keep(side, &cx.buffer[..kept]);
                    match error.kind() {
                        ErrorKind::Interrupted => {}
                        ErrorKind::WouldBlock => return self.flush_side(id, side, cx),
                        _ => return self.lose(id, outcome::CONNECTION_LOST, cx),
                    }
                }
            }
        }
    }

    /// Processes the first `length` bytes of the buffer.
    fn received(&mut self, id: Id, side: Side, length: usize, cx: &mut Cx<'a>) {
        let now = clock::now();
        // Messages borrow from the buffer while they are handled; nothing else reads meanwhile.
        let buffer = std::mem::take(&mut cx.buffer);
        let mut taken = 0;
        while let Some(connection) = cx.connections.get_mut(id) {
            let transports = &mut self.transports[connection.server];
            let input = &buffer[..length];
            let next = connection
                .transport
                .next(side, input, &mut taken, transports);
            match next {
                Ok(Some(event)) => {
                    self.perform(id, cx);
                    self.handle(id, event, now, cx);
                }
                Ok(None) => {
                    connection.transport.keep(side, &buffer[taken..length]);
                    self.perform(id, cx);
                    break;
                }
                Err(error) => self.fail_protocol(id, error, cx),
            }
        }
        cx.buffer = buffer;
    }

    /// Ends a connection because of an error of the server.
    pub(super) fn fail_protocol(&mut self, id: Id, error: ProtocolError, cx: &mut Cx<'a>) {
        if let Some(connection) = cx.connections.get_mut(id) {
            self.users.debug(connection.user, &error.to_string());
        }
        self.lose(id, error.kind(), cx);
    }

    fn ended(&mut self, id: Id, side: Side, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        // The other sides may live on.
        connection.close(side);
        let transports = &mut self.transports[connection.server];
        let ended = connection.transport.ended(side, transports);
        self.perform(id, cx);
        if let Some(event) = ended {
            self.handle(id, event, clock::now(), cx);
        }
    }

    /// Writes what the kernel has not accepted yet.
    fn flush_side(&mut self, id: Id, side: Side, cx: &mut Cx<'a>) {
        let Some(stream) = cx
            .connections
            .get_mut(id)
            .and_then(|entry| entry.stream(side))
        else {
            return;
        };
        if stream.unsent.is_empty() && !stream.socket.is_pending() && !stream.closes {
            return;
        }
        let flushed = stream
            .unsent
            .flush(&mut stream.socket)
            .and_then(|all| stream.socket.flush().map(|()| all));
        match flushed {
            Ok(true) if stream.closes && !stream.socket.is_pending() => {
                if let Some(connection) = cx.connections.get_mut(id) {
                    connection.close(side);
                }
            }
            Ok(_) => {}
            Err(_) => self.lose(id, outcome::CONNECTION_LOST, cx),
        }
    }

    /// Sends a message of a user: the packet that `write` appends.
    pub(super) fn send(&mut self, id: Id, write: impl FnOnce(&mut Vec<u8>), cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let transports = &mut self.transports[connection.server];
        connection.transport.send(transports, write);
        self.perform(id, cx);
    }

    /// Performs the actions that a transport asks for.
    pub(super) fn perform(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let server = connection.server;
        let actions = &mut self.transports[server].actions;
        let is_simple = actions.is_main_output_only();
        if is_simple && actions.output[0].is_empty() {
            return;
        }
        // Opening and writing borrow all of the worker; afterwards the memory is used again.
        let mut actions = std::mem::take(actions);
        let mut failed = None;
        for side in Side::ALL {
            let reopens = actions.open[side as usize] && actions.close[side as usize];
            if reopens && let Some(connection) = cx.connections.get_mut(id) {
                connection.close(side);
            }
            if failed.is_none() && actions.open[side as usize] {
                failed = self
                    .open_side(id, side, cx)
                    .err()
                    .map(outcome::connect_error);
            }
            let written = self.write_side(id, side, &actions.output[side as usize], cx);
            failed = failed.or(written.err());
            if actions.close[side as usize] && !reopens {
                self.close_side(id, side, cx);
            }
            if is_simple {
                break;
            }
        }
        actions.clear();
        self.transports[server].actions = actions;
        // Last, since the actions of the other sides need the connection.
        if let Some(kind) = failed {
            self.lose(id, kind, cx);
        }
    }

    fn write_side(
        &mut self,
        id: Id,
        side: Side,
        bytes: &[u8],
        cx: &mut Cx<'a>,
    ) -> Result<(), &'static str> {
        if bytes.is_empty() {
            return Ok(());
        }
        let stream = cx
            .connections
            .get_mut(id)
            .and_then(|entry| entry.stream(side));
        let stream = stream.ok_or(outcome::CONNECTION_LOST)?;
        self.users.counts.add(count::BYTES_SENT, bytes.len() as u64);
        if stream.is_connecting {
            stream.unsent.append(bytes);
            return Ok(());
        }
        let written = stream.unsent.write(&mut stream.socket, bytes);
        written.map_err(|_| outcome::CONNECTION_LOST)
    }

    /// Closes a side once its output is written.
    fn close_side(&mut self, id: Id, side: Side, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        match connection.stream(side) {
            Some(stream) if !stream.unsent.is_empty() || stream.socket.is_pending() => {
                stream.closes = true;
            }
            _ => connection.close(side),
        }
    }
}
