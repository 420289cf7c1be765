//! Connections are made: for a request that needs one, or before the requests of an open loop.

use harness::clock;
use harness::slots::Id;
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};

use super::Loop;
use super::connection::{Connection, State};
use crate::operation::{Operation, REST_NS, start_of};
use crate::outcome::{self, count};
use crate::pool::DIALS_A_TURN;
use crate::socket::dial;

impl Loop<'_> {
    /// Begins connections of the pool as their rate allows; returns when the next is.
    pub(super) fn fill_pool(&mut self, now: u64) -> u64 {
        for _ in 0..DIALS_A_TURN {
            let begun = self.pool.begin_one(now, self.established, self.connecting);
            match begun {
                Ok(place) => drop(self.connect(None, place, now)),
                Err(until) => return until,
            }
        }
        now
    }

    /// Begins a connection, for an operation or for the pool.
    pub(super) fn connect(
        &mut self,
        operation: Option<Operation>,
        place: u32,
        now: u64,
    ) -> Option<Id> {
        let pool =
            operation.is_none_or(|operation| !self.driver.closed[usize::from(operation.group)]);
        let server = &self.driver.servers[place as usize % self.driver.servers.len()];
        self.connecting += 1;
        match dial(&server.peer, &mut self.sources) {
            Ok(socket) => {
                let mut connection = Connection::new(socket, place, operation, pool, now);
                connection.seen = self.driver.checks.seen();
                let id = self.connections.insert(connection);
                self.watch(id);
                Some(id)
            }
            Err(errno) => {
                self.unconnected(operation, place, pool, errno, now);
                None
            }
        }
    }

    fn watch(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if self
            .reactor
            .watch_edges(&connection.socket, id.token(0))
            .is_err()
        {
            self.end(id, outcome::CONNECT);
        }
    }

    /// No connection could be begun.
    fn unconnected(
        &mut self,
        operation: Option<Operation>,
        place: u32,
        pool: bool,
        errno: Errno,
        now: u64,
    ) {
        self.connecting -= 1;
        let kind = outcome::connect_error(errno);
        if operation.is_none() && outcome::EXHAUSTED.contains(&kind) {
            self.worker.record.count(kind, 1);
        }
        if let Some(operation) = operation {
            self.fail(operation, kind);
            if !pool {
                return self.rest(operation.group, operation.index, place, now + REST_NS);
            }
        }
        self.pool_lost(State::Connecting, operation.is_some(), now);
    }

    /// A connection of the pool is gone; one that could not be made is tried again a moment later.
    pub(super) fn pool_lost(&mut self, state: State, had_operation: bool, now: u64) {
        match state {
            State::Connecting => {
                if !had_operation {
                    self.worker.record.count(count::UNCONNECTED, 1);
                }
                self.pool.rest(now);
            }
            State::Idle => self.worker.record.count(count::LOST, 1),
            State::Busy => {}
        }
    }

    /// Whoever waits for a connection without keep-alive has room now. Where none can be made, all that wait fail here, one
    /// after the other: they may be many.
    pub(super) fn connect_waiting(&mut self, now: u64) {
        while !self.pool.keeps
            && self.pool.has_room(self.established + self.connecting)
            && let Some(operation) = self.waiting.pop_front()
        {
            let place = self.pool.next_place();
            self.connect(Some(operation), place, now);
        }
    }

    /// The kernel has something to say of a connection that is being made.
    pub(super) fn connected(&mut self, id: Id) {
        let now = clock::now();
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let errno = getsockopt(&connection.socket, sockopt::SocketError)
            .map_or_else(|errno| errno, Errno::from_raw);
        if errno as i32 != 0 {
            return self.end(id, outcome::connect_error(errno));
        }
        let began = connection.written;
        let pool = connection.pool;
        connection.state = State::Idle;
        self.opened(began, now);
        self.first_operation(id, pool);
    }

    /// What a new connection does first.
    fn first_operation(&mut self, id: Id, pool: bool) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.first().is_some() {
            connection.state = State::Busy;
        } else if pool && let Some(operation) = self.waiting.pop_front() {
            connection.take(operation);
        } else {
            self.idle.push_back(id);
            return;
        }
        self.pipeline(id);
        self.send(id);
    }

    /// A client of a closed loop that pipelines has so many requests on its way at all times.
    fn pipeline(&mut self, id: Id) {
        for _ in 1..self.driver.settings.pipeline {
            let Some(connection) = self
                .connections
                .get_mut(id)
                .filter(|connection| !connection.pool)
            else {
                return;
            };
            let previous = start_of(connection.group, connection.last);
            let Some(start) = self.worker.pacer.again(previous, clock::now()) else {
                return;
            };
            let operation = self.operation(start);
            if let Some(connection) = self.connections.get_mut(id) {
                connection.take(operation);
            }
        }
    }
}
