//! A connection and its operations.

use std::collections::VecDeque;

use load::net::http1::Reader;
use tls_client::Socket;

use super::streams::Streams;
use crate::content::Checksum;
use crate::events::{EventStream, StreamEnd};
use crate::roles::checks::Captured;
use crate::roles::clients::{ConnectionState, Owner, PendingConnect};
use crate::roles::operation::Operation;
use crate::shared::Shared;

/// A connection of the engine.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) owner: Owner,
    /// Number of bytes sent of the first unsent request.
    pub(super) offset: u32,
    /// Number of requests sent completely, from the first on.
    whole: u32,
    /// The bytes of a partly sent request, if they were written for its operation.
    #[expect(
        clippy::box_collection,
        reason = "of a million connections few have sent a part"
    )]
    pub(super) rest: Option<Box<Vec<u8>>>,
    pub(super) state: ConnectionState,
    /// True until its client's first request is answered.
    pub(super) awaiting_first_response: bool,
    /// The operation to be answered next.
    first: Option<Operation>,
    /// Start of the connection attempt. Later, the start of the partly sent request, or, if phases are measured, the
    /// time when the last request was sent completely.
    pub(super) written: u64,
    /// Time of the response's first byte; 0 before. During a TLS handshake, the time when TCP was connected.
    pub(super) first_byte: u64,
    pub(super) reader: Reader,
    /// Running checksum of the body, if it is compared.
    pub(super) sum: Option<Checksum>,
    /// Kept parts of the response, if the checks need any.
    pub(super) captured: Option<Box<Captured>>,
    #[expect(
        clippy::box_collection,
        reason = "of a million connections few are pipelined"
    )]
    more: Option<Box<VecDeque<Operation>>>,
    /// The requests of a connection of HTTP/2, which uses no other field for them.
    pub(super) streams: Option<Box<Streams>>,
    /// The event stream of the response, if the plan wants streams.
    pub(super) events: Option<Box<EventStream>>,
}

impl Connection {
    /// Creates a connection that has been connecting since `now`; with `streams` it speaks HTTP/2.
    pub(super) fn new(
        socket: Socket,
        pending: PendingConnect,
        streams: Option<Box<Streams>>,
        now: u64,
    ) -> Self {
        let mut connection = Self {
            socket,
            owner: pending.owner,
            offset: 0,
            whole: 0,
            rest: None,
            state: ConnectionState::Connecting,
            awaiting_first_response: pending.is_first,
            first: None,
            written: now,
            first_byte: 0,
            reader: Reader::new(),
            sum: None,
            captured: None,
            more: None,
            streams,
            events: None,
        };
        match &mut connection.streams {
            Some(streams) => streams.waiting.extend(pending.operation.map(Into::into)),
            None => connection.first = pending.operation,
        }
        connection
    }

    pub(super) fn take(&mut self, operation: Operation) {
        self.state = ConnectionState::Busy;
        self.owner.last = operation.index;
        if let Some(streams) = &mut self.streams {
            return streams.waiting.push_back(operation.into());
        }
        match self.first {
            None => self.first = Some(operation),
            Some(_) => self.more.get_or_insert_default().push_back(operation),
        }
    }

    /// Returns true if its client thinks after an answer.
    pub(super) fn is_thinking(&self) -> bool {
        self.state == ConnectionState::Idle && !self.owner.pool
    }

    /// Returns the operation to be answered next.
    pub(super) fn first(&self) -> Option<&Operation> {
        self.first.as_ref()
    }

    /// Returns the first operation that is not sent completely.
    pub(super) fn next_unsent(&mut self) -> Option<&mut Operation> {
        match self.whole {
            0 => self.first.as_mut(),
            index => self.more.as_mut()?.get_mut(index as usize - 1),
        }
    }

    /// Returns the number of operations that are not answered.
    pub(super) fn in_flight(&self) -> usize {
        let more = || self.more.as_ref().map_or(0, |more| more.len());
        match &self.streams {
            Some(streams) => streams.in_flight(),
            None => usize::from(self.first.is_some()) + more(),
        }
    }

    /// Returns true if it is open, and may have another operation; `most` are allowed with HTTP/2.
    pub(super) fn has_room(&self, most: u32) -> bool {
        match &self.streams {
            Some(streams) => {
                self.state != ConnectionState::Connecting
                    && !streams.is_closing()
                    && streams.in_flight() < most as usize
            }
            None => self.state == ConnectionState::Idle,
        }
    }

    /// Returns true if a request is not sent completely.
    pub(super) fn unsent(&self) -> bool {
        if let Some(streams) = &self.streams {
            return streams.unsent();
        }
        (self.whole as usize) < self.in_flight()
    }

    /// Returns true if the request to be answered next is not sent completely.
    pub(super) fn is_partly_sent(&self) -> bool {
        self.whole == 0
    }

    /// Records `length` sent bytes of a request that has `of`; returns true if it is now sent completely.
    pub(super) fn record_sent(&mut self, length: usize, of: usize) -> bool {
        let sent = self.offset as usize + length;
        let whole = sent >= of;
        self.offset = if whole { 0 } else { sent as u32 };
        self.whole += u32::from(whole);
        whole
    }

    /// Returns the time at which the request to be answered next was sent, or at which connecting began. Later records of an
    /// event stream count instead.
    pub(super) fn oldest_sent(&self) -> u64 {
        if let Some(streams) = &self.streams {
            return streams.oldest();
        }
        let sent = self.first.map_or(0, |operation| operation.sent);
        let since = if sent == 0 { self.written } else { sent };
        let events = self.events.as_ref();
        events.map_or(since, |events| events.silent_since(since))
    }

    /// Ends the event stream of a response to this request, if the plan wants streams.
    pub(super) fn end_stream(&mut self, shared: &Shared, request: u16) -> Option<StreamEnd> {
        let events = self.events.as_mut()?;
        let statuses = &shared.settings_of(request).expect_status;
        Some(events.end(!statuses.is_empty()))
    }

    /// Removes and returns the operation that was answered.
    pub(super) fn answered(&mut self) -> Option<Operation> {
        let answered = self.first.take()?;
        self.first = self.more.as_mut().and_then(|more| more.pop_front());
        self.first_byte = 0;
        match self.whole.checked_sub(1) {
            Some(whole) => self.whole = whole,
            // Answered before it was sent completely: the connection is closed, and the rest is not sent.
            None => self.offset = 0,
        }
        Some(answered)
    }
}
