//! The engine `wire`: HTTP/1.1 in one readiness loop for each worker.
//!
//! Cost of a request on a connection that is kept, sketched: one `send`, one `recv` and a share of an `epoll_wait`, which
//! are nine tenths of it; 150 ns to read the answer, 30 ns for the clock, 10 ns for each value recorded. A connection is an
//! entry of some 130 bytes; one buffer is shared by all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::AsRawFd as _;

use harness::clock;
use harness::driver::Worker;
use harness::lanes::count_missed;
use harness::pacer::{Start, Tick};
use harness::reactor::{Event, Reactor};
use harness::slots::{Id, Slots};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

use crate::answer::{Asked, Fault};
use crate::checks::Keeper;
use crate::content::{Both, Sum};
use crate::driver::HttpLoad;
use crate::operation::{Operation, REST_NS, Rest, place_of, start_of};
use crate::outcome::{self, count};
use crate::pool::Pool;
use crate::series::{BLOCKED, CONNECTING, SENDING};
use crate::source::Sources;
use crate::turn::Turn;

mod connection;
mod dial;
mod next;
mod pause;

use connection::{Connection, State};
use pause::Pause;

/// The shared read buffer: more than a server sends at once, mostly.
const BUFFER: usize = 64 * 1024;
/// Operations that are started before events are looked at again.
const STARTS_AT_ONCE: usize = 64;
/// Users of all workers who have asked and not been answered yet, ever. On loopback a handshake takes no time, so that
/// thousands of users who begin at once fill the server's accept queue (4,096 by default) before it has accepted one; the
/// kernel then drops what they say.
const NEWCOMERS: u64 = 1_024;
/// Longest time between two looks at what took too long.
const SWEEP_NS: u64 = 1_000_000_000;

/// Does one worker's share of the load.
pub(crate) fn work(driver: &HttpLoad, worker: Worker) -> anyhow::Result<()> {
    Loop::new(driver, worker)?.run()
}

/// One worker's connections and what is asked over them.
#[derive(Debug)]
struct Loop<'a> {
    driver: &'a HttpLoad,
    worker: Worker,
    reactor: Reactor,
    connections: Slots<Connection>,
    sources: Sources,
    buffer: Box<[u8]>,
    /// Where requests are made that hold a number.
    room: Vec<u8>,
    turn: Turn<'a>,
    /// Connections of the pool that have nothing to do, the one that rested longest first. Some have ended since.
    idle: VecDeque<Id>,
    /// Operations of an open loop that no connection was free for.
    waiting: VecDeque<Operation>,
    resting: BinaryHeap<Reverse<Rest>>,
    /// What is sent when all that came is read (`batch`).
    outbox: Vec<Id>,
    pause: Pause,
    pool: Pool,
    /// Operations that have begun and not ended, those of the warm-up too.
    open: u64,
    /// Connections that are made, and those that are being made.
    established: u64,
    connecting: u64,
    /// Users whose first request is on its way.
    newcomers: u64,
    next_sweep: u64,
    next_second: u64,
    sweep_ns: u64,
}

impl<'a> Loop<'a> {
    fn new(driver: &'a HttpLoad, worker: Worker) -> anyhow::Result<Self> {
        let shortest = driver.settings.timeout.min(driver.settings.connect_timeout);
        Ok(Self {
            reactor: Reactor::new(Some(worker.stop.waker()))?,
            connections: Slots::with_capacity(0),
            sources: Sources::new(driver.sources.clone(), worker.share),
            buffer: vec![0; BUFFER].into(),
            room: Vec::new(),
            turn: Turn::new(driver),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            resting: BinaryHeap::new(),
            outbox: Vec::new(),
            pause: Pause::new(driver.settings.batch),
            pool: Pool::new(driver, worker.share, &worker.phases),
            open: 0,
            established: 0,
            connecting: 0,
            newcomers: 0,
            next_sweep: 0,
            next_second: 0,
            sweep_ns: (shortest.as_nanos() as u64 / 8).clamp(1_000_000, SWEEP_NS),
            driver,
            worker,
        })
    }

