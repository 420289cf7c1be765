//! State that the connections of one worker share: waiting operations, backoffs and counters.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use load::clock;
use load::driver::{Phases, Stop, Worker};
use load::net::dial::dial;
use load::net::pool::{CONNECTS_PER_ITERATION, Pool, RETRY_BACKOFF_NS};
use load::net::sources::Sources;
use load::opening::WorkerOpening;
use load::pacer::{Pacer, Start, Tick};
use load::recorder::Recorder;
use load::schedule::Share;
use load::slots::Slots;
use load::workers::count_missed;
use nix::errno::Errno;

use super::dial::ConnectTimes;
use super::message::{Message, Messages};
use super::meter::Totals;
use super::seat::{RequestSlot, SlotGuard, SlotTable};
use crate::checks::Captured;
use crate::driver::HttpLoad;
use crate::operation::{Backoff, Operation, connection_of, start_of};
use crate::outcome::{self, count};
use crate::series::{BLOCKED, CONNECTING, SENDING, TLS};
use crate::turn::{BatchCounters, CompletedResponse};

/// Maximum number of operations started per loop iteration.
const STARTS_PER_ITERATION: usize = 64;
/// Maximum time between two sweeps for timeouts.
const SWEEP_NS: u64 = 1_000_000_000;
/// Interval of the check for the end of the run, or its cancellation.
const LOOK_NS: u64 = 20_000_000;

/// A connection that is to be opened.
#[derive(Debug)]
pub(super) struct PendingConnect {
    /// The operation it is opened for, if any.
    pub(super) operation: Option<Operation>,
    /// Its index, which determines its server.
    pub(super) index: u32,
    /// True if it belongs to the pool of the open loops, not to one client of a closed loop.
    pub(super) pool: bool,
}

/// The state of a connection when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Idle,
    Busy,
}

/// The connections and operations of one worker.
#[derive(Debug)]
pub(super) struct WorkerState<'a> {
    pub(super) driver: &'a HttpLoad,
    record: Recorder,
    share: Share,
    phases: Cell<Phases>,
    opening: RefCell<WorkerOpening>,
    stop: &'a Stop,
    pacer: RefCell<Pacer>,
    sources: RefCell<Sources>,
    counters: RefCell<BatchCounters<'a>>,
    pub(super) totals: Rc<Totals>,
    /// All request slots, including those of pending connections.
    slots: SlotTable,
    /// Idle slots, the longest idle first. Some may have ended since.
    idle: RefCell<VecDeque<Rc<RequestSlot>>>,
    /// Operations of an open loop that wait for a free connection.
    waiting: RefCell<VecDeque<Operation>>,
    backing_off: RefCell<BinaryHeap<Reverse<Backoff>>>,
    pool: RefCell<Pool>,
    pending_connects: RefCell<Vec<PendingConnect>>,
    /// Operations in progress, and the ones among them that count.
    open: Cell<u64>,
    counted: Cell<u64>,
    /// Operations that have ended, but whose client's next step is not known yet.
    pub(super) unsettled: Cell<u64>,
    /// Open connections, and pending attempts.
    established: Cell<u64>,
    connecting: Cell<u64>,
    next_sweep: Cell<u64>,
    next_second: Cell<u64>,
    sweep_ns: u64,
    /// True if the worker's loop must run earlier than planned.
    wake_early: Cell<bool>,
}

pub(super) fn add(number: &Cell<u64>, more: i64) {
    number.set(number.get().wrapping_add_signed(more));
}

impl<'a> WorkerState<'a> {
    pub(super) fn new(
        driver: &'a HttpLoad,
        worker: &'a Worker,
        pacer: Pacer,
        opening: WorkerOpening,
    ) -> Self {
        let shortest = driver.settings.timeout.min(driver.settings.connect_timeout);
        Self {
            record: worker.record.clone(),
            share: worker.share,
            phases: Cell::new(worker.phases),
            opening: RefCell::new(opening),
            stop: &worker.stop,
            pacer: RefCell::new(pacer),
            sources: RefCell::new(Sources::new(driver.sources.clone(), worker.share)),
            counters: RefCell::new(BatchCounters::new(driver)),
            totals: Rc::default(),
            slots: RefCell::new(Slots::with_capacity(0)),
            idle: RefCell::default(),
            waiting: RefCell::default(),
            backing_off: RefCell::default(),
            pool: RefCell::new(Pool::new(driver.pool, worker.share, &worker.phases)),
            pending_connects: RefCell::default(),
            open: Cell::new(0),
            counted: Cell::new(0),
            unsettled: Cell::new(0),
            established: Cell::new(0),
            connecting: Cell::new(0),
            next_sweep: Cell::new(0),
            next_second: Cell::new(0),
            sweep_ns: (shortest.as_nanos() as u64 / 8).clamp(1_000_000, SWEEP_NS),
            wake_early: Cell::new(false),
            driver,
        }
    }

