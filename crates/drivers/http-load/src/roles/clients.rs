//! The clients of one worker without their I/O: which of them sends what next and when, and what is counted. Both
//! engines perform what it decides.

use std::collections::VecDeque;

use load::clock;
use load::event_loop::{LoopState, Options};
use load::net::pool::{Pool, RETRY_BACKOFF_NS, RampLimit};
use load::pacer::Start;
use load::recorder::Recorder;
use load::schedule::Share;
use load::slots::Id;
use traffic::ThinkTime;

use crate::counters::{CompletedResponse, ResponseCounters};
use crate::outcome::{self, count};
use crate::roles::checks::Captured;
use crate::roles::operation::{Operation, connection_of, start_of};
use crate::roles::source::{RequestBytes, RequestSource};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::spec::CONNECTING;

/// Maximum time between two sweeps for timeouts.
const MAX_SWEEP_NS: u64 = 1_000_000_000;

/// Returns the interval of the sweeps for timeouts, and the other options of a worker's loop.
pub(crate) fn options(settings: &Settings) -> Options {
    let shortest = settings.timeout.min(settings.connect_timeout);
    Options {
        sweep_ns: (shortest.as_nanos() as u64 / 8).clamp(1_000_000, MAX_SWEEP_NS),
        pacing: settings.pacing,
        ..Options::default()
    }
}

/// The owner of a connection: the pool of the open loops, or one client of a closed loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    /// The index of the connection, which determines its server.
    pub(crate) index: u32,
    pub(crate) pool: bool,
    /// The group of the client, and the index of the last operation that it started.
    pub(crate) group: u16,
    pub(crate) last: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingConnect {
    /// The operation that it is opened for, if any.
    pub(crate) operation: Option<Operation>,
    pub(crate) owner: Owner,
    /// True for the first connection of a closed-loop client, which counts in the ramp limit until it is answered.
    pub(crate) is_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Connecting,
    Idle,
    Busy,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedConnection {
    pub(crate) state: ConnectionState,
    pub(crate) owner: Owner,
    /// True if an operation failed with it.
    pub(crate) failed: bool,
}

/// A closed-loop client that goes on with the operation after its last one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    pub(crate) owner: Owner,
    /// The end of its think time; `None` if it goes on over a new connection because its last one has ended.
    due: Option<u64>,
    /// The entry of the connection that waits for it. If that has ended meanwhile, another one is opened.
    pub(crate) waiting: Option<Id>,
}

#[derive(Debug)]
pub(crate) struct Clients<'a> {
    shared: &'a Shared,
    pub(crate) counters: ResponseCounters<'a>,
    pub(crate) source: RequestSource<'a>,
    pool: Pool,
    ramp: RampLimit,
    /// Operations of an open loop that wait for a free connection.
    waiting: VecDeque<Operation>,
    /// The number of those that count and began to wait in this turn.
    waited: u64,
    /// Operations in progress, including the warm-up's, and how many of them count.
    open: u64,
    counted: u64,
    /// Number of operations that have ended.
    ended: u64,
    /// Open connections, and pending attempts.
    established: u64,
    connecting: u64,
    timeout_ns: u64,
    think: Option<ThinkTime>,
    is_first_worker: bool,
}

impl<'a> Clients<'a> {
    /// Creates the clients of a worker whose run began at `origin`.
    pub(crate) fn new(shared: &'a Shared, share: Share, origin: u64) -> Self {
        let is_closed = shared.closed.iter().all(|closed| *closed);
        Self {
            shared,
            counters: ResponseCounters::new(shared),
            source: RequestSource::new(shared, share),
            pool: Pool::new(shared.pool, share, origin),
            ramp: RampLimit::new(share, is_closed),
            waiting: VecDeque::new(),
            waited: 0,
            open: 0,
            counted: 0,
            ended: 0,
            established: 0,
            connecting: 0,
            timeout_ns: shared.settings.timeout.as_nanos() as u64,
            think: shared.settings.think,
            is_first_worker: share.index == 0,
        }
    }

    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    pub(crate) fn ended_operations(&self) -> u64 {
        self.ended
    }