    fn run(mut self) -> anyhow::Result<()> {
        loop {
            let now = clock::now();
            self.look_for_stop(now);
            self.follow_opening();
            let next_connect = self.fill_pool(now);
            let next_start = self.start_due(now);
            let deadline = self.deadline();
            let next_rested = self.resume_rested(now);
            self.empty_outbox();
            self.sweep(now);
            self.account(now);
            if self.over(now) || now >= deadline {
                break;
            }
            let until = [
                next_connect,
                next_start,
                next_rested,
                self.next_sweep,
                self.next_second,
                deadline,
            ];
            let until = until.into_iter().min().unwrap_or(now);
            let until = self.worker.record.wait_until(until, now);
            self.pause.take(until, now);
            let ready = self.reactor.wait(until, now)?;
            self.pause.learn(ready as u64, self.open);
            for place in 0..ready {
                if let Some(event) = self.reactor.event(place) {
                    self.serve(event);
                }
            }
        }
        self.give_up();
        Ok(())
    }

    /// Says when the pool is full, and takes over when the load begins.
    fn follow_opening(&mut self) {
        if !self.pool.has_room(self.established) {
            self.worker.opening.say_open();
        }
        if self.worker.follow_opening() {
            self.pool.end_at(self.worker.phases.end);
        }
    }

    /// Starts nothing more once the run was asked to end.
    fn look_for_stop(&mut self, now: u64) {
        if self.worker.stop.deadline().is_some() {
            self.worker.pacer.stop_at(now);
        }
    }

    fn deadline(&self) -> u64 {
        let Worker {
            phases,
            pacer,
            stop,
            ..
        } = &self.worker;
        phases.deadline(pacer, stop)
    }

    fn over(&self, now: u64) -> bool {
        self.open == 0 && self.resting.is_empty() && self.worker.pacer.over(now)
    }

    /// Hands over what was counted, and every second that is over.
    fn account(&mut self, now: u64) {
        self.hand_over();
        if now >= self.next_second {
            self.worker.record.count(count::HELD, self.established);
        }
        // Every turn: what is open is added up from one to the next.
        self.next_second = self.worker.record.tick(now);
    }

    fn hand_over(&mut self) {
        self.turn.hand_over(&self.worker.record);
    }

    /// Starts what is due; returns when the next start is.
    fn start_due(&mut self, now: u64) -> u64 {
        for _ in 0..STARTS_AT_ONCE {
            // An event tells: one of them is answered, or gone.
            if self.is_crowded() {
                return u64::MAX;
            }
            match self.worker.pacer.poll(now) {
                Tick::Ready(start) => self.begin(start, now),
                Tick::Wait(due) => return self.driver.settings.pacing.look_at(due),
                Tick::Over => return u64::MAX,
            }
        }
        now
    }

    /// Whether users have to wait for those before them. Where there is a rate too, nothing waits.
    fn is_crowded(&self) -> bool {
        let most = (NEWCOMERS / self.worker.share.of).max(16);
        self.newcomers >= most && self.driver.closed.iter().all(|closed| *closed)
    }

    /// A client of a closed loop makes its connection, an operation of an open loop takes one that is free.
    fn begin(&mut self, start: Start, now: u64) {
        let closed = self.driver.closed[usize::from(start.group)];
        let operation = self.operation(start);
        if let Some(late) = start.lag.filter(|_| operation.counted) {
            self.worker.record.lag(late);
        }
        if closed {
            let place = place_of(start, self.worker.share);
            let id = self.connect(Some(operation), place, now);
            let connection = id.and_then(|id| self.connections.get_mut(id));
            if let Some(connection) = connection {
                connection.newcomer = true;
                self.newcomers += 1;
            }
        } else {
            self.assign(operation, now);
        }
    }

    fn operation(&mut self, start: Start) -> Operation {
        let counted = self.worker.phases.counts(start.at);
        self.open += 1;
        self.turn.begin(counted);
        Operation::new(start, counted)
    }

    /// Gives an operation of an open loop to the connection that rested longest, so that all are used.
    fn assign(&mut self, operation: Operation, now: u64) {
        while let Some(id) = self.idle.pop_front() {
            let Some(connection) = self
                .connections
                .get_mut(id)
                .filter(|connection| connection.state == State::Idle)
            else {
                continue;
            };
            connection.take(operation);
            return self.send(id);
        }
        if !self.driver.settings.keep_alive
            && self.pool.has_room(self.established + self.connecting)
        {
            let place = self.pool.next_place();
            self.connect(Some(operation), place, now);
            return;
        }
        self.waiting.push_back(operation);
    }

    fn resume_rested(&mut self, now: u64) -> u64 {
        while let Some(Reverse(rest)) = self.resting.peek().copied() {
            if rest.until > now {
                return rest.until;
            }
            self.resting.pop();
            let previous = start_of(rest.group, rest.index);
            if let Some(start) = self.worker.pacer.again(previous, now) {
                let operation = self.operation(start);
                self.connect(Some(operation), rest.place, now);
            }
        }
        u64::MAX
    }

