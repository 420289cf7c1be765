//! The engine `wire`: HTTP/1.1 and HTTP/2, with and without TLS, in one event loop per worker.
//!
//! Cost of a request on a persistent connection, roughly: one `send`, one `recv` and a share of an `epoll_wait`, which
//! are nine tenths of it; 150 ns to parse the response, 30 ns for the clock, 10 ns for each recorded value. A
//! connection is an entry of about 140 bytes; all share one buffer. With HTTP/2 the requests and responses of a
//! connection that are ready together share one `send` and one `recv`.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};

use load::clock;
use load::driver::Worker;
use load::event_loop::{self, Context, Handler, LoopState};
use load::net::http1::{RequestInfo, ResponseError};
use load::net::sources::Sources;
use load::net::url::ServerUrl;
use load::pacer::Start;
use load::plan::Invalid;
use load::reactor::Event;
use load::slots::Id;
use tls_client::TlsClient;

use crate::content::{Checksum, ResponseSink};
use crate::events::{EventSink, Reading};
use crate::http2::{OwnPart, RequestBlocks, Table};
use crate::outcome::{self, count};
use crate::roles::checks::ResponseCapture;
use crate::roles::clients::{self, Clients, ConnectionState, EndedConnection, Retry};
use crate::roles::operation::connection_of;
use crate::roles::source::RequestBytes;
use crate::shared::Shared;
use crate::spec::{BLOCKED, SENDING};
use crate::tls;

mod connection;
mod delay;
mod dial;
mod responses;
mod streams;

use connection::Connection;
use delay::BatchDelay;

/// The TLS of a server, and the requests of HTTP/2 to it by their index in the plan.
#[derive(Debug)]
pub(crate) struct Prepared {
    tls: Option<TlsClient>,
    blocks: Vec<RequestBlocks>,
}