    /// Runs one iteration of the worker's loop; returns the time of the next one.
    pub(super) fn run_once(&self, now: u64) -> u64 {
        self.wake_early.set(false);
        self.check_cancel(now);
        self.follow_opening();
        let next_connect = self.fill_pool(now);
        let next_start = self.start_due(now);
        let next_retry = self.retry_due(now);
        self.sweep(now);
        self.record_counts(now);
        let looks = [self.next_sweep.get(), self.next_second.get(), now + LOOK_NS];
        let next = next_connect.min(next_start).min(next_retry);
        looks.into_iter().fold(next, u64::min)
    }

    /// Reports a full pool, and adopts the new phases when the load starts.
    fn follow_opening(&self) {
        let mut opening = self.opening.borrow_mut();
        let mut pool = self.pool.borrow_mut();
        if !pool.has_room(self.established.get()) {
            opening.say_open();
        }
        if let Some(begin) = opening.brought_forward() {
            let phases = self.phases.get();
            let phases = phases.begin_at(begin, &mut self.pacer.borrow_mut(), &self.record);
            self.phases.set(phases);
            pool.set_end(phases.end);
        }
    }

    /// Stops starting operations once the run is canceled.
    fn check_cancel(&self, now: u64) {
        if self.stop.deadline().is_some() {
            self.pacer.borrow_mut().stop_at(now);
        }
    }

    pub(super) fn deadline(&self) -> u64 {
        self.phases.get().deadline(&self.pacer.borrow(), self.stop)
    }

    pub(super) fn is_done(&self, now: u64) -> bool {
        self.open.get() + self.unsettled.get() == 0
            && self.backing_off.borrow().is_empty()
            && self.pacer.borrow().over(now)
    }

    /// Returns the next connection to open, if any.
    pub(super) fn next_connect(&self) -> Option<PendingConnect> {
        self.pending_connects.borrow_mut().pop()
    }

    /// Returns true if the next iteration must start earlier than the last one returned.
    pub(super) fn wake_early(&self) -> bool {
        self.wake_early.get() || !self.pending_connects.borrow().is_empty()
    }

    /// Records the counts, and every completed second.
    fn record_counts(&self, now: u64) {
        let mut counters = self.counters.borrow_mut();
        let totals = &self.totals;
        counters.received(totals.received.take(), true);
        counters.received(totals.received_of_warmup.take(), false);
        counters.sent(totals.sent.take(), true);
        counters.sent(totals.sent_of_warmup.take(), false);
        counters.flush(&self.record);
        if now >= self.next_second.get() {
            self.record.count(count::HELD, self.established.get());
        }
        // In every iteration, since open operations are integrated over time.
        self.next_second.set(self.record.tick(now));
    }

    /// Starts the operations that are due; returns the time of the next start.
    fn start_due(&self, now: u64) -> u64 {
        for _ in 0..STARTS_PER_ITERATION {
            let tick = self.pacer.borrow_mut().poll(now);
            match tick {
                Tick::Ready(start) => self.begin(start),
                Tick::Wait(due) => return self.driver.settings.pacing.wake_at(due),
                Tick::Over => return u64::MAX,
            }
        }
        now
    }

    /// Begins an operation: a closed-loop client opens its connection, an open-loop operation takes a free one.
    fn begin(&self, start: Start) {
        let closed = self.driver.closed[usize::from(start.group)];
        let operation = self.operation(start);
        if let Some(late) = start.lag.filter(|_| operation.counted) {
            self.record.lag(late);
        }
        if closed {
            self.connect(Some(operation), connection_of(start, self.share));
        } else {
            self.assign(operation);
        }
    }

