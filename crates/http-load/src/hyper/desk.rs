//! What the connections of one worker share: what waits, what rests, what is counted.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use harness::clock;
use harness::driver::{Phases, Stop, Worker};
use harness::lanes::count_missed;
use harness::opening::WorkerOpening;
use harness::pacer::{Pacer, Start, Tick};
use harness::recorder::Recorder;
use harness::schedule::Share;
use harness::slots::Slots;
use nix::errno::Errno;

use super::dial::Made;
use super::message::{Message, Messages};
use super::meter::Totals;
use super::seat::{Seat, Seated, Seats};
use crate::checks::Seen;
use crate::driver::HttpLoad;
use crate::operation::{Operation, REST_NS, Rest, place_of, start_of};
use crate::outcome::{self, count};
use crate::pool::{DIALS_A_TURN, Pool};
use crate::series::{BLOCKED, CONNECTING, SENDING, TLS};
use crate::socket::dial;
use crate::source::Sources;
use crate::turn::{Answered, Turn};

/// Operations that are started before connections are served again.
const STARTS_AT_ONCE: usize = 64;
/// Longest time between two looks at what took too long.
const SWEEP_NS: u64 = 1_000_000_000;
/// How often it is looked whether all has ended, and whether the run was interrupted.
const LOOK_NS: u64 = 20_000_000;

/// A connection that is to be made.
#[derive(Debug)]
pub(super) struct Birth {
    /// What it is for, if it is for a request.
    pub(super) operation: Option<Operation>,
    /// Its place among all, which says which server it is to.
    pub(super) place: u32,
    /// Whether it belongs to the pool of the open loops, or to one client of a closed loop.
    pub(super) pool: bool,
}

/// What a connection was doing when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Idle,
    Busy,
}

/// One worker's connections and what is asked over them.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) driver: &'a HttpLoad,
    record: Recorder,
    share: Share,
    phases: Cell<Phases>,
    opening: RefCell<WorkerOpening>,
    stop: &'a Stop,
    pacer: RefCell<Pacer>,
    sources: RefCell<Sources>,
    turn: RefCell<Turn<'a>>,
    pub(super) totals: Rc<Totals>,
    /// All seats, those of connections that are being made too.
    seats: Seats,
    /// Those that have nothing to do, the one that rested longest first. Some have ended since.
    idle: RefCell<VecDeque<Rc<Seat>>>,
    /// Operations of an open loop that no connection was free for.
    waiting: RefCell<VecDeque<Operation>>,
    resting: RefCell<BinaryHeap<Reverse<Rest>>>,
    pool: RefCell<Pool>,
    born: RefCell<Vec<Birth>>,
    /// Operations that have begun and not ended, and those of them that count.
    open: Cell<u64>,
    counted: Cell<u64>,
    /// Operations that have ended while it is not known yet what their client does next.
    pub(super) unsettled: Cell<u64>,
    /// Connections that are made, and those that are being made.
    established: Cell<u64>,
    connecting: Cell<u64>,
    next_sweep: Cell<u64>,
    next_second: Cell<u64>,
    sweep_ns: u64,
    /// Whether something is to be done before the worker's loop meant to look.
    sooner: Cell<bool>,
}

pub(super) fn add(number: &Cell<u64>, more: i64) {
    number.set(number.get().wrapping_add_signed(more));
}

