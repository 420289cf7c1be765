//! Opening of connections: for a request that needs one, or before the requests of an open loop.

use load::clock;
use load::net::dial::{dial, finish};
use load::net::pool::{CONNECTS_PER_ITERATION, RETRY_BACKOFF_NS};
use load::slots::Id;
use nix::errno::Errno;

use super::EventLoop;
use super::connection::{Connection, State};
use crate::operation::{Operation, start_of};
use crate::outcome::{self, count};

impl EventLoop<'_> {
    /// Opens connections of the pool at their rate; returns the time of the next attempt.
    pub(super) fn fill_pool(&mut self, now: u64) -> u64 {
        for _ in 0..CONNECTS_PER_ITERATION {
            let begun = self
                .pool
                .next_connect(now, self.established, self.connecting);
            match begun {
                Ok(index) => drop(self.connect(None, index, now)),
                Err(until) => return until,
            }
        }
        now
    }

    /// Starts a connection attempt, for an operation or for the pool.
    pub(super) fn connect(
        &mut self,
        operation: Option<Operation>,
        index: u32,
        now: u64,
    ) -> Option<Id> {
        let pool =
            operation.is_none_or(|operation| !self.driver.closed[usize::from(operation.group)]);
        let server = &self.driver.servers[index as usize % self.driver.servers.len()];
        self.connecting += 1;
        match dial(&server.peer, &mut self.sources) {
            Ok(socket) => {
                let mut connection = Connection::new(socket, index, operation, pool, now);
                connection.captured = self.driver.checks.new_capture();
                let id = self.connections.insert(connection);
                self.watch(id);
                Some(id)
            }
            Err(errno) => {
                self.unconnected(operation, index, pool, errno, now);
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

    /// Handles a connection attempt that failed at once.
    fn unconnected(
        &mut self,
        operation: Option<Operation>,
        index: u32,
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
                return self.back_off(
                    operation.group,
                    operation.index,
                    index,
                    now + RETRY_BACKOFF_NS,
                );
            }
        }
        self.pool_lost(State::Connecting, operation.is_some(), now);
    }

    /// Handles a lost connection of the pool. After a failed attempt the next one is delayed.
    pub(super) fn pool_lost(&mut self, state: State, had_operation: bool, now: u64) {
        match state {
            State::Connecting => {
                if !had_operation {
                    self.worker.record.count(count::UNCONNECTED, 1);
                }
                self.pool.back_off(now);
            }
            State::Idle => self.worker.record.count(count::LOST, 1),
            State::Busy => {}
        }
    }

    /// Connects for operations that wait without keep-alive, as far as there is room. If connecting fails, all waiting
    /// operations fail here, one after the other: they may be many.
    pub(super) fn connect_waiting(&mut self, now: u64) {
        while self.pool.opens_on_demand(self.established + self.connecting)
            && let Some(operation) = self.waiting.pop_front()
        {
            let index = self.pool.next_index();
            self.connect(Some(operation), index, now);
        }
    }

    /// Handles an event of a connection attempt.
    pub(super) fn connected(&mut self, id: Id) {
        let now = clock::now();
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if let Err(errno) = finish(&connection.socket) {
            return self.end(id, outcome::connect_error(errno));
        }
        let began = connection.written;
        let pool = connection.pool;
        connection.state = State::Idle;
        self.opened(began, now);
        self.first_operation(id, pool);
    }

    /// Starts the first operation of a new connection.
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

    /// Fills the pipeline of a closed-loop client, which keeps a fixed number of requests in flight.
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
