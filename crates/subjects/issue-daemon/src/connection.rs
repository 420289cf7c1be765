//! A connection: reads requests, sends answers, and keeps a client from using more than its share of memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use issue_rpc::{Answer, Code, Service};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Limits;
use crate::counts::{add, subtract};
use crate::lines::Lines;
use crate::queue::Job;
use crate::service::Services;
use crate::session::{Session, Step, Task, is_long};
use crate::workers::{Outcome, ReadWork, WorkResult, Workers};

/// Lines from this length on are parsed by another thread, because parsing takes a microsecond per few hundred bytes.
const LARGE_LINE: usize = 32 << 10;
/// Bytes of answers that wait for a client before no more of its requests are read, and none begun.
const OUTBOX: usize = 1 << 20;
/// The time in which a client must read something while others wait for the memory of its answers.
const HURRY: Duration = Duration::from_secs(1);
/// Bytes of requests that wait to begin before no more of the client's are read.
const WAITING: usize = 32 << 20;
/// Bytes of requests of all connections; beyond, a connection with more than `FAIR_SHARE` is closed.
const ALL_WAITING: usize = 256 << 20;
const FAIR_SHARE: usize = 256 << 10;
/// The time in which a client that was refused can read why, although it is still sending.
const LINGER: Duration = Duration::from_secs(2);
const SCRATCH: usize = 64 << 10;

#[cfg(test)]
mod simulated_peers;

/// All connections, and what they need.
#[derive(Debug)]
pub(crate) struct Connections {
    open: RefCell<BTreeMap<u64, Rc<Connection>>>,
    /// The number of connections so far.
    accepted: Cell<u64>,
    limits: Limits,
    services: Services,
    workers: Workers,
    /// The buffer that all connections read to, one at a time.
    scratch: RefCell<Box<[u8]>>,
    /// Bytes of the requests of all connections that have not begun.
    held: Cell<usize>,
    /// Reads with long answers that wait for their turn. A connection has at most one.
    long_reads: RefCell<VecDeque<(u64, ReadWork)>>,
    /// The connection whose long read is under way. One thread makes them, one after the other.
    long_read: Cell<Option<u64>>,
    /// The treatment of what new clients send.
    input: Cell<Input>,
    /// Notified by the operation `shutdown`.
    stop: Notify,
}

#[derive(Debug)]
struct Connection {
    /// Never used again: what is under way for a client that has left must not reach another one.
    number: u64,
    state: RefCell<State>,
    /// Notified when the interest of the connection has changed while it waits.
    changed: Notify,
    interest: Cell<Interest>,
}

#[derive(Debug)]
struct State {
    session: Session,
    lines: Lines,
    outbox: Outbox,
    input: Input,
    /// None after the connection was closed.
    stream: Option<OwnedWriteHalf>,
    /// The time since when a line is unfinished.
    line_since: Option<Instant>,
    /// Bytes that this connection has added to the bytes of all.
    held: usize,
}

/// The treatment of what a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// Requests are read.
    Open,
    /// Further bytes are dropped until this time, so that the client can read why it was refused.
    Dropped(Instant),
    /// The client sends no more, or nothing more is read.
    Ended,
}

/// A connection for as long as its task lives: this alone removes it, also after a panic and when the task is aborted.
struct Registration<'a> {
    connections: &'a Connections,
    connection: Rc<Connection>,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.connections.remove(&self.connection);
    }
}

/// Answers that wait for a client.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// The time since when the client has read nothing.
    blocked_since: Option<Instant>,
}

/// The events that a connection waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Interest {
    reads: bool,
    writes: bool,
    is_over: bool,
}

impl Connections {
    pub(crate) fn new(limits: Limits, services: Services, workers: Workers) -> Self {
        Self {
            open: RefCell::default(),
            accepted: Cell::default(),
            limits,
            services,
            workers,
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            held: Cell::new(0),
            long_reads: RefCell::default(),
            long_read: Cell::default(),
            input: Cell::new(Input::Open),
            stop: Notify::new(),
        }
    }

    /// Returns the services, for the page of metrics.
    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// Waits for the operation `shutdown`.
    pub(crate) async fn stop_requested(&self) {
        self.stop.notified().await;
    }