    fn serve(&mut self, event: Event) {
        let (id, _) = Id::from_token(event.token);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.state == State::Connecting {
            self.connected(id);
        } else if event.writable && connection.unsent() {
            self.send(id);
        }
        if event.readable || event.closing || event.failed {
            self.read(id, event.closing || event.failed);
        }
    }

    /// Sends what a connection has to send, or has it wait until all that came is read.
    fn ask(&mut self, id: Id) {
        match self.driver.settings.batch {
            true => self.outbox.push(id),
            false => self.send(id),
        }
    }

    fn empty_outbox(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.drain(..).for_each(|id| self.send(id));
        self.outbox = outbox;
    }

    /// Hands requests to the kernel until all are or it takes no more.
    fn send(&mut self, id: Id) {
        let phases = self.driver.settings.phases;
        loop {
            let Some(connection) = self.connections.get_mut(id) else {
                return;
            };
            let requests =
                &self.driver.requests[connection.place as usize % self.driver.requests.len()];
            let (offset, begun) = (connection.offset as usize, connection.written);
            let Some(operation) = connection.next_unsent() else {
                return;
            };
            let hop = self.turn.hop(operation);
            let bytes = requests.led_to(operation.index, hop, &mut self.room);
            let is_first = hop.is_none();
            let began = if offset == 0 { clock::now() } else { begun };
            if is_first {
                operation.sent = began;
            }
            let (at, counted) = (operation.at, operation.counted);
            let sent = send(
                connection.socket.as_raw_fd(),
                &bytes[offset..],
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            );
            match sent {
                Ok(length) => {
                    self.turn.sent(length as u64, counted);
                    if !connection.has_sent(length, bytes.len()) {
                        // The kernel tells when it has room again.
                        connection.written = began;
                        return;
                    }
                    if phases {
                        connection.written = clock::now();
                        let record = &self.worker.record;
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
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                // The server may have answered before it closed: what it said is read first.
                Err(errno) => return self.read_last(id, errno),
            }
        }
    }

    /// The connection broke while it was written to.
    fn read_last(&mut self, id: Id, errno: Errno) {
        self.read(id, true);
        self.end(id, outcome::broken(errno));
    }

    /// Reads once, or to the end where the server has closed.
    fn read(&mut self, id: Id, closing: bool) {
        loop {
            let Some(connection) = self.connections.get_mut(id) else {
                return;
            };
            let received = recv(
                connection.socket.as_raw_fd(),
                &mut self.buffer,
                MsgFlags::MSG_DONTWAIT,
            );
            match received {
                Ok(0) => return self.at_end(id),
                Ok(length) => {
                    self.received(id, length);
                    // A short read took all that there was, but for what a side that closes may still have.
                    if length < BUFFER && !closing {
                        return;
                    }
                }
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                Err(errno) => return self.end(id, outcome::broken(errno)),
            }
        }
    }

    /// Takes what came: the rest of an answer, several, or a piece of one.
    fn received(&mut self, id: Id, length: usize) {
        let now = clock::now();
        let asked = Asked {
            head: self.driver.is_head(),
        };
        let mut taken = 0;
        while taken < length {
            let Some(connection) = self.connections.get_mut(id) else {
                return;
            };
            // Nothing was asked, or with `batch` not yet.
            let Some(operation) = connection.first().filter(|operation| operation.sent > 0) else {
                self.worker
                    .record
                    .count(count::EXCESS, (length - taken) as u64);
                return self.end(id, outcome::EARLY_CLOSE);
            };
            let index = operation.index;
            if taken == 0 {
                self.turn.received(length as u64, operation.counted);
            }
            if connection.first_byte == 0 {
                connection.first_byte = now;
                let compares = self.driver.compares(index);
                connection.sum = compares.then(Sum::default);
            }
            let bytes = &self.buffer[taken..length];
            let checks = &self.driver.checks;
            let reader = &mut connection.reader;
            let progress = match (connection.seen.as_deref_mut(), &mut connection.sum) {
                (None, None) => reader.take(asked, bytes, &mut ()),
                (None, Some(sum)) => reader.take(asked, bytes, sum),
                (Some(seen), sum) => {
                    let keeper = Keeper { checks, seen };
                    let sum = sum.as_mut();
                    reader.take(asked, bytes, &mut Both { keeper, sum })
                }
            };
            match progress {
                Ok(progress) => {
                    taken += progress.used;
                    match progress.done {
                        Some(answer) => self.answered(id, answer, now, length - taken),
                        None => return,
                    }
                }
                Err(fault) => return self.end(id, fault.kind()),
            }
        }
    }

    /// The server has closed its side.
    fn at_end(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.first().is_none() {
            return self.end(id, outcome::EARLY_CLOSE);
        }
        match connection.reader.end() {
            Ok(answer) => {
                self.answered(id, answer, clock::now(), 0);
                // What was pipelined after it is not answered any more.
                self.end(id, outcome::EARLY_CLOSE);
            }
            Err(Fault::Early { .. }) => self.end(id, outcome::EARLY_CLOSE),
            Err(fault) => self.end(id, fault.kind()),
        }
    }

    /// Closes a connection. What it was asked and has not answered fails as `kind`; its client goes on with another.
    fn end(&mut self, id: Id, kind: &'static str) {
        let Some(mut connection) = self.connections.remove(id) else {
            return;
        };
        let (group, last, place) = (connection.group, connection.last, connection.place);
        let (state, was_pool) = (connection.state, connection.pool);
        match state {
            State::Connecting => self.connecting -= 1,
            State::Idle | State::Busy => self.established -= 1,
        }
        self.newcomers -= u64::from(connection.newcomer);
        let mut failed = 0;
        while let Some(operation) = connection.answered() {
            failed += 1;
            self.fail(operation, kind);
        }
        drop(connection);
        let now = clock::now();
        if was_pool {
            self.pool_lost(state, failed > 0, now);
            self.connect_waiting(now);
        } else if failed > 0 {
            self.rest(group, last, place, now + REST_NS);
        } else {
            // It has just answered: the next request is due at once, on a new connection.
            self.rest(group, last, place, now);
        }
    }

    fn rest(&mut self, group: u16, index: u64, place: u32, until: u64) {
        if until < self.worker.phases.end {
            self.resting.push(Reverse(Rest {
                until,
                group,
                index,
                place,
            }));
        }
    }

    fn fail(&mut self, operation: Operation, kind: &'static str) {
        self.open -= 1;
        self.turn.failed(&self.worker.record, &operation, kind);
    }

    /// Ends what took too long. A look at every connection costs a few nanoseconds, so that none needs a timer.
    fn sweep(&mut self, now: u64) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.sweep_ns;
        let settings = &self.driver.settings;
        let (whole, connect) = (
            settings.timeout.as_nanos() as u64,
            settings.connect_timeout.as_nanos() as u64,
        );
        let passed = |(id, connection): (Id, &Connection)| match connection.state {
            State::Connecting => (now.saturating_sub(connection.written) > connect)
                .then_some((id, outcome::CONNECT_TIMEOUT)),
            State::Busy => (now.saturating_sub(connection.oldest_sent()) > whole)
                .then_some((id, outcome::TIMEOUT)),
            State::Idle => None,
        };
        let late: Vec<(Id, &'static str)> = self.connections.iter().filter_map(passed).collect();
        late.into_iter().for_each(|(id, kind)| self.end(id, kind));
        while let Some(operation) = self.waiting.front().copied() {
            if now.saturating_sub(operation.at) <= whole {
                break;
            }
            self.waiting.pop_front();
            self.fail(operation, outcome::TIMEOUT);
        }
    }

    /// Counts what is still open when the time is over.
    fn give_up(&mut self) {
        let mut open = self
            .waiting
            .iter()
            .filter(|operation| operation.counted)
            .count();
        let ids: Vec<Id> = self.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(mut connection) = self.connections.remove(id) else {
                continue;
            };
            if connection.state == State::Idle {
                self.count_left(&connection);
            }
            while let Some(operation) = connection.answered() {
                open += usize::from(operation.counted);
            }
        }
        // So that the result says 0 where there were none.
        self.worker.record.count(count::EXCESS, 0);
        self.hand_over();
        self.worker.record.unfinished_many(open as u64);
        count_missed(&mut self.worker.pacer, &self.worker.record);
    }

    /// A connection is there: `began` is when it was begun.
    fn opened(&mut self, began: u64, now: u64) {
        self.connecting -= 1;
        self.established += 1;
        self.worker.record.count(count::OPENED, 1);
        self.worker.record.value(CONNECTING, now - began);
    }
}