    /// Returns false if new clients must wait until earlier ones are answered, or if an operation with a deadline would
    /// wait for a connection, because none of the `idle` ones is there and none may be opened for it.
    pub(crate) fn can_start(&self, state: &LoopState<Retry>, idle: usize) -> bool {
        let has_room = || {
            self.pool
                .opens_on_demand(self.established + self.connecting)
        };
        !self.ramp.is_reached() && (!state.has_deadline() || idle > 0 || has_room())
    }

    /// Returns true if no operation is open, and no client is about to go on.
    pub(crate) fn is_idle(&self, state: &LoopState<Retry>) -> bool {
        // After the end no client goes on, so a think time that lasts longer is not waited for.
        self.open == 0 && (state.timers.is_empty() || state.now >= state.phases.end)
    }

    pub(crate) fn begin(&mut self, start: Start, state: &LoopState<Retry>) -> Operation {
        self.begin_of_client(start, connection_of(start, state.share), state)
    }

    /// Begins an operation of the client whose connections have this index.
    #[inline]
    fn begin_of_client(
        &mut self,
        start: Start,
        client: u32,
        state: &LoopState<Retry>,
    ) -> Operation {
        let counted = state.phases.counts(start.at);
        self.open += 1;
        self.counted += u64::from(counted);
        let request = self.source.choose(start.group, start.index, client);
        Operation::new(start, request, counted)
    }

    /// Returns the first connection of a closed-loop client.
    pub(crate) fn connect_client(&mut self, operation: Operation, index: u32) -> PendingConnect {
        self.ramp.start();
        PendingConnect {
            is_first: true,
            ..self.connect(Some(operation), index)
        }
    }

    fn connect(&mut self, operation: Option<Operation>, index: u32) -> PendingConnect {
        self.connecting += 1;
        let closed = |operation: Operation| self.shared.is_closed_loop(operation.group);
        PendingConnect {
            operation,
            owner: Owner {
                index,
                pool: !operation.is_some_and(closed),
                group: operation.map_or(0, |operation| operation.group),
                last: operation.map_or(0, |operation| operation.index),
            },
            is_first: false,
        }
    }

    /// Returns a connection for an open-loop operation that found none free, if one may be opened for it. Otherwise the
    /// operation waits.
    pub(crate) fn connect_or_wait(&mut self, operation: Operation) -> Option<PendingConnect> {
        self.waiting.push_back(operation);
        let next = self.connect_waiting();
        self.waited += u64::from(next.is_none() && operation.counted);
        next
    }

    /// Returns a connection for the operation that waits longest, if one may be opened for it.
    pub(crate) fn connect_waiting(&mut self) -> Option<PendingConnect> {
        if !self
            .pool
            .opens_on_demand(self.established + self.connecting)
        {
            return None;
        }
        let operation = self.waiting.pop_front()?;
        let index = self.pool.next_index();
        Some(self.connect(Some(operation), index))
    }

    /// Returns the next connection of the pool.
    ///
    /// # Errors
    /// The time to try again.
    pub(crate) fn connect_pool(&mut self, state: &LoopState<Retry>) -> Result<PendingConnect, u64> {
        // An operation that was due before the end may still wait for a connection.
        if state.now >= state.phases.end && self.waiting.is_empty() {
            return Err(u64::MAX);
        }
        let next = self
            .pool
            .next_connect(state.now, self.established, self.connecting);
        next.map(|index| self.connect(None, index))
    }

    /// Returns the connection of a client that goes on, unless it leaves.
    pub(crate) fn retry(
        &mut self,
        retry: Retry,
        state: &mut LoopState<Retry>,
    ) -> Option<PendingConnect> {
        let operation = self.resume(retry, state)?;
        Some(self.connect(Some(operation), retry.owner.index))
    }

