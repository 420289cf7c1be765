//! One connection, and what it was asked.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::answer::Reader;
use crate::checks::Seen;
use crate::content::Sum;
use crate::operation::Operation;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Idle,
    Busy,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    /// Its place among all, which says which server it is to.
    pub(super) place: u32,
    /// The bytes of the first unsent request that are sent.
    pub(super) offset: u32,
    /// Requests in a row, from the first on, that are sent whole.
    whole: u32,
    pub(super) group: u16,
    pub(super) state: State,
    /// Whether its user's first request has not been answered.
    pub(super) newcomer: bool,
    /// Whether it belongs to the pool of the open loops, or to one client of a closed loop.
    pub(super) pool: bool,
    /// What it is to answer next.
    first: Option<Operation>,
    /// The last operation that was begun on it.
    pub(super) last: u64,
    /// When connecting began; then when the request was begun that is not sent whole, or, where phases are measured, when
    /// the last was sent whole.
    pub(super) written: u64,
    /// When the first byte of the answer came; 0 before.
    pub(super) first_byte: u64,
    pub(super) reader: Reader,
    /// The checksum of the content that comes, where it is compared.
    pub(super) sum: Option<Sum>,
    /// What the checks need to see of an answer, where they do.
    pub(super) seen: Option<Box<Seen>>,
    #[expect(
        clippy::box_collection,
        reason = "of a million connections few are pipelined"
    )]
    more: Option<Box<VecDeque<Operation>>>,
}

impl Connection {
    /// One that is being made since `now`.
    pub(super) fn new(
        socket: OwnedFd,
        place: u32,
        operation: Option<Operation>,
        pool: bool,
        now: u64,
    ) -> Self {
        Self {
            socket,
            place,
            offset: 0,
            whole: 0,
            group: operation.map_or(0, |operation| operation.group),
            state: State::Connecting,
            newcomer: false,
            pool,
            first: operation,
            last: operation.map_or(0, |operation| operation.index),
            written: now,
            first_byte: 0,
            reader: Reader::new(),
            sum: None,
            seen: None,
            more: None,
        }
    }

    /// Has it ask one thing more.
    pub(super) fn take(&mut self, operation: Operation) {
        self.state = State::Busy;
        self.last = operation.index;
        match self.first {
            None => self.first = Some(operation),
            Some(_) => self.more.get_or_insert_default().push_back(operation),
        }
    }

    /// What it is to answer next.
    pub(super) fn first(&self) -> Option<&Operation> {
        self.first.as_ref()
    }

    /// The first operation that is not sent whole.
    pub(super) fn next_unsent(&mut self) -> Option<&mut Operation> {
        match self.whole {
            0 => self.first.as_mut(),
            place => self.more.as_mut()?.get_mut(place as usize - 1),
        }
    }

    /// Whether there is one.
    pub(super) fn unsent(&self) -> bool {
        let more = self.more.as_ref().map_or(0, |more| more.len());
        (self.whole as usize) < usize::from(self.first.is_some()) + more
    }

    /// Whether what it is to answer next is not sent whole.
    pub(super) fn is_cut(&self) -> bool {
        self.whole == 0
    }

    /// So many bytes were sent of a request that has `of`; whether it is sent whole.
    pub(super) fn has_sent(&mut self, length: usize, of: usize) -> bool {
        let sent = self.offset as usize + length;
        let whole = sent >= of;
        self.offset = if whole { 0 } else { sent as u32 };
        self.whole += u32::from(whole);
        whole
    }

    /// When what it is to answer next was sent, or connecting began.
    pub(super) fn oldest_sent(&self) -> u64 {
        let sent = self.first.map_or(0, |operation| operation.sent);
        if sent == 0 { self.written } else { sent }
    }

    /// Takes out what was answered.
    pub(super) fn answered(&mut self) -> Option<Operation> {
        let answered = self.first.take()?;
        self.first = self.more.as_mut().and_then(|more| more.pop_front());
        self.first_byte = 0;
        match self.whole.checked_sub(1) {
            Some(whole) => self.whole = whole,
            // Answered before it was sent whole: the connection is closed, and what is left of it is not sent any more.
            None => self.offset = 0,
        }
        Some(answered)
    }
}