impl Prepared {
    /// Prepares the requests to a server.
    pub(crate) fn new(shared: &Shared, server: &ServerUrl) -> Result<Self, Invalid> {
        let (settings, mix) = (&shared.settings, &shared.mix);
        let requests = mix.requests.iter().filter(|_| settings.http2);
        let blocks =
            requests.map(|request| RequestBlocks::new(&request.settings, server, &mix.names));
        Ok(Self {
            tls: tls::client(server, settings)?,
            blocks: blocks.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the state of a new connection's table: the blocks of several requests do not share one.
    fn table(&self) -> Table {
        match self.blocks.as_slice() {
            [_] => Table::Empty,
            _ => Table::Unused,
        }
    }
}

/// Runs one worker's share of the load; `prepared` has an entry for each server.
pub(crate) fn work(shared: &Shared, prepared: &[Prepared], worker: Worker) -> anyhow::Result<()> {
    let cx = Context::new(worker, clients::options(&shared.settings))?;
    let worker = WireWorker::new(shared, prepared, &cx.state);
    event_loop::run(worker, cx)
}

/// Returns true if a worker reads all responses that have arrived before it sends the next requests: in a closed loop without
/// pauses, where responses are what it waits for.
fn batches(shared: &Shared) -> bool {
    let settings = &shared.settings;
    settings.batch && settings.think.is_none() && shared.closed.iter().all(|closed| *closed)
}

/// The context that the loop passes to the engine.
type Cx<'a> = Context<WireWorker<'a>>;

/// The connections of one worker; the loop keeps them.
#[derive(Debug)]
struct WireWorker<'a> {
    shared: &'a Shared,
    prepared: &'a [Prepared],
    clients: Clients<'a>,
    sources: Sources,
    /// Idle connections of the pool, the longest idle first. Some may have closed since.
    idle: VecDeque<Id>,
    /// Connections with requests to send after all responses are read (`batch`).
    outbox: Vec<Id>,
    /// Buffer for requests of HTTP/2.
    own: OwnPart,
    delay: BatchDelay,
    /// Records of event streams that were received.
    received: Cell<u64>,
    timeout_ns: u64,
    connect_timeout_ns: u64,
}

impl<'a> WireWorker<'a> {
    fn new(shared: &'a Shared, prepared: &'a [Prepared], state: &LoopState<Retry>) -> Self {
        let settings = &shared.settings;
        Self {
            clients: Clients::new(shared, state.share, state.phases.origin),
            sources: Sources::new(shared.sources.clone(), state.share),
            idle: VecDeque::new(),
            outbox: Vec::new(),
            own: OwnPart::default(),
            delay: BatchDelay::new(batches(shared)),
            received: Cell::new(0),
            timeout_ns: settings.timeout.as_nanos() as u64,
            connect_timeout_ns: settings.connect_timeout.as_nanos() as u64,
            shared,
            prepared,
        }
    }
}

impl Handler for WireWorker<'_> {
    type Connection = Connection;
    type Timer = Retry;

    /// A closed-loop client opens its connection, an open-loop operation takes the one that was idle longest, so that
    /// all are used.
    fn start(&mut self, start: Start, cx: &mut Context<Self>) {
        let operation = self.clients.begin(start, &cx.state);
        if self.shared.is_closed_loop(start.group) {
            let index = connection_of(start, cx.state.share);
            let pending = self.clients.connect_client(operation, index);
            return self.connect(pending, cx);
        }
        while let Some(id) = self.idle.pop_front() {
            let connection = cx.connections.get_mut(id);
            let most = self.shared.settings.streams;
            if let Some(connection) = connection.filter(|connection| connection.has_room(most)) {
                connection.take(operation);
                return self.send(id, cx);
            }
        }
        if let Some(pending) = self.clients.connect_or_wait(operation) {
            self.connect(pending, cx);
        }
    }

    fn can_start(&self, cx: &Context<Self>) -> bool {
        self.clients.can_start(&cx.state, self.idle.len())
    }

    fn ready(&mut self, id: Id, event: Event, cx: &mut Context<Self>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if connection.state == ConnectionState::Connecting {
            self.connected(id, cx);
        } else if event.writable && (connection.unsent() || connection.socket.is_pending()) {
            self.send(id, cx);
        }
        if event.readable || event.closing || event.failed {
            self.read(id, event.closing || event.failed, cx);
        }
    }

    fn timer(&mut self, retry: Retry, cx: &mut Context<Self>) {
        let waiting = retry
            .waiting
            .filter(|id| cx.connections.get_mut(*id).is_some());
        if let Some(id) = waiting {
            self.resume(id, retry, cx);
        } else if let Some(pending) = self.clients.retry(retry, &mut cx.state) {
            self.connect(pending, cx);
        }
    }

    fn expires_at(&self, connection: &Connection) -> u64 {
        match connection.state {
            ConnectionState::Connecting => {
                connection.written.saturating_add(self.connect_timeout_ns)
            }
            ConnectionState::Busy => connection.oldest_sent().saturating_add(self.timeout_ns),
            ConnectionState::Idle => u64::MAX,
        }
    }

    fn expired(&mut self, id: Id, cx: &mut Context<Self>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        match connection.state {
            ConnectionState::Connecting => self.end(id, outcome::CONNECT_TIMEOUT, cx),
            _ if connection.streams.is_some() => self.expire_streams(id, cx),
            _ => {
                let events = connection.events.as_ref();
                let kind = events.map_or(outcome::TIMEOUT, |events| events.timeout());
                self.end(id, kind, cx);
            }
        }
    }

    fn turn(&mut self, cx: &mut Context<Self>) -> anyhow::Result<u64> {
        let next_connect = self.fill_pool(cx);
        // Sending borrows all of the worker; afterwards the memory is used again.
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.drain(..).for_each(|id| self.send(id, cx));
        self.outbox = outbox;
        if cx.state.is_second_over() {
            self.count_batched(cx);
        }
        self.clients.turn(&mut cx.state)?;
        Ok(next_connect)
    }

    fn before_wait(&mut self, until: u64, _: &mut Context<Self>) {
        if self.delay.is_on {
            self.delay.sleep(self.clients.open(), until, clock::now());
        }
    }

    fn after_wait(&mut self, _events: usize, _: &mut Context<Self>) {
        if self.delay.is_on {
            // Of event streams each record is a response that the driver waits for.
            let found = self.clients.ended_operations() + self.received.get();
            self.delay.polled(found, clock::now());
        }
    }

    fn is_idle(&self, cx: &Context<Self>) -> bool {
        self.clients.is_idle(&cx.state)
    }

    fn give_up(&mut self, cx: &mut Context<Self>) -> anyhow::Result<()> {
        let open: Vec<Id> = cx.connections.iter().map(|(id, _)| id).collect();
        let open = open.into_iter().filter_map(|id| cx.connections.remove(id));
        for connection in open.filter(|connection| connection.state == ConnectionState::Idle) {
            responses::count_unread(connection, &mut cx.buffer, &cx.state.record);
        }
        self.count_batched(cx);
        self.clients.give_up(&cx.state.record);
        Ok(())
    }
}

impl<'a> WireWorker<'a> {
    fn count_batched(&mut self, cx: &Cx<'a>) {
        if self.delay.is_on {
            let ms = self.delay.take_waited_ms();
            cx.state.record.count(count::BATCHED_MS, ms);
        }
    }

