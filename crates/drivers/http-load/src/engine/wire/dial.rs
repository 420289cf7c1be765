//! Opening of connections: for a request that needs one, or before the requests of an open loop.

use load::clock;
use load::net::dial::{dial, finish};
use load::net::pool::CONNECTS_PER_ITERATION;
use load::slots::Id;

use super::connection::Connection;
use super::{Cx, WireWorker};
use crate::outcome;
use crate::roles::clients::{ConnectionState, PendingConnect};

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
        let server = &self.shared.servers[self.shared.server_of(pending.owner.index)];
        // On loopback the whole handshake happens within the call.
        let began = clock::now();
        let socket = match dial(&server.peer, &mut self.sources) {
            Ok(socket) => socket,
            Err(errno) => {
                let kind = outcome::connect_error(errno);
                return self.clients.connect_failed(pending, kind, &mut cx.state);
            }
        };
        let mut connection = Connection::new(socket, pending, began);
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
        if let Err(errno) = finish(&connection.socket) {
            return self.end(id, outcome::connect_error(errno), cx);
        }
        connection.state = ConnectionState::Idle;
        let connecting_ns = now - connection.written;
        self.clients.opened(connecting_ns, &mut cx.state);
        self.first_operation(id, cx);
    }

    fn first_operation(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
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