    fn operation(&self, start: Start) -> Operation {
        let counted = self.phases.get().counts(start.at);
        add(&self.open, 1);
        add(&self.counted, i64::from(counted));
        self.counters.borrow_mut().begin(counted);
        Operation::new(start, counted)
    }

    /// Starts the next operation of a closed-loop client at once.
    pub(super) fn next_of_client(&self, group: u16, last: u64, now: u64) -> Option<Operation> {
        let start = self.pacer.borrow_mut().again(start_of(group, last), now);
        start.map(|start| self.operation(start))
    }

    /// Assigns an open-loop operation to the slot that was idle longest, so that all are used.
    fn assign(&self, operation: Operation) {
        while let Some(slot) = self.idle.borrow_mut().pop_front() {
            if slot.assign(operation) {
                return;
            }
        }
        let mut pool = self.pool.borrow_mut();
        if pool.opens_on_demand(self.established.get() + self.connecting.get()) {
            let index = pool.next_index();
            return self.connect(Some(operation), index);
        }
        self.waiting.borrow_mut().push_back(operation);
    }

    /// Waits for the next operation of an open loop, taking a waiting one first. `None` once the connection has ended.
    pub(super) async fn next(&self, slot: &Rc<RequestSlot>) -> Option<Operation> {
        if let Some(operation) = self.waiting.borrow_mut().pop_front() {
            return Some(operation);
        }
        self.idle.borrow_mut().push_back(Rc::clone(slot));
        slot.assigned().await
    }

    fn retry_due(&self, now: u64) -> u64 {
        loop {
            let Some(Reverse(backoff)) = self.backing_off.borrow().peek().copied() else {
                return u64::MAX;
            };
            if backoff.until > now {
                return backoff.until;
            }
            self.backing_off.borrow_mut().pop();
            if let Some(operation) = self.next_of_client(backoff.group, backoff.index, now) {
                self.connect(Some(operation), backoff.connection);
            }
        }
    }

    /// Opens connections of the pool at their rate; returns the time of the next attempt.
    fn fill_pool(&self, now: u64) -> u64 {
        for _ in 0..CONNECTS_PER_ITERATION {
            let (there, connecting) = (self.established.get(), self.connecting.get());
            let begun = self.pool.borrow_mut().next_connect(now, there, connecting);
            match begun {
                Ok(index) => self.connect(None, index),
                Err(until) => return until,
            }
        }
        now
    }

    /// Queues a connection to be opened, for an operation or for the pool.
    fn connect(&self, operation: Option<Operation>, index: u32) {
        let closed = |operation: Operation| self.driver.closed[usize::from(operation.group)];
        let pool = !operation.is_some_and(closed);
        add(&self.connecting, 1);
        self.pending_connects.borrow_mut().push(PendingConnect {
            operation,
            index,
            pool,
        });
    }

    pub(super) fn dial(&self, index: u32) -> Result<OwnedFd, Errno> {
        let server = &self.driver.servers[index as usize % self.driver.servers.len()];
        dial(&server.peer, &mut self.sources.borrow_mut())
    }

    /// Counts a connection that was opened, and its times.
    pub(super) fn opened(&self, times: ConnectTimes) {
        add(&self.connecting, -1);
        add(&self.established, 1);
        self.wake_early.set(true);
        self.record.count(count::OPENED, 1);
        self.record.value(CONNECTING, times.connecting_ns);
        if let Some(ns) = times.tls_ns {
            self.record.value(TLS, ns);
        }
    }

    /// Counts a failed connection attempt that was not made for a particular request.
    pub(super) fn unconnected(&self, kind: &'static str) {
        if outcome::EXHAUSTED.contains(&kind) {
            self.record.count(kind, 1);
        }
    }

    /// Handles a lost connection of the pool, or a failed attempt. Its failed operation was already recorded.
    pub(super) fn pool_lost(&self, state: State, had_operation: bool) {
        self.connection_ended(state);
        match state {
            State::Connecting => {
                if !had_operation {
                    self.record.count(count::UNCONNECTED, 1);
                }
                self.pool.borrow_mut().back_off(clock::now());
            }
            State::Idle => self.record.count(count::LOST, 1),
            State::Busy => {}
        }
        // An operation that waits without keep-alive has room now.
        if !self.driver.settings.keep_alive {
            let waiting = self.waiting.borrow_mut().pop_front();
            if let Some(operation) = waiting {
                self.assign(operation);
            }
        }
    }