    /// Returns the operation of a client that goes on; `None` if it leaves. After a think time it counts from the end of
    /// that, and a later start is the driver's delay.
    pub(crate) fn resume(
        &mut self,
        retry: Retry,
        state: &mut LoopState<Retry>,
    ) -> Option<Operation> {
        let now = retry.due.unwrap_or(state.now);
        let operation = self.next_of_client(retry.owner, now, state)?;
        if operation.counted && retry.due.is_some() {
            state.record.lag(state.now - now);
        }
        Some(operation)
    }

    /// Lets a client think after an answer at `now`; its connection, the entry `waiting`, waits. Returns false if the client
    /// does not think, so that it goes on at once.
    #[inline]
    pub(crate) fn think(
        &self,
        owner: Owner,
        now: u64,
        waiting: Option<Id>,
        state: &mut LoopState<Retry>,
    ) -> bool {
        let Some(pause_ns) = self.pause_ns(owner) else {
            return false;
        };
        // A client that thinks beyond the end leaves then: the load lasts until the end.
        let until = (now + pause_ns).min(state.phases.end);
        let timer = Retry {
            owner,
            due: Some(until),
            waiting,
        };
        state.timers.set(until, timer);
        true
    }

    /// Returns the pause of a client after its last operation, nanoseconds, if it thinks.
    fn pause_ns(&self, owner: Owner) -> Option<u64> {
        let think = self.think.filter(|_| !owner.pool)?;
        Some(think.nanoseconds(self.shared.seed, owner.last))
    }

    /// Returns the next operation of a closed-loop client, at once; `None` if it leaves.
    pub(crate) fn next_of_client(
        &mut self,
        owner: Owner,
        now: u64,
        state: &mut LoopState<Retry>,
    ) -> Option<Operation> {
        let start = state.next_of_client(start_of(owner.group, owner.last), now)?;
        Some(self.begin_of_client(start, owner.index, state))
    }

