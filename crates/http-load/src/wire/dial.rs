//! Connections are made: for a request that needs one, or before the requests of an open loop.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use harness::clock;
use harness::schedule::Share;
use harness::slots::Id;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect,
    getsockopt, setsockopt, socket, sockopt,
};

use super::connection::{Connection, Operation, State};
use super::{Loop, REST_NS};
use crate::driver::HttpLoad;
use crate::outcome::{self, count};
use crate::target::Peer;

/// Connections of a worker that are being made at the same time: a server's accept queue has room for some thousands, of
/// all workers.
const AT_ONCE: u64 = 128;
/// Connections that are begun before events are looked at again.
const DIALS_A_TURN: u64 = 32;
/// Ports that are tried before there is none.
const TRIES: usize = 16;

/// The connections that a worker keeps open for the operations of open loops.
#[derive(Debug)]
pub(super) struct Pool {
    /// How many.
    size: u64,
    /// Nanoseconds from one to the next, of this worker.
    every_ns: f64,
    origin: u64,
    begun: u64,
    /// Nothing is begun before.
    not_before: u64,
    keeps: bool,
    share: Share,
}

impl Pool {
    pub(super) fn new(driver: &HttpLoad, share: Share, origin: u64) -> Self {
        let rate = driver.settings.connect_rate;
        Self {
            size: share.count(driver.pool),
            every_ns: rate.map_or(0.0, |rate| 1e9 / rate * share.of as f64),
            origin,
            begun: 0,
            not_before: 0,
            keeps: driver.settings.keep_alive,
            share,
        }
    }

    /// Whether there may be one more than so many.
    pub(super) fn has_room(&self, connections: u64) -> bool {
        connections < self.size
    }

    /// The place of the next connection among all.
    pub(super) fn next_place(&mut self) -> u32 {
        let place = self.share.index + self.begun * self.share.of;
        self.begun += 1;
        place as u32
    }

    /// When the next one may be begun.
    fn due(&self) -> u64 {
        let due = self.origin + (self.begun as f64 * self.every_ns) as u64;
        due.max(self.not_before)
    }
}

impl Loop<'_> {
    /// Begins connections of the pool as their rate allows; returns when the next is.
    pub(super) fn fill_pool(&mut self, now: u64) -> u64 {
        if !self.pool.keeps || now >= self.worker.phases.end {
            return u64::MAX;
        }
        for _ in 0..DIALS_A_TURN {
            // An event tells when one of them is made or lost.
            if self.connecting >= AT_ONCE || !self.pool.has_room(self.established + self.connecting)
            {
                return u64::MAX;
            }
            let due = self.pool.due();
            if due > now {
                return due;
            }
            let place = self.pool.next_place();
            self.connect(None, place, now);
        }
        now
    }

    /// Begins a connection, for an operation or for the pool.
    pub(super) fn connect(&mut self, operation: Option<Operation>, place: u32, now: u64) {
        let pool =
            operation.is_none_or(|operation| !self.driver.closed[usize::from(operation.group)]);
        let server = &self.driver.servers[place as usize % self.driver.servers.len()];
        self.connecting += 1;
        match self.dial(&server.peer) {
            Ok(socket) => {
                let mut connection = Connection::new(socket, place, operation, pool, now);
                connection.seen = self.driver.checks.seen();
                let id = self.connections.insert(connection);
                self.watch(id);
            }
            Err(errno) => self.unconnected(operation, place, pool, errno, now),
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
        if let Some(operation) = operation {
            self.fail(operation, outcome::connect_error(errno));
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
                self.pool.not_before = now + REST_NS;
            }
            State::Idle => self.worker.record.count(count::LOST, 1),
            State::Busy => {}
        }
        // Whoever waits for a connection without keep-alive has room now.
        if !self.pool.keeps
            && let Some(operation) = self.waiting.pop_front()
        {
            self.assign(operation, now);
        }
    }

    /// A socket that is connecting, or connected already.
    fn dial(&mut self, peer: &Peer) -> Result<OwnedFd, Errno> {
        match peer {
            Peer::Unix(path) => {
                let socket = open(AddressFamily::Unix)?;
                begun(connect(socket.as_raw_fd(), &UnixAddr::new(path)?))?;
                Ok(socket)
            }
            Peer::Tcp(address) => self.dial_tcp(*address),
        }
    }

    fn dial_tcp(&mut self, address: SocketAddr) -> Result<OwnedFd, Errno> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let peer = SockaddrStorage::from(address);
        let mut last = Errno::EADDRINUSE;
        for _ in 0..TRIES {
            let socket = open(family)?;
            setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
            let source = self.sources.next();
            let begun = match source {
                Some(source) => {
                    from(&socket, source).and_then(|()| begun(connect(socket.as_raw_fd(), &peer)))
                }
                None => begun(connect(socket.as_raw_fd(), &peer)),
            };
            match begun {
                Ok(()) => return Ok(socket),
                // Somebody else has this port, or had it a moment ago: the next one.
                Err(errno @ (Errno::EADDRINUSE | Errno::EADDRNOTAVAIL)) if source.is_some() => {
                    last = errno
                }
                Err(errno) => return Err(errno),
            }
        }
        Err(last)
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
        let waiting = if pool { self.waiting.pop_front() } else { None };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.first().is_some() {
            connection.state = State::Busy;
        } else if let Some(operation) = waiting {
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
            let previous = super::start_of(connection.group, connection.last);
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

fn open(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket(
        family,
        SockType::Stream,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        None,
    )
}

fn from(socket: &OwnedFd, source: SocketAddr) -> Result<(), Errno> {
    setsockopt(socket, sockopt::ReuseAddr, &true)?;
    bind(
        socket.as_raw_fd(),
        &SockaddrStorage::from(source) as &dyn SockaddrLike,
    )
}

/// A connection that is under way is as good as made.
fn begun(connected: Result<(), Errno>) -> Result<(), Errno> {
    match connected {
        Err(Errno::EINPROGRESS) => Ok(()),
        other => other,
    }
}
