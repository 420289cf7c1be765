//! The loop of a peer: one thread reads requests, plans when each is answered, and answers those that are due.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use load::clock;
use load::driver::Cancellation;
use load::reactor::Reactor;
use load::slots::Id;
use peer_kit::delays::Delays;
use peer_kit::held::Held;
use rustix::net::{RecvFlags, recv};

use crate::connections::Connections;
use crate::listener::Listener;

/// Room for new bytes in the buffer that all connections share.
const ROOM: usize = 256 << 10;
/// Token of the listener, which no connection has.
const LISTENER: u64 = u64::MAX - 2;

/// A request that was read whole.
#[derive(Debug)]
pub(crate) struct Taken<R> {
    /// Its length.
    pub(crate) bytes: usize,
    /// The content that its answer depends on. `None` if it has no answer.
    pub(crate) request: Option<R>,
    /// True if its answer has a planned delay and is recorded.
    pub(crate) is_held: bool,
    /// True if the connection is closed at once.
    pub(crate) hangs_up: bool,
}

impl<R> Taken<R> {
    /// Returns a request whose answer has a planned delay.
    pub(crate) fn held(bytes: usize, request: R) -> Self {
        Self {
            bytes,
            request: Some(request),
            is_held: true,
            hangs_up: false,
        }
    }
}

/// The bytes of a connection are of another protocol.
#[derive(Debug)]
pub(crate) struct Malformed;

/// A protocol. Answers on one connection are given in the order of the requests.
pub(crate) trait Protocol: Sized {
    /// The state of a connection.
    type State: Default;
    /// A request that waits for its answer.
    type Request;

    /// Receives bytes from a connection.
    fn receive(
        &mut self,
        _state: &mut Self::State,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let (_, bytes) = recv(socket, buffer, RecvFlags::DONTWAIT)?;
        Ok(bytes)
    }

    /// Takes the first request of the input, if it is complete.
    fn take(
        &mut self,
        state: &mut Self::State,
        input: &[u8],
    ) -> Result<Option<Taken<Self::Request>>, Malformed>;

    /// Carries out a request of a connection, which may have ended. Returns the connection that gets the answer.
    fn answer(
        &mut self,
        id: Id,
        request: Self::Request,
        connections: &mut Connections<Self::State>,
    ) -> Id;

    /// Handles the end of a connection, which is no longer among the others.
    fn ended(&mut self, _id: Id, _state: Self::State, _connections: &mut Connections<Self::State>) {
    }
}

/// A request whose answer is not yet due.
#[derive(Debug)]
struct Waiting<R> {
    id: Id,
    request: R,
    /// The time at which it was read; `None` if it is not recorded.
    read_at: Option<u64>,
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Server<P: Protocol> {
    protocol: P,
    listener: Listener,
    end: Arc<Cancellation>,
    delays: Delays,
    held: Held,
    connections: Connections<P::State>,
    /// The requests by the times when their answers are due, in nanoseconds of CLOCK_MONOTONIC, and by their numbers.
    waiting: BTreeMap<(u64, u64), Waiting<P::Request>>,
    requests: u64,
    buffer: Vec<u8>,
    /// The memory of a list that is used once in a turn.
    listed: Vec<Id>,
}

impl<P: Protocol> Server<P> {
    pub(crate) fn new(
        protocol: P,
        listener: Listener,
        delays: Delays,
        end: Arc<Cancellation>,
    ) -> io::Result<Self> {
        let reactor = Reactor::new(Some(end.waker()))?;
        reactor.watch(&listener, LISTENER)?;
        Ok(Self {
            protocol,
            listener,
            end,
            delays,
            held: Held::default(),
            connections: Connections::new(reactor),
            waiting: BTreeMap::new(),
            requests: 0,
            buffer: vec![0; ROOM],
            listed: Vec::new(),
        })
    }

    /// Serves until the end is requested. Returns the record of the requests.
    pub(crate) fn run(mut self) -> io::Result<Held> {
        while self.end.deadline().is_none() {
            let next = self.waiting.first_key_value();
            let until = next.map_or(u64::MAX, |((due, _), _)| *due);
            for index in 0..self.connections.reactor.wait(until, clock::now())? {
                let Some(event) = self.connections.reactor.event(index) else {
                    continue;
                };
                if event.token == LISTENER {
                    self.accept()?;
                    continue;
                }
                let (id, _) = Id::from_token(event.token);
                if event.writable {
                    self.flush(id)?;
                }
                if event.readable || event.closing || event.failed {
                    self.read(id, event.closing || event.failed)?;
                }
            }
            self.answer_due()?;
            let mut listed = std::mem::take(&mut self.listed);
            self.connections.swap_listed(&mut listed);
            for id in listed.drain(..) {
                self.flush(id)?;
            }
            self.listed = listed;
        }
        Ok(self.held)
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Some(socket) = self.listener.accept()? {
            let id = self.connections.insert(socket);
            // Most requests are there already.
            self.read(id, false)?;
            self.connections.watch(id)?;
        }
        Ok(())
    }