impl<'a> Desk<'a> {
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
            turn: RefCell::new(Turn::new(driver)),
            totals: Rc::default(),
            seats: RefCell::new(Slots::with_capacity(0)),
            idle: RefCell::default(),
            waiting: RefCell::default(),
            resting: RefCell::default(),
            pool: RefCell::new(Pool::new(driver, worker.share, &worker.phases)),
            born: RefCell::default(),
            open: Cell::new(0),
            counted: Cell::new(0),
            unsettled: Cell::new(0),
            established: Cell::new(0),
            connecting: Cell::new(0),
            next_sweep: Cell::new(0),
            next_second: Cell::new(0),
            sweep_ns: (shortest.as_nanos() as u64 / 8).clamp(1_000_000, SWEEP_NS),
            sooner: Cell::new(false),
            driver,
        }
    }

    /// One turn of the worker's loop; returns when the next is due.
    pub(super) fn turn(&self, now: u64) -> u64 {
        self.sooner.set(false);
        self.look_for_stop(now);
        self.follow_opening();
        let next_connect = self.fill_pool(now);
        let next_start = self.start_due(now);
        let next_rested = self.resume_rested(now);
        self.sweep(now);
        self.account(now);
        let looks = [self.next_sweep.get(), self.next_second.get(), now + LOOK_NS];
        let next = next_connect.min(next_start).min(next_rested);
        looks.into_iter().fold(next, u64::min)
    }

    /// Says when the pool is full, and takes over when the load begins.
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
            pool.end_at(phases.end);
        }
    }

    /// Starts nothing more once the run was asked to end.
    fn look_for_stop(&self, now: u64) {
        if self.stop.deadline().is_some() {
            self.pacer.borrow_mut().stop_at(now);
        }
    }

    pub(super) fn deadline(&self) -> u64 {
        self.phases.get().deadline(&self.pacer.borrow(), self.stop)
    }

    pub(super) fn over(&self, now: u64) -> bool {
        self.open.get() + self.unsettled.get() == 0
            && self.resting.borrow().is_empty()
            && self.pacer.borrow().over(now)
    }

    /// A connection that is to be made, if there is one.
    pub(super) fn born(&self) -> Option<Birth> {
        self.born.borrow_mut().pop()
    }

    /// Whether something is to be done before the time that the last turn named.
    pub(super) fn sooner(&self) -> bool {
        self.sooner.get() || !self.born.borrow().is_empty()
    }

    /// Hands over what was counted, and every second that is over.
    fn account(&self, now: u64) {
        let mut turn = self.turn.borrow_mut();
        let totals = &self.totals;
        turn.received(totals.received.take(), true);
        turn.received(totals.received_of_warmup.take(), false);
        turn.sent(totals.sent.take(), true);
        turn.sent(totals.sent_of_warmup.take(), false);
        turn.hand_over(&self.record);
        if now >= self.next_second.get() {
            self.record.count(count::HELD, self.established.get());
        }
        // Every turn: what is open is added up from one to the next.
        self.next_second.set(self.record.tick(now));
    }

    /// Starts what is due; returns when the next start is.
    fn start_due(&self, now: u64) -> u64 {
        for _ in 0..STARTS_AT_ONCE {
            let tick = self.pacer.borrow_mut().poll(now);
            match tick {
                Tick::Ready(start) => self.begin(start),
                Tick::Wait(due) => return self.driver.settings.pacing.look_at(due),
                Tick::Over => return u64::MAX,
            }
        }
        now
    }

    /// A client of a closed loop makes its connection, an operation of an open loop takes one that is free.
    fn begin(&self, start: Start) {
        let closed = self.driver.closed[usize::from(start.group)];
        let operation = self.operation(start);
        if let Some(late) = start.lag.filter(|_| operation.counted) {
            self.record.lag(late);
        }
        if closed {
            self.connect(Some(operation), place_of(start, self.share));
        } else {
            self.assign(operation);
        }
    }

    fn operation(&self, start: Start) -> Operation {
        let counted = self.phases.get().counts(start.at);
        add(&self.open, 1);
        add(&self.counted, i64::from(counted));
        self.turn.borrow_mut().begin(counted);
        Operation::new(start, counted)
    }

    /// The next operation of a client of a closed loop, at once.
    pub(super) fn again(&self, group: u16, last: u64, now: u64) -> Option<Operation> {
        let start = self.pacer.borrow_mut().again(start_of(group, last), now);
        start.map(|start| self.operation(start))
    }

    /// Gives an operation of an open loop to the seat that rested longest, so that all are used.
    fn assign(&self, operation: Operation) {
        while let Some(seat) = self.idle.borrow_mut().pop_front() {
            if seat.hand(operation) {
                return;
            }
        }
        let mut pool = self.pool.borrow_mut();
        if !pool.keeps && pool.has_room(self.established.get() + self.connecting.get()) {
            let place = pool.next_place();
            return self.connect(Some(operation), place);
        }
        self.waiting.borrow_mut().push_back(operation);
    }

    /// The next operation of an open loop: one that waits, or the next that comes. `None` once the connection has ended.
    pub(super) async fn next(&self, seat: &Rc<Seat>) -> Option<Operation> {
        if let Some(operation) = self.waiting.borrow_mut().pop_front() {
            return Some(operation);
        }
        self.idle.borrow_mut().push_back(Rc::clone(seat));
        seat.handed().await
    }

    fn resume_rested(&self, now: u64) -> u64 {
        loop {
            let Some(Reverse(rest)) = self.resting.borrow().peek().copied() else {
                return u64::MAX;
            };
            if rest.until > now {
                return rest.until;
            }
            self.resting.borrow_mut().pop();
            if let Some(operation) = self.again(rest.group, rest.index, now) {
                self.connect(Some(operation), rest.place);
            }
        }
    }

    /// Begins connections of the pool as their rate allows; returns when the next is.
    fn fill_pool(&self, now: u64) -> u64 {
        for _ in 0..DIALS_A_TURN {
            let (there, connecting) = (self.established.get(), self.connecting.get());
            let begun = self.pool.borrow_mut().begin_one(now, there, connecting);
            match begun {
                Ok(place) => self.connect(None, place),
                Err(until) => return until,
            }
        }
        now
    }

    /// Has a connection made, for an operation or for the pool.
    fn connect(&self, operation: Option<Operation>, place: u32) {
        let closed = |operation: Operation| self.driver.closed[usize::from(operation.group)];
        let pool = !operation.is_some_and(closed);
        add(&self.connecting, 1);
        self.born.borrow_mut().push(Birth {
            operation,
            place,
            pool,
        });
    }

    pub(super) fn dial(&self, place: u32) -> Result<OwnedFd, Errno> {
        let server = &self.driver.servers[place as usize % self.driver.servers.len()];
        dial(&server.peer, &mut self.sources.borrow_mut())
    }

    /// A connection is there.
    pub(super) fn opened(&self, made: Made) {
        add(&self.connecting, -1);
        add(&self.established, 1);
        self.sooner.set(true);
        self.record.count(count::OPENED, 1);
        self.record.value(CONNECTING, made.connecting_ns);
        if let Some(ns) = made.tls_ns {
            self.record.value(TLS, ns);
        }
    }

    /// A connection for no particular request could not be made.
    pub(super) fn unconnected(&self, kind: &'static str) {
        if outcome::EXHAUSTED.contains(&kind) {
            self.record.count(kind, 1);
        }
    }

    /// A connection of the pool is gone, or could not be made. What failed with it has been told.
    pub(super) fn pool_lost(&self, state: State, had_operation: bool) {
        self.gone(state);
        match state {
            State::Connecting => {
                if !had_operation {
                    self.record.count(count::UNCONNECTED, 1);
                }
                self.pool.borrow_mut().rest(clock::now());
            }
            State::Idle => self.record.count(count::LOST, 1),
            State::Busy => {}
        }
        // Whoever waits for a connection without keep-alive has room now.
        if !self.pool.borrow().keeps {
            let waiting = self.waiting.borrow_mut().pop_front();
            if let Some(operation) = waiting {
                self.assign(operation);
            }
        }
    }

    /// The connection is gone with a redirect: where that leads is asked over another one to the same server.
    pub(super) fn moved(&self, state: State, operation: Operation, place: u32) {
        self.gone(state);
        self.connect(Some(operation), place);
    }

    /// The connection of a client of a closed loop is gone, or could not be made: he goes on with another.
    pub(super) fn client_lost(&self, state: State, failed: bool, last: Operation, place: u32) {
        self.gone(state);
        let until = clock::now() + if failed { REST_NS } else { 0 };
        if until < self.phases.get().end {
            self.resting.borrow_mut().push(Reverse(Rest {
                until,
                group: last.group,
                index: last.index,
                place,
            }));
        }
    }

    fn gone(&self, state: State) {
        self.sooner.set(true);
        match state {
            State::Connecting => add(&self.connecting, -1),
            State::Idle | State::Busy => add(&self.established, -1),
        }
    }

    /// Bytes came that nobody asked for.
    pub(super) fn excess(&self, bytes: usize) {
        if bytes > 0 {
            self.record.count(count::EXCESS, bytes as u64);
        }
    }

    /// What an operation asks of a server now.
    pub(super) fn message(&self, operation: &Operation, of: &Messages) -> Message {
        of.of(operation.index, self.turn.borrow().hop(operation))
    }

    /// The first request of an operation is handed to hyper.
    pub(super) fn asked(&self, operation: &Operation) {
        if operation.counted && self.driver.settings.phases {
            let blocked = operation.sent.saturating_sub(operation.at);
            self.record.value(BLOCKED, blocked.max(1));
        }
    }

    /// The kernel has taken a request whole.
    pub(super) fn sent(&self, operation: &Operation, sending_ns: u64) {
        if operation.counted {
            self.record.value(SENDING, sending_ns);
        }
    }

    /// An operation was answered; `seen` is what is kept of the answer, where that is asked for. Whether it has ended with
    /// that, and not been led on.
    pub(super) fn answered(
        &self,
        operation: &mut Operation,
        answered: Answered,
        seen: Option<&Seen>,
    ) -> bool {
        let mut turn = self.turn.borrow_mut();
        let has_ended = turn.answered(&self.record, operation, answered, seen);
        if has_ended {
            self.ended(operation);
        }
        has_ended
    }

    pub(super) fn fail(&self, operation: &Operation, kind: &'static str) {
        self.ended(operation);
        self.turn.borrow_mut().failed(&self.record, operation, kind);
    }

    fn ended(&self, operation: &Operation) {
        add(&self.open, -1);
        add(&self.counted, -i64::from(operation.counted));
    }

    /// A seat, for as long as it is held.
    pub(super) fn seat(&self) -> Seated<'_> {
        Seated::new(&self.seats)
    }

    /// Ends what took too long. A look at every seat costs a few nanoseconds, so that none needs a timer.
    fn sweep(&self, now: u64) {
        if now < self.next_sweep.get() {
            return;
        }
        self.next_sweep.set(now + self.sweep_ns);
        for (_, seat) in self.seats.borrow().iter() {
            seat.look(now);
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

    /// Counts what is still open when the time is over.
    pub(super) fn give_up(&self) {
        self.account(clock::now());
        self.record.unfinished_many(self.counted.get());
        count_missed(&mut self.pacer.borrow_mut(), &self.record);
        // So that the result says 0 where there were none.
        self.record.count(count::EXCESS, 0);
    }
}
