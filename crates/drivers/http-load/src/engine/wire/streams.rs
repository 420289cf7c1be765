//! Connections of HTTP/2: several requests at once, which the server may end or refuse one by one.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write as _};

use load::clock;
use load::recorder::Recorder;
use load::slots::Id;

use super::connection::Connection;
use super::{Cx, WireWorker};
use crate::content::Checksum;
use crate::counters::CompletedResponse;
use crate::events::{CONTENT_TYPE, EventStream, Reading};
use crate::http2::{self, Event, Fault, OwnPart, Response, Table};
use crate::outcome::{self, count};
use crate::roles::checks::{Captured, ResponseCapture};
use crate::roles::clients::{ConnectionState, EndedConnection, PendingConnect};
use crate::roles::operation::Operation;
use crate::shared::Shared;
use crate::spec::BLOCKED;

/// An operation that waits for a stream.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) operation: Operation,
    /// True if the server has refused it once. It is not sent a third time.
    was_refused: bool,
    /// Its request, if it has a row: the reader goes on with the next one.
    sent: Option<Box<OwnPart>>,
}

impl From<Operation> for Waiting {
    fn from(operation: Operation) -> Self {
        Self {
            operation,
            was_refused: false,
            sent: None,
        }
    }
}

/// A request on its stream.
#[derive(Debug)]
struct Exchange {
    waited: Waiting,
    /// Time when its request was written.
    written: u64,
    /// Time of the head of its response; 0 before.
    first_byte: u64,
    sum: Option<Checksum>,
    captured: Option<Box<Captured>>,
    /// The event stream of its response, if the plan wants streams.
    events: Option<Box<EventStream>>,
}

impl Exchange {
    /// Returns the time since which it waits for its response, or for the next record of that.
    fn waits_since(&self) -> u64 {
        let sent = self.waited.operation.sent;
        let events = self.events.as_ref();
        events.map_or(sent, |events| events.silent_since(sent))
    }
}

/// The requests of a connection.
#[derive(Debug)]
pub(super) struct Streams {
    wire: http2::Connection<Exchange>,
    /// Operations that wait until the connection is open, for the server's limit, or for the next request of a redirect.
    pub(super) waiting: VecDeque<Waiting>,
    /// Number of open streams whose operations count.
    counted: u32,
    /// True once a request was answered: what the server did not take can be sent again.
    has_answered: bool,
    /// Storage for parts of responses.
    #[expect(clippy::vec_box, reason = "it moves to a request and back")]
    spare: Vec<Box<Captured>>,
}

impl Streams {
    pub(super) fn new(table: Table) -> Self {
        Self {
            wire: http2::Connection::new(table),
            waiting: VecDeque::new(),
            counted: 0,
            has_answered: false,
            spare: Vec::new(),
        }
    }

    /// Returns true if bytes count: an operation that counts is open, or none at all, so that they are not of the warm-up's.
    fn counts_bytes(&self) -> bool {
        self.counted > 0 || self.wire.open_streams() == 0
    }

    /// Returns the number of operations on the connection.
    pub(super) fn in_flight(&self) -> usize {
        self.wire.open_streams() + self.waiting.len()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.wire.is_closing()
    }

    pub(super) fn unsent(&self) -> bool {
        !self.wire.output().is_empty() || !self.waiting.is_empty()
    }

    /// Returns the number of the stream that waits longest, and since when. Event streams wait for their next record, so all
    /// are compared; of others the first one waits longest.
    fn longest_waiting(&self) -> Option<(u32, u64)> {
        let (id, first) = self.wire.first()?;
        let longest = match first.events {
            Some(_) => self.wire.min_by_key(Exchange::waits_since)?,
            None => (id, first),
        };
        Some((longest.0, longest.1.waits_since()))
    }

    /// Returns the time since which an operation waits for its response, or for a stream.
    pub(super) fn oldest(&self) -> u64 {
        let first = self.longest_waiting().map(|(_, since)| since);
        let waiting = self.waiting.front().map(|waiting| waiting.operation.at);
        first.into_iter().chain(waiting).min().unwrap_or(u64::MAX)
    }

    /// Removes an operation that waits since a time before this one. Returns it with the kind of its failure.
    fn take_expired(&mut self, before: u64) -> Option<(Operation, &'static str)> {
        let waiting = self.waiting.front();
        if waiting.is_some_and(|waiting| waiting.operation.at < before) {
            return Some((self.waiting.pop_front()?.operation, outcome::TIMEOUT));
        }
        let (id, since) = self.longest_waiting()?;
        if since >= before {
            return None;
        }
        let exchange = self.wire.cancel(id)?;
        self.closed(&exchange);
        let kind = exchange.events.as_ref();
        let kind = kind.map_or(outcome::TIMEOUT, |events| events.timeout());
        Some((exchange.waited.operation, kind))
    }