    /// Serves a connection until it ends.
    pub(crate) async fn serve(&self, stream: UnixStream) {
        let (mut input, output) = stream.into_split();
        let counts = &self.services.counts;
        if self.open.borrow().len() >= self.limits.connections {
            add(&counts.refused, 1);
            let problem = format!(
                "{} connections are open: close one, or try again later",
                self.limits.connections
            );
            let line = Answer::failure(Code::Busy, &problem).line(None);
            // A new connection has room for it.
            let _ = output.try_write(line.as_bytes());
            return;
        }
        let registration = self.add(output);
        self.run(&registration.connection, &mut input).await;
    }

    fn add(&self, stream: OwnedWriteHalf) -> Registration<'_> {
        let counts = &self.services.counts;
        add(&counts.accepted, 1);
        add(&counts.open, 1);
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        let connection = Rc::new(Connection {
            number,
            state: RefCell::new(State {
                session: Session::default(),
                lines: Lines::default(),
                outbox: Outbox::default(),
                input: self.input.get(),
                stream: Some(stream),
                line_since: None,
                held: 0,
            }),
            changed: Notify::new(),
            interest: Cell::default(),
        });
        let registered = Rc::clone(&connection);
        self.open.borrow_mut().insert(number, registered);
        Registration {
            connections: self,
            connection,
        }
    }

    async fn run(&self, connection: &Connection, input: &mut OwnedReadHalf) {
        loop {
            let interest = self.interest(&connection.state.borrow());
            connection.interest.set(interest);
            if interest.is_over {
                return;
            }
            tokio::select! {
                biased;
                received = self.receive(connection, input), if interest.reads => {
                    if !matches!(received, Ok(1..)) {
                        connection.state.borrow_mut().input = Input::Ended;
                    }
                    if received.is_err() {
                        return;
                    }
                }
                () = writable(connection), if interest.writes => {
                    self.progress(connection, &mut connection.state.borrow_mut());
                    self.begin_long_read();
                }
                () = connection.changed.notified() => {}
            }
        }
    }

    fn interest(&self, state: &State) -> Interest {
        let has_room = state.session.in_flight() < self.limits.in_flight
            && state.session.waiting_bytes() < WAITING
            && state.outbox.len() < OUTBOX;
        let is_done = state.session.in_flight() == 0 && state.outbox.len() == 0;
        Interest {
            reads: match state.input {
                Input::Open => has_room,
                Input::Dropped(_) => true,
                Input::Ended => false,
            },
            writes: state.outbox.blocked_since.is_some(),
            is_over: state.stream.is_none() || (state.input == Input::Ended && is_done),
        }
    }

    /// Receives once. Returns the number of bytes; 0 is the end.
    async fn receive(
        &self,
        connection: &Connection,
        input: &mut OwnedReadHalf,
    ) -> io::Result<usize> {
        poll_fn(|context| {
            let mut scratch = self.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut *input).poll_read(context, &mut buffer))?;
            self.received(connection, buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
        .await
    }

    fn received(&self, connection: &Connection, bytes: &[u8]) {
        let mut state = connection.state.borrow_mut();
        if state.input != Input::Open {
            return;
        }
        let State { session, lines, .. } = &mut *state;
        let Services {
            identity, counts, ..
        } = &self.services;
        let mut finished = 0;
        let whole = lines.push(bytes, self.limits.line_bytes, |line| {
            finished += 1;
            let task = match line.len() {
                LARGE_LINE.. => Task::Unparsed(line.to_vec()),
                _ => identity.understand(line, counts),
            };
            add(&counts.in_flight, 1);
            session.push(task, line.len());
        });
        if whole.is_err() {
            let problem = format!(
                "a line is longer than {} bytes: send less at once, such as smaller batches",
                self.limits.line_bytes
            );
            self.refuse(&mut state, Code::TooLarge, &problem);
        }
        if state.lines.unfinished() == 0 {
            state.line_since = None;
        } else if finished > 0 || state.line_since.is_none() {
            state.line_since = Some(Instant::now());
        }
        if self.update_held(&mut state) > ALL_WAITING && state.held > FAIR_SHARE {
            self.refuse(
                &mut state,
                Code::Busy,
                "the requests of all clients take too much memory: try again later",
            );
        }
        self.progress(connection, &mut state);
        drop(state);
        self.begin_long_read();
    }

    /// Answers a connection for the last time, after what it has asked for.
    fn refuse(&self, state: &mut State, code: Code, problem: &str) {
        let answer = Answer::failure(code, problem);
        self.services.counts.answered(&answer);
        add(&self.services.counts.in_flight, 1);
        state.session.push(Task::Answered(answer.line(None)), 0);
        state.lines = Lines::default();
        state.line_since = None;
        state.input = Input::Dropped(Instant::now() + LINGER);
    }

    /// Notes how many bytes a connection holds. Returns the bytes of all connections.
    fn update_held(&self, state: &mut State) -> usize {
        let held = state.session.waiting_bytes() + state.lines.unfinished();
        self.held.set(self.held.get() + held - state.held);
        state.held = held;
        self.held.get()
    }

    /// Sends and begins all that can be sent and can begin.
    fn progress(&self, connection: &Connection, state: &mut State) {
        loop {
            state.flush();
            if state.stream.is_none() || !self.advance(connection, state) {
                return;
            }
        }
    }

    /// Begins the requests that can begin while there is room for answers. Returns false if there is none to begin.
    fn advance(&self, connection: &Connection, state: &mut State) -> bool {
        let mut has_begun = false;
        while state.outbox.len() < OUTBOX
            && let Some(step) = state.session.next_step()
        {
            has_begun = true;
            match step {
                Step::Send(line) => self.send(state, &line),
                Step::Serve(header, service) => {
                    let answer = self.services.answer(service);
                    self.services.counts.answered(&answer);
                    self.send(state, &answer.line(header.request_id.as_ref()));
                    if service == Service::Shutdown {
                        self.stop.notify_one();
                    }
                }
                Step::Parse(line) => self.workers.read(connection.number, ReadWork::Parse(line)),
                Step::Read(header, read) => {
                    let is_long = is_long(&read);
                    let work = ReadWork::Read(Box::new((header, read)));
                    if is_long {
                        (self.long_reads.borrow_mut()).push_back((connection.number, work))
                    } else {
                        self.workers.read(connection.number, work)
                    }
                }
                Step::Write(request, bytes) => {
                    let id = request.header.request_id.clone();
                    let job = Job {
                        connection: connection.number,
                        bytes,
                        request,
                    };
                    if let Err(full) = self.workers.write(job) {
                        let problem = format!(
                            "{} writes wait already: nothing was stored: try again later",
                            full.queued
                        );
                        let answer = Answer::failure(Code::Busy, &problem);
                        self.services.counts.answered(&answer);
                        state.session.refused(answer.line(id.as_ref()));
                    }
                }
            }
        }
        self.update_held(state);
        has_begun
    }

    /// Begins the next long read, if none is under way and there is memory for its answer.
    fn begin_long_read(&self) {
        if self.long_read.get().is_some() || !self.has_room_for_long_answers() {
            return;
        }
        // Changes of clients that have left are not made.
        while let Some((number, work)) = self.long_reads.borrow_mut().pop_front() {
            if self.open.borrow().contains_key(&number) {
                self.long_read.set(Some(number));
                return self.workers.read_long(number, work);
            }
        }
    }

    /// Returns false if long reads wait, and the answers that wait to be sent leave no room for theirs.
    fn has_room_for_long_answers(&self) -> bool {
        let open = self.open.borrow();
        let unsent = |connection: &Rc<Connection>| connection.state.borrow().outbox.len();
        self.long_reads.borrow().is_empty()
            || open.values().map(unsent).sum::<usize>() < self.limits.answer_bytes
    }

    fn send(&self, state: &mut State, line: &str) {
        subtract(&self.services.counts.in_flight, 1);
        if state.stream.is_some() {
            state.outbox.bytes.extend_from_slice(line.as_bytes());
        }
    }

    /// Passes outcomes of the workers to their connections.
    pub(crate) fn complete(&self, outcomes: Vec<Outcome>) {
        let mut touched = Vec::with_capacity(outcomes.len());
        for Outcome {
            connection: number,
            result,
        } in outcomes
        {
            if self.long_read.get() == Some(number) {
                self.long_read.set(None);
            }
            let Some(connection) = self.open.borrow().get(&number).map(Rc::clone) else {
                // The client has left.
                continue;
            };
            let mut state = connection.state.borrow_mut();
            match result {
                WorkResult::Answered(line) => {
                    state.session.answered();
                    self.send(&mut state, &line);
                }
                WorkResult::Parsed(task, bytes) => state.session.parsed(*task, bytes),
            }
            drop(state);
            touched.push(connection);
        }
        // A connection with several answers sends them at once.
        for connection in touched {
            self.progress(&connection, &mut connection.state.borrow_mut());
            self.settle(&connection);
        }
        self.begin_long_read();
    }

    /// Wakes a connection if it waits for the wrong events. A failed write is such a change: only the task of the
    /// connection ends it.
    fn settle(&self, connection: &Connection) {
        if self.interest(&connection.state.borrow()) != connection.interest.get() {
            connection.changed.notify_one();
        }
    }

    /// Forgets a connection. What it asked for and is under way is still done.
    fn remove(&self, connection: &Connection) {
        self.open.borrow_mut().remove(&connection.number);
        let state = connection.state.borrow();
        self.held.set(self.held.get() - state.held);
        let counts = &self.services.counts;
        subtract(&counts.in_flight, state.session.in_flight() as u64);
        subtract(&counts.open, 1);
        drop(state);
        self.begin_long_read();
    }

    /// Closes connections whose clients have stalled, and ends those that were refused. Call it about once a second.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let timeout = self.limits.stall_timeout;
        let is_over = |since: Option<Instant>, timeout| {
            since.is_some_and(|since| now.duration_since(since) > timeout)
        };
        let read_timeout = if self.has_room_for_long_answers() {
            timeout
        } else {
            timeout.min(HURRY)
        };
        let all: Vec<_> = self.open.borrow().values().map(Rc::clone).collect();
        for connection in all {
            let mut state = connection.state.borrow_mut();
            if is_over(state.line_since, timeout) {
                let problem = format!(
                    "the end of a line did not arrive within {timeout:?}: end each request with a newline"
                );
                self.refuse(&mut state, Code::InvalidRequest, &problem);
                self.progress(&connection, &mut state);
            }
            if is_over(state.outbox.blocked_since, read_timeout) {
                state.stream = None;
            }
            if matches!(state.input, Input::Dropped(until) if until < now) {
                state.input = Input::Ended;
            }
            drop(state);
            self.settle(&connection);
        }
    }

    /// Reads no more requests, also of clients that were accepted and have no connection yet. The connections end when
    /// theirs are answered.
    pub(crate) fn end_input(&self) {
        self.input.set(Input::Ended);
        for connection in self.open.borrow().values() {
            connection.state.borrow_mut().input = Input::Ended;
            connection.changed.notify_one();
        }
    }

    /// Lets the threads finish, and waits for their end.
    pub(crate) fn finish(self) {
        self.workers.finish();
    }
}