    /// Sends a connection's requests, or queues it until all responses are read.
    fn queue_send(&mut self, id: Id, cx: &mut Cx<'a>) {
        if self.delay.is_on {
            self.outbox.push(id)
        } else {
            self.send(id, cx)
        }
    }

    /// Sends requests until all are sent or the kernel accepts no more.
    fn send(&mut self, id: Id, cx: &mut Cx<'a>) {
        let phases = self.shared.settings.phases;
        loop {
            let Some(connection) = cx.connections.get_mut(id) else {
                return;
            };
            if connection.streams.is_some() {
                return self.send_streams(id, cx);
            }
            let (offset, begun) = (connection.offset as usize, connection.written);
            let index = connection.owner.index;
            let Some(operation) = connection.next_unsent() else {
                if let Err(error) = connection.socket.flush() {
                    self.end(id, outcome::broken(&error), cx);
                }
                return;
            };
            let is_first = operation.hop.is_none();
            let began = if offset == 0 { clock::now() } else { begun };
            if is_first {
                operation.sent = began;
            }
            let (operation, at, counted) = (*operation, operation.at, operation.counted);
            let request = match &connection.rest {
                Some(rest) => RequestBytes::Fixed(rest),
                None => self.clients.request(&operation, index),
            };
            let (RequestBytes::Fixed(bytes) | RequestBytes::Written(bytes)) = request;
            let (written, of) = (connection.socket.write(&bytes[offset..]), bytes.len());
            if !written.as_ref().is_ok_and(|length| offset + length >= of) {
                if let RequestBytes::Written(bytes) = request {
                    connection.rest = Some(Box::new(bytes.to_vec()));
                }
            } else if connection.rest.is_some() {
                connection.rest = None;
            }
            match written {
                Ok(length) => {
                    let record = &cx.state.record;
                    record.count_of(counted, count::BYTES_SENT, length as u64);
                    if !connection.record_sent(length, of) {
                        // TLS takes a part at a time. Once the kernel takes no more, it reports when it does again.
                        connection.written = began;
                        continue;
                    }
                    if phases {
                        connection.written = clock::now();
                        if counted && is_first {
                            record.value(BLOCKED, began.saturating_sub(at).max(1));
                        }
                        if counted {
                            record.value(SENDING, connection.written - began);
                        }
                    }
                    if !connection.unsent() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    // The server may have responded before it closed: read that first.
                    self.read(id, true, cx);
                    return self.end(id, outcome::broken(&error), cx);
                }
            }
        }
    }

