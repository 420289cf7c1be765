//! Opening of connections: for a request that needs one, or before the requests of an open loop.

use std::collections::VecDeque;
use std::io::ErrorKind;

use load::clock;
use load::net::dial::{dial, finish};
use load::net::pool::CONNECTS_PER_ITERATION;
use load::slots::Id;
use nix::errno::Errno;
use tls_client::Socket;

use super::connection::Connection;
use super::streams::{Streams, Waiting};
use super::{Cx, WireWorker};
use crate::events::EventStream;
use crate::outcome;
use crate::roles::clients::{ConnectionState, PendingConnect};
use crate::spec::TLS;
use crate::tls::{self, H2};

impl<'a> WireWorker<'a> {
    /// Opens connections of the pool at their rate; returns the time of the next attempt.
    pub(super) fn fill_pool(&mut self, cx: &mut Cx<'a>) -> u64 {
        for _ in 0..CONNECTS_PER_ITERATION {
            match self.clients.connect_pool(&cx.state) {
                Ok(pending) => self.connect(pending, cx),
                Err(until) => return until,
            }
        }
        cx.state.now
    }

    /// Connects for operations that wait without keep-alive, as far as there is room. If connecting fails, all waiting
    /// operations fail here, one after the other: they may be many.
    pub(super) fn connect_waiting(&mut self, cx: &mut Cx<'a>) {
        while let Some(pending) = self.clients.connect_waiting() {
            self.connect(pending, cx);
        }
    }

    pub(super) fn connect(&mut self, pending: PendingConnect, cx: &mut Cx<'a>) {
        self.connect_with(pending, VecDeque::new(), cx);
    }

    /// Opens a connection for several operations, which HTTP/2 allows: the first of `waiting` is the one of `pending`.
    pub(super) fn connect_with(
        &mut self,
        pending: PendingConnect,
        waiting: VecDeque<Waiting>,
        cx: &mut Cx<'a>,
    ) {
        let server = self.shared.server_of(pending.owner.index);
        let (peer, tls) = (
            &self.shared.servers[server].peer,
            self.prepared[server].tls.as_ref(),
        );
        // On loopback the whole handshake happens within the call.
        let began = clock::now();
        let socket = dial(peer, &mut self.sources)
            .and_then(|socket| Socket::new(socket, tls).map_err(|_| Errno::EIO));
        let socket = match socket {
            Ok(socket) => socket,
            Err(errno) => {
                let kind = outcome::connect_error(errno);
                for waiting in waiting.into_iter().skip(1) {
                    self.clients
                        .fail(&waiting.operation, kind, &cx.state.record);
                }
                return self.clients.connect_failed(pending, kind, &mut cx.state);
            }
        };
        let streams = || Box::new(Streams::new(self.prepared[server].table()));
        let streams = self.shared.settings.http2.then(streams);
        let mut connection = Connection::new(socket, pending, streams, began);
        if let Some(streams) = &mut connection.streams
            && !waiting.is_empty()
        {
            streams.waiting = waiting;
        }
        if connection.streams.is_none() {
            connection.events = EventStream::new(&self.shared.settings);
        }
        connection.captured = self.shared.checks.new_capture();
        let id = cx.connections.insert(connection);
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let watched = cx.reactor.watch_edges(&connection.socket, id.token(0));
        if watched.is_err() {
            self.end(id, outcome::CONNECT, cx);
        }
    }

    pub(super) fn connected(&mut self, id: Id, cx: &mut Cx<'a>) {
        let now = clock::now();
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if connection.first_byte == 0 {
            if let Err(errno) = finish(&connection.socket) {
                return self.end(id, outcome::connect_error(errno), cx);
            }
            connection.first_byte = now;
        }
        let server = self.shared.server_of(connection.owner.index);
        let Some(tls) = &self.prepared[server].tls else {
            return self.opened(id, None, cx);
        };
        match connection.socket.complete_handshake() {
            Ok(()) if self.shared.settings.http2 && connection.socket.protocol() != Some(H2) => {
                self.shared.log_once(tls::NO_HTTP2);
                self.end(id, outcome::TLS, cx);
            }
            Ok(()) => self.opened(id, Some(clock::now()), cx),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.raw_os_error().is_some() => {
                self.end(id, outcome::broken(&error), cx);
            }
            Err(error) => {
                self.shared
                    .log_once(&tls::explain(&tls.name.to_str(), &error));
                self.end(id, outcome::TLS, cx);
            }
        }
    }

    /// Uses a connection whose TLS handshake, if there is one, was complete at `secure`.
    fn opened(&mut self, id: Id, secure: Option<u64>, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        connection.state = ConnectionState::Idle;
        let connected = std::mem::take(&mut connection.first_byte);
        self.clients
            .opened(connected - connection.written, &mut cx.state);
        if let Some(secure) = secure {
            cx.state.record.value(TLS, secure - connected);
        }
        self.first_operation(id, cx);
    }

    fn first_operation(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if connection.streams.is_some() {
            return self.first_streams(id, cx);
        }
        if connection.first().is_some() {
            connection.state = ConnectionState::Busy;
        } else if let Some(operation) = self.clients.next_waiting() {
            connection.take(operation);
        } else {
            self.idle.push_back(id);
            return;
        }
        if !connection.owner.pool {
            self.pipeline(id, cx);
        }
        self.send(id, cx);
    }

    /// Fills the pipeline of a closed-loop client, which keeps a fixed number of requests in flight.
    fn pipeline(&mut self, id: Id, cx: &mut Cx<'a>) {
        for _ in 1..self.shared.settings.pipeline {
            let Some(connection) = cx.connections.get_mut(id) else {
                return;
            };
            let (clients, owner) = (&mut self.clients, connection.owner);
            let next = clients.next_of_client(owner, clock::now(), &mut cx.state);
            let Some(operation) = next else {
                return;
            };
            connection.take(operation);
        }
    }
}