    fn closed(&mut self, exchange: &Exchange) {
        self.counted -= u32::from(exchange.waited.operation.counted);
    }
}

/// Keeps what is needed of responses.
struct Receiver<'a> {
    shared: &'a Shared,
    record: &'a Recorder,
    received: &'a Cell<u64>,
    now: u64,
    /// True once the head of a response has come.
    has_head: bool,
}

impl http2::Sink<Exchange> for Receiver<'_> {
    fn head(&mut self, exchange: &mut Exchange, status: u16) {
        self.has_head = true;
        if let Some(events) = &mut exchange.events {
            events.status(status);
        }
        exchange.first_byte = self.now;
        let compares = self.shared.compares(&exchange.waited.operation);
        exchange.sum = compares.then(Checksum::default);
        if let Some(captured) = &mut exchange.captured {
            captured.clear();
        }
    }

    fn needs(&self, name: &[u8]) -> bool {
        self.shared.checks.needs(name)
            || self.shared.settings.events && name == CONTENT_TYPE.as_bytes()
    }

    fn field(&mut self, exchange: &mut Exchange, name: &[u8], value: &[u8]) {
        if let Some(events) = &mut exchange.events
            && name == CONTENT_TYPE.as_bytes()
        {
            events.content_type(value);
        }
        if let (Some(captured), Ok(name)) = (&mut exchange.captured, str::from_utf8(name)) {
            let checks = &self.shared.checks;
            ResponseCapture { checks, captured }.field(name, value);
        }
    }

    fn body(&mut self, exchange: &mut Exchange, piece: &[u8]) -> Result<(), &'static str> {
        if let Some(events) = &mut exchange.events {
            let operation = &exchange.waited.operation;
            let reading = Reading {
                at: operation.at,
                is_counted: operation.counted,
                now: self.now,
                record: self.record,
                scan: &self.shared.scan,
                received: self.received,
            };
            events.take(piece, reading);
            return events.fault().map_or(Ok(()), Err);
        }
        if let Some(captured) = &mut exchange.captured {
            let checks = &self.shared.checks;
            ResponseCapture { checks, captured }.piece(piece);
        }
        if let Some(sum) = &mut exchange.sum {
            sum.update(piece);
        }
        Ok(())
    }
}

/// Returns the requests of a connection, if it is still open.
fn streams<'c>(cx: &'c mut Cx<'_>, id: Id) -> Option<&'c mut Streams> {
    cx.connections.get_mut(id)?.streams.as_deref_mut()
}

impl<'a> WireWorker<'a> {
    /// Fills a connection that was just opened: a client of a closed loop keeps a fixed number of requests in flight.
    pub(super) fn first_streams(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let most = self.shared.settings.streams as usize;
        for _ in connection.in_flight()..most {
            let (clients, owner) = (&mut self.clients, connection.owner);
            let next = if owner.pool {
                clients.next_waiting()
            } else {
                clients.next_of_client(owner, clock::now(), &mut cx.state)
            };
            match next {
                Some(operation) => connection.take(operation),
                None if owner.pool => self.idle.push_back(id),
                None => break,
            }
        }
        if connection.in_flight() > 0 {
            connection.state = ConnectionState::Busy;
        }
        self.send(id, cx);
    }