    /// Reads once, or to the end if the server has closed.
    fn read(&mut self, id: Id, closing: bool, cx: &mut Cx<'a>) {
        loop {
            let Some(connection) = cx.connections.get_mut(id) else {
                return;
            };
            match connection.socket.read(&mut cx.buffer) {
                Ok(0) => return self.at_end(id, cx),
                Ok(length) => {
                    let is_drained = length < cx.buffer.len() && connection.socket.is_drained();
                    if connection.streams.is_some() {
                        self.received_frames(id, length, cx);
                    } else {
                        self.received(id, length, cx);
                    }
                    // A peer that closes may still have data.
                    if is_drained && !closing {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.end(id, outcome::broken(&error), cx),
            }
        }
    }

    /// Processes received bytes: one response, several, or a part of one.
    fn received(&mut self, id: Id, length: usize, cx: &mut Cx<'a>) {
        let now = clock::now();
        let mut taken = 0;
        while taken < length {
            let Some(connection) = cx.connections.get_mut(id) else {
                return;
            };
            // No request was sent; with `batch`, not yet.
            let Some(operation) = connection.first().filter(|operation| operation.sent > 0) else {
                let excess = (length - taken) as u64;
                cx.state.record.count(count::EXCESS, excess);
                return self.end(id, outcome::EARLY_CLOSE, cx);
            };
            let asked = RequestInfo {
                head: self.shared.is_head(operation.request),
            };
            if taken == 0 {
                let record = &cx.state.record;
                record.count_of(operation.counted, count::BYTES, length as u64);
            }
            let (at, is_counted) = (operation.at, operation.counted);
            if connection.first_byte == 0 {
                let compares = self.shared.compares(operation);
                connection.first_byte = now;
                connection.sum = compares.then(Checksum::default);
            }
            let bytes = &cx.buffer[taken..length];
            let checks = &self.shared.checks;
            let reader = &mut connection.reader;
            let progress = match (connection.captured.as_deref_mut(), &mut connection.sum) {
                (captured, _) if let Some(stream) = &mut connection.events => {
                    let (record, scan) = (&cx.state.record, &self.shared.scan);
                    let mut sink = EventSink {
                        stream,
                        reading: Reading {
                            at,
                            is_counted,
                            now,
                            record,
                            scan,
                            received: &self.received,
                        },
                        capture: captured.map(|captured| ResponseCapture { checks, captured }),
                    };
                    let progress = reader.take(asked, bytes, &mut sink);
                    if let Some(kind) = stream.fault() {
                        return self.end(id, kind, cx);
                    }
                    if connection.awaiting_first_response && stream.has_head() {
                        connection.awaiting_first_response = false;
                        self.clients.first_answered(&mut cx.state);
                    }
                    progress
                }
                (None, None) => reader.take(asked, bytes, &mut ()),
                (None, Some(sum)) => reader.take(asked, bytes, sum),
                (Some(captured), sum) => {
                    let capture = ResponseCapture { checks, captured };
                    let sum = sum.as_mut();
                    reader.take(asked, bytes, &mut ResponseSink { capture, sum })
                }
            };
            match progress {
                Ok(progress) => {
                    taken += progress.used;
                    match progress.done {
                        Some(answer) => self.answered(id, answer, (now, length - taken), cx),
                        None => return,
                    }
                }
                Err(fault) => return self.end(id, fault.kind(), cx),
            }
        }
    }

    /// Handles the end of the server's data.
    fn at_end(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if connection.first().is_none() {
            return self.end(id, outcome::EARLY_CLOSE, cx);
        }
        match connection.reader.end() {
            // RFC 9112 §9.8.
            Ok(_) if connection.socket.is_cut() => self.end(id, outcome::EARLY_CLOSE, cx),
            Ok(answer) => {
                if let Some(events) = &mut connection.events {
                    events.is_until_close = true;
                }
                self.answered(id, answer, (clock::now(), 0), cx);
                // Pipelined requests after it will not be answered.
                self.end(id, outcome::EARLY_CLOSE, cx);
            }
            Err(ResponseError::Early { .. }) => self.end(id, outcome::EARLY_CLOSE, cx),
            Err(fault) => self.end(id, fault.kind(), cx),
        }
    }

    /// Closes a connection. Its unanswered operations fail as `kind`; its client goes on with another connection.
    fn end(&mut self, id: Id, kind: &'static str, cx: &mut Cx<'a>) {
        let Some(mut connection) = cx.connections.remove(id) else {
            return;
        };
        if let Some(streams) = connection.streams.take() {
            return self.ended(connection, streams, kind, cx);
        }
        if connection.awaiting_first_response {
            self.clients.first_answered(&mut cx.state);
        }
        if connection.is_thinking() {
            cx.state.record.count(count::CLOSED, 1);
        }
        let mut failed = false;
        while let Some(operation) = connection.answered() {
            failed = true;
            self.clients.fail(&operation, kind, &cx.state.record);
        }
        let ended = EndedConnection {
            state: connection.state,
            owner: connection.owner,
            failed,
        };
        // Its client may need the descriptor for the next one.
        drop(connection);
        self.clients.ended(ended, &mut cx.state);
        self.connect_waiting(cx);
    }
}