    /// Returns the next request of an operation over the connection with this index.
    #[inline]
    pub(crate) fn request(&mut self, operation: &Operation, index: u32) -> RequestBytes<'_> {
        let hop = self.counters.hop(operation);
        self.source.bytes(operation, index, hop)
    }

    /// Returns the open-loop operation that waits longest for a free connection.
    pub(crate) fn next_waiting(&mut self) -> Option<Operation> {
        self.waiting.pop_front()
    }

    /// Counts a connection that was opened, and its connect time.
    pub(crate) fn opened(&mut self, connecting_ns: u64, state: &mut LoopState<Retry>) {
        self.connecting -= 1;
        self.established += 1;
        state.record.count(count::OPENED, 1);
        state.record.value(CONNECTING, connecting_ns);
        state.wake();
    }

    /// Lets another client start: the first request of one was answered, or its connection has ended.
    pub(crate) fn first_answered(&mut self, state: &mut LoopState<Retry>) {
        self.ramp.end();
        state.wake();
    }

    /// Records a failed connection attempt, and its operation.
    pub(crate) fn connect_failed(
        &mut self,
        pending: PendingConnect,
        kind: &'static str,
        state: &mut LoopState<Retry>,
    ) {
        match pending.operation {
            Some(operation) => self.fail(&operation, kind, &state.record),
            None if outcome::EXHAUSTED.contains(&kind) => state.record.count_by_name(kind, 1),
            None => {}
        }
        if pending.is_first {
            self.first_answered(state);
        }
        let ended = EndedConnection {
            state: ConnectionState::Connecting,
            owner: pending.owner,
            failed: pending.operation.is_some(),
        };
        self.ended(ended, state);
    }

    /// Handles the end of a connection. Its failed operations were already recorded. A client of a closed loop goes on
    /// with another one; an operation that waits may [have room](Self::connect_waiting) now.
    pub(crate) fn ended(&mut self, connection: EndedConnection, state: &mut LoopState<Retry>) {
        self.left(connection.state, state);
        if connection.state == ConnectionState::Connecting {
            self.shared.log_unconnected(connection.owner.index);
        }
        let now = clock::now();
        match (connection.owner.pool, connection.state) {
            (true, ConnectionState::Connecting) => {
                if !connection.failed {
                    state.record.count(count::UNCONNECTED, 1);
                }
                self.pool.back_off(now);
            }
            (true, ConnectionState::Idle) => state.record.count(count::LOST, 1),
            (true, ConnectionState::Busy) => {}
            // A client that thinks, and opens another one then, or that has left.
            (false, ConnectionState::Idle) => {}
            (false, _) => {
                // A client that was just responded to sends its next request after its think time.
                let backoff = u64::from(connection.failed) * RETRY_BACKOFF_NS;
                let pause = self.pause_ns(connection.owner);
                let until = now + pause.unwrap_or(0).max(backoff);
                let until = pause.map_or(until, |_| until.min(state.phases.end));
                if pause.is_some() || until < state.phases.end {
                    let retry = Retry {
                        owner: connection.owner,
                        due: pause.map(|_| until),
                        waiting: None,
                    };
                    state.timers.set(until, retry);
                }
            }
        }
    }

    /// Counts a connection that has ended with its client, or is replaced at once.
    pub(crate) fn left(&mut self, connection: ConnectionState, state: &mut LoopState<Retry>) {
        match connection {
            ConnectionState::Connecting => self.connecting -= 1,
            ConnectionState::Idle | ConnectionState::Busy => self.established -= 1,
        }
        state.wake();
    }

    /// Returns another connection to the same server for a redirect, since the one with this state ends.
    pub(crate) fn connect_redirected(
        &mut self,
        operation: Operation,
        index: u32,
        ended: ConnectionState,
        state: &mut LoopState<Retry>,
    ) -> PendingConnect {
        self.left(ended, state);
        self.connect(Some(operation), index)
    }

    /// Records a response; `captured` is its kept part, if any is needed. Returns true if the operation is complete,
    /// false if it was redirected.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        operation: &mut Operation,
        response: CompletedResponse,
        captured: Option<&Captured>,
        record: &Recorder,
    ) -> bool {
        let is_complete =
            self.counters
                .answered(record, operation, response, captured, &mut self.source);
        if is_complete {
            self.close(operation);
        }
        is_complete
    }

    pub(crate) fn fail(&mut self, operation: &Operation, kind: &'static str, record: &Recorder) {
        self.close(operation);
        self.counters.failed(record, operation, kind);
    }

    fn close(&mut self, operation: &Operation) {
        self.open -= 1;
        self.ended += 1;
        self.counted -= u64::from(operation.counted);
    }

    /// Ends a turn of the loop: operations that have waited too long fail, and the counts are recorded.
    ///
    /// # Errors
    /// Rows that can't be read any more.
    pub(crate) fn turn(&mut self, state: &mut LoopState<Retry>) -> anyhow::Result<()> {
        if !self.pool.has_room(self.established) {
            state.report_open();
        }
        while let Some(operation) = self.waiting.front().copied() {
            if state.now.saturating_sub(operation.at) <= self.timeout_ns {
                break;
            }
            self.waiting.pop_front();
            self.fail(&operation, outcome::TIMEOUT, &state.record);
        }
        self.counters.flush(&state.record);
        let waited = std::mem::take(&mut self.waited);
        state.record.add(count::WAITED, waited);
        if state.is_second_over() {
            state.record.count(count::HELD, self.established);
        }
        self.source.check()
    }

    /// Counts the operations that are still open at the end.
    pub(crate) fn give_up(&mut self, record: &Recorder) {
        // Makes the result report 0 if there were none.
        record.count(count::EXCESS, 0);
        if self.is_first_worker && self.shared.are_spread {
            record.count(count::ADDRESSES, self.shared.servers.len() as u64);
        }
        self.counters.flush(record);
        record.unfinished_many(self.counted);
    }
}