    /// Reads until the kernel has nothing more.
    fn read(&mut self, id: Id, is_closing: bool) -> io::Result<()> {
        while let Some(connection) = self.connections.get_mut(id) {
            let mut buffer = std::mem::take(&mut self.buffer);
            let kept = connection.unread.len();
            if buffer.len() < kept + ROOM {
                buffer.resize(kept + ROOM, 0);
            }
            buffer[..kept].copy_from_slice(&connection.unread);
            connection.unread.clear();
            let received = self.protocol.receive(
                &mut connection.state,
                connection.socket.as_fd(),
                &mut buffer[kept..],
            );
            let is_all = match received {
                Ok(0) => {
                    self.remove(id);
                    true
                }
                Ok(bytes) => {
                    let room = buffer.len() - kept;
                    self.take_requests(id, &buffer[..kept + bytes])?;
                    // A short read took everything, unless the end follows.
                    bytes < room && !is_closing
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.unread.extend_from_slice(&buffer[..kept]);
                    true
                }
                Err(_) => {
                    self.remove(id);
                    true
                }
            };
            self.buffer = buffer;
            if is_all {
                break;
            }
        }
        Ok(())
    }

    fn take_requests(&mut self, id: Id, input: &[u8]) -> io::Result<()> {
        let read_at = clock::now();
        let mut taken = 0;
        let mut answered = id;
        while let Some(connection) = self.connections.get_mut(id) {
            match self.protocol.take(&mut connection.state, &input[taken..]) {
                Ok(None) => {
                    connection.unread.extend_from_slice(&input[taken..]);
                    break;
                }
                Ok(Some(next)) => {
                    taken += next.bytes;
                    if let Some(request) = next.request {
                        let read_at = Some(read_at).filter(|_| next.is_held);
                        answered = self.plan(id, request, read_at).unwrap_or(answered);
                    }
                    if next.hangs_up {
                        self.remove(id);
                    }
                }
                Err(Malformed) => self.remove(id),
            }
        }
        self.write_answers(answered)
    }

    /// Answers a request if that is due already; returns the connection that gets the answer.
    fn plan(&mut self, id: Id, request: P::Request, read_at: Option<u64>) -> Option<Id> {
        let due = read_at.map_or(0, |read_at| self.delays.due(read_at));
        let connection = self.connections.get_mut(id)?;
        let due = due.max(connection.last_due);
        if connection.waiting == 0 && read_at.is_none_or(|read_at| due <= read_at) {
            return Some(self.answer(id, request, read_at));
        }
        connection.last_due = due;
        connection.waiting += 1;
        self.requests += 1;
        let waiting = Waiting {
            id,
            request,
            read_at,
        };
        self.waiting.insert((due, self.requests), waiting);
        None
    }

    fn answer(&mut self, id: Id, request: P::Request, read_at: Option<u64>) -> Id {
        let answered = self.protocol.answer(id, request, &mut self.connections);
        let is_open = self.connections.get_mut(answered).is_some();
        if let Some(read_at) = read_at.filter(|_| is_open) {
            self.held.answer(read_at);
        }
        answered
    }

    fn answer_due(&mut self) -> io::Result<()> {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= clock::now()
        {
            let Waiting {
                id,
                request,
                read_at,
            } = first.remove();
            if let Some(connection) = self.connections.get_mut(id) {
                connection.waiting -= 1;
            }
            let answered = self.answer(id, request, read_at);
            self.write_answers(answered)?;
        }
        Ok(())
    }

    /// Writes the answers of a connection, and records their times.
    fn write_answers(&mut self, id: Id) -> io::Result<()> {
        self.flush(id)?;
        if self.held.has_unwritten() {
            self.held.written(clock::now());
        }
        Ok(())
    }

    fn flush(&mut self, id: Id) -> io::Result<()> {
        if !self.connections.flush(id)? {
            self.remove(id);
        }
        Ok(())
    }

    fn remove(&mut self, id: Id) {
        if let Some(connection) = self.connections.remove(id) {
            let connections = &mut self.connections;
            self.protocol.ended(id, connection.state, connections);
        }
    }
}