    /// Follows a redirect over another connection to the same server, since this one ended.
    pub(super) fn on_redirect(&self, state: State, operation: Operation, index: u32) {
        self.connection_ended(state);
        self.connect(Some(operation), index);
    }

    /// Handles a lost connection of a closed-loop client, or a failed attempt: the client goes on with another one.
    pub(super) fn client_lost(&self, state: State, failed: bool, last: Operation, index: u32) {
        self.connection_ended(state);
        let until = clock::now() + if failed { RETRY_BACKOFF_NS } else { 0 };
        if until < self.phases.get().end {
            self.backing_off.borrow_mut().push(Reverse(Backoff {
                until,
                group: last.group,
                index: last.index,
                connection: index,
            }));
        }
    }

    fn connection_ended(&self, state: State) {
        self.wake_early.set(true);
        match state {
            State::Connecting => add(&self.connecting, -1),
            State::Idle | State::Busy => add(&self.established, -1),
        }
    }

    /// Counts received bytes that belong to no response.
    pub(super) fn excess(&self, bytes: usize) {
        if bytes > 0 {
            self.record.count(count::EXCESS, bytes as u64);
        }
    }

    /// Returns the next request of an operation.
    pub(super) fn message(&self, operation: &Operation, messages: &Messages) -> Message {
        messages.request(operation.index, self.counters.borrow().hop(operation))
    }

    /// Records that the first request of an operation was handed to hyper.
    pub(super) fn record_blocked(&self, operation: &Operation) {
        if operation.counted && self.driver.settings.phases {
            let blocked = operation.sent.saturating_sub(operation.at);
            self.record.value(BLOCKED, blocked.max(1));
        }
    }

    /// Records that a request was sent completely.
    pub(super) fn record_sending(&self, operation: &Operation, sending_ns: u64) {
        if operation.counted {
            self.record.value(SENDING, sending_ns);
        }
    }

    /// Records a response; `captured` is its kept part, if any is needed. Returns true if the operation is complete, false
    /// if it was redirected.
    pub(super) fn answered(
        &self,
        operation: &mut Operation,
        answered: CompletedResponse,
        captured: Option<&Captured>,
    ) -> bool {
        let mut counters = self.counters.borrow_mut();
        let has_ended = counters.answered(&self.record, operation, answered, captured);
        if has_ended {
            self.ended(operation);
        }
        has_ended
    }

    pub(super) fn fail(&self, operation: &Operation, kind: &'static str) {
        self.ended(operation);
        self.counters
            .borrow_mut()
            .failed(&self.record, operation, kind);
    }

    fn ended(&self, operation: &Operation) {
        add(&self.open, -1);
        add(&self.counted, -i64::from(operation.counted));
    }

    /// Creates a request slot that lives as long as the returned guard.
    pub(super) fn slot(&self) -> SlotGuard<'_> {
        SlotGuard::new(&self.slots)
    }

    /// Ends operations that took too long. Checking a slot costs a few nanoseconds, so none needs a timer.
    fn sweep(&self, now: u64) {
        if now < self.next_sweep.get() {
            return;
        }
        self.next_sweep.set(now + self.sweep_ns);
        for (_, slot) in self.slots.borrow().iter() {
            slot.check_deadline(now);
        }
        let timeout = self.driver.settings.timeout.as_nanos() as u64;
        let mut waiting = self.waiting.borrow_mut();
        while let Some(operation) = waiting.front().copied() {
            if now.saturating_sub(operation.at) <= timeout {
                break;
            }
            waiting.pop_front();
            self.fail(&operation, outcome::TIMEOUT);
        }
    }

    /// Counts the operations that are still open at the end.
    pub(super) fn record_unfinished(&self) {
        self.record_counts(clock::now());
        self.record.unfinished_many(self.counted.get());
        count_missed(&mut self.pacer.borrow_mut(), &self.record);
        // Makes the result report 0 if there were none.
        self.record.count(count::EXCESS, 0);
    }
}