    /// Sends requests until all that may be open are sent, or the kernel accepts no more.
    pub(super) fn send_streams(&mut self, id: Id, cx: &mut Cx<'a>) {
        loop {
            self.open_streams(id, cx);
            let Some(connection) = cx.connections.get_mut(id) else {
                return;
            };
            let Some(streams) = connection.streams.as_deref_mut() else {
                return;
            };
            let output = streams.wire.output();
            if output.is_empty() {
                if let Err(error) = connection.socket.flush() {
                    self.end(id, outcome::broken(&error), cx);
                }
                return;
            }
            match connection.socket.write(output) {
                Ok(length) => {
                    streams.wire.advance(length);
                    let (record, counts) = (&cx.state.record, streams.counts_bytes());
                    record.count_of(counts, count::BYTES_SENT, length as u64);
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

    /// Writes the requests of operations that wait, and more of the bodies of requests, as far as they may be sent.
    fn open_streams(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let client = connection.owner.index;
        let Some(streams) = connection.streams.as_deref_mut() else {
            return;
        };
        let prepared = &self.prepared[self.shared.server_of(client)];
        let record = &cx.state.record;
        let mut now = 0;
        while streams.wire.can_open()
            && let Some(mut waited) = streams.waiting.pop_front()
        {
            if now == 0 {
                now = clock::now();
            }
            let operation = &mut waited.operation;
            if operation.sent == 0 {
                operation.sent = now;
                if self.shared.settings.phases && operation.counted {
                    record.value(BLOCKED, now.saturating_sub(operation.at).max(1));
                }
            }
            streams.counted += u32::from(operation.counted);
            let request = operation.request;
            let blocks = &prepared.blocks[usize::from(request)];
            match &waited.sent {
                Some(sent) => self.own.clone_from(sent),
                None => {
                    let hop = self.clients.counters.hop(operation);
                    let source = &mut self.clients.source;
                    let (values, cookies) = source.values(operation, client, hop.is_some());
                    blocks.write(values, cookies, hop, &mut self.own);
                    if self.shared.requests_of(request, client).use_rows {
                        waited.sent = Some(Box::new(self.own.clone()));
                    }
                }
            }
            let spare = streams.spare.pop();
            let exchange = Exchange {
                waited,
                written: now,
                first_byte: 0,
                sum: None,
                captured: spare.or_else(|| self.shared.checks.new_capture()),
                events: EventStream::new(&self.shared.settings),
            };
            streams.wire.open(exchange, blocks, &self.own);
        }
        streams.wire.upload();
    }

    /// Processes received bytes, and sends what follows from them at once.
    pub(super) fn received_frames(&mut self, id: Id, length: usize, cx: &mut Cx<'a>) {
        let now = clock::now();
        let mut taken = 0;
        while taken < length {
            let connection = cx.connections.get_mut(id);
            let Some(streams) = connection.and_then(|connection| connection.streams.as_mut())
            else {
                return;
            };
            if taken == 0 {
                let (record, counts) = (&cx.state.record, streams.counts_bytes());
                record.count_of(counts, count::BYTES, length as u64);
            }
            let mut receiver = Receiver {
                shared: self.shared,
                record: &cx.state.record,
                received: &self.received,
                now,
                has_head: false,
            };
            match streams.wire.take(&cx.buffer[taken..length], &mut receiver) {
                Ok((used, event)) => {
                    taken += used;
                    if receiver.has_head && self.shared.settings.events {
                        self.first_head(id, cx);
                    }
                    if let Some(event) = event {
                        self.event(id, event, now, cx);
                    }
                }
                Err(fault) => return self.broken(id, fault, cx),
            }
        }
        self.queue_send(id, cx);
    }

    /// Lets another client start, if this is the first head of a response on a connection: an event stream lasts.
    fn first_head(&mut self, id: Id, cx: &mut Cx<'a>) {
        if let Some(connection) = cx.connections.get_mut(id)
            && std::mem::take(&mut connection.awaiting_first_response)
        {
            self.clients.first_answered(&mut cx.state);
        }
    }

    /// Ends a connection whose server has broken the rules of the protocol.
    fn broken(&mut self, id: Id, fault: Fault, cx: &mut Cx<'a>) {
        if let Some(connection) = cx.connections.get_mut(id)
            && let Some(streams) = connection.streams.as_deref_mut()
        {
            streams.wire.abort(fault);
            // The server may learn the reason; the end does not depend on it.
            let _ = connection.socket.write(streams.wire.output());
        }
        self.end(id, fault.kind(), cx);
    }

    fn event(&mut self, id: Id, event: Event<Exchange>, now: u64, cx: &mut Cx<'a>) {
        let Some(streams) = streams(cx, id) else {
            return;
        };
        match event {
            Event::Answered(exchange, response) => {
                streams.closed(&exchange);
                self.stream_answered(id, exchange, response, now, cx);
            }
            Event::Refused(exchange) if !exchange.waited.was_refused => {
                streams.closed(&exchange);
                streams.waiting.push_front(Waiting {
                    was_refused: true,
                    ..exchange.waited
                });
                cx.state.record.count(count::RETRIES, 1);
                self.go_on(id, false, now, cx);
            }
            Event::Refused(exchange) => self.stream_failed(id, &exchange, outcome::RESET, now, cx),
            Event::Failed(exchange, kind) => self.stream_failed(id, &exchange, kind, now, cx),
            Event::Closing => {
                let mut excluded = 0;
                while let Some(exchange) = streams.wire.pop_excluded() {
                    streams.closed(&exchange);
                    streams.waiting.push_front(exchange.waited);
                    excluded += 1;
                }
                cx.state.record.count(count::RETRIES, excluded);
                self.go_on(id, false, now, cx);
            }
        }
    }

    fn stream_answered(
        &mut self,
        id: Id,
        exchange: Exchange,
        response: Response,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if std::mem::take(&mut connection.awaiting_first_response) {
            self.clients.first_answered(&mut cx.state);
        }
        let mut operation = exchange.waited.operation;
        let statuses = &self.shared.settings_of(operation.request).expect_status;
        let stream = exchange
            .events
            .map(|mut events| events.end(!statuses.is_empty()));
        let completed = CompletedResponse {
            status: response.status,
            index: connection.owner.index,
            body: response.body,
            sum: exchange.sum.map(|sum| sum.0),
            written: exchange.written,
            first_byte: exchange.first_byte,
            now,
            stream,
        };
        let (captured, record) = (exchange.captured, &cx.state.record);
        let is_complete =
            self.clients
                .answered(&mut operation, completed, captured.as_deref(), record);
        if let Some(streams) = connection.streams.as_deref_mut() {
            streams.has_answered = true;
            streams.spare.extend(captured);
            if !is_complete {
                streams.waiting.push_back(operation.into());
            }
        }
        self.go_on(id, is_complete, now, cx);
    }

    fn stream_failed(
        &mut self,
        id: Id,
        exchange: &Exchange,
        kind: &'static str,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if let Some(streams) = streams(cx, id) {
            streams.closed(exchange);
        }
        let operation = &exchange.waited.operation;
        self.clients.fail(operation, kind, &cx.state.record);
        self.go_on(id, true, now, cx);
    }

    /// Starts the next request on a connection, if one has ended, or ends a connection that is not used again.
    fn go_on(&mut self, id: Id, has_ended: bool, now: u64, cx: &mut Cx<'a>) {
        let Some(streams) = streams(cx, id) else {
            return;
        };
        if self.shared.settings.keep_alive && !streams.is_closing() {
            if has_ended {
                self.start_next(id, now, cx);
            }
        } else if streams.wire.open_streams() == 0 {
            self.end(id, outcome::EARLY_CLOSE, cx);
        }
    }

    /// Fails the operations whose time has passed. Their streams are reset, and the connection goes on.
    pub(super) fn expire_streams(&mut self, id: Id, cx: &mut Cx<'a>) {
        let before = cx.state.now.saturating_sub(self.timeout_ns);
        while let Some(streams) = streams(cx, id)
            && let Some((operation, kind)) = streams.take_expired(before)
        {
            self.clients.fail(&operation, kind, &cx.state.record);
            self.go_on(id, true, clock::now(), cx);
        }
        self.send(id, cx);
    }

    /// Handles the end of a connection, which was removed. Requests that have no response fail; those that the server
    /// did not take are sent over another connection (RFC 9113 §6.8), unless this one has answered nothing: such a
    /// server would be asked without end.
    pub(super) fn ended(
        &mut self,
        mut connection: Connection,
        mut streams: Box<Streams>,
        kind: &'static str,
        cx: &mut Cx<'a>,
    ) {
        let mut failed = false;
        let record = &cx.state.record;
        while let Some(exchange) = streams.wire.pop() {
            failed = true;
            self.clients.fail(&exchange.waited.operation, kind, record);
        }
        if streams.is_closing() {
            // It was announced, so the connection is not lost. A client that thinks goes on by its timer.
            if connection.owner.pool {
                connection.state = ConnectionState::Busy;
            }
            record.count(count::CLOSED, u64::from(self.shared.settings.keep_alive));
        }
        let (owner, state) = (connection.owner, connection.state);
        let is_first = connection.awaiting_first_response;
        // Its client may need the descriptor for the next one.
        drop(connection);
        let waiting = streams.waiting;
        if streams.has_answered
            && let Some(first) = waiting.front()
        {
            let (operation, clients) = (first.operation, &mut self.clients);
            let pending = PendingConnect {
                owner,
                is_first,
                ..clients.connect_redirected(operation, owner.index, state, &mut cx.state)
            };
            return self.connect_with(pending, waiting, cx);
        }
        if is_first {
            self.clients.first_answered(&mut cx.state);
        }
        for waiting in waiting {
            failed = true;
            self.clients
                .fail(&waiting.operation, kind, &cx.state.record);
        }
        let ended = EndedConnection {
            state,
            owner,
            failed,
        };
        self.clients.ended(ended, &mut cx.state);
        self.connect_waiting(cx);
    }
}