/// Waits until the client has read something.
async fn writable(connection: &Connection) {
    poll_fn(|context| {
        let state = connection.state.borrow();
        match &state.stream {
            Some(stream) => stream.as_ref().poll_write_ready(context).map(drop),
            None => Poll::Ready(()),
        }
    })
    .await;
}

impl State {
    /// Sends what the client has room for.
    fn flush(&mut self) {
        let Some(stream) = &self.stream else { return };
        if self.outbox.send_to(stream).is_err() {
            self.stream = None;
        } else if matches!(self.input, Input::Dropped(_))
            && self.session.in_flight() == 0
            && self.outbox.len() == 0
        {
            // The client sees the end after the reason, and is still listened to, as closing would discard the reason.
            let _ = nix::sys::socket::shutdown(
                std::os::fd::AsRawFd::as_raw_fd(stream.as_ref()),
                nix::sys::socket::Shutdown::Write,
            );
        }
    }
}

impl Outbox {
    fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn send_to(&mut self, stream: &OwnedWriteHalf) -> io::Result<()> {
        while self.len() > 0 {
            match stream.try_write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.sent += sent;
                    self.blocked_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert_with(Instant::now);
                    // A client that is always a little behind would never let it be empty.
                    if self.sent > OUTBOX {
                        self.bytes.drain(..mem::take(&mut self.sent));
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.bytes.clear();
        // A long answer must not keep its memory.
        self.bytes.shrink_to(4 << 10);
        Ok(())
    }
}
