//! The engine `wire`: HTTP/1.1 in one event loop per worker.
//!
//! Cost of a request on a persistent connection, roughly: one `send`, one `recv` and a share of an `epoll_wait`, which
//! are nine tenths of it; 150 ns to parse the response, 30 ns for the clock, 10 ns for each recorded value. A
//! connection is an entry of about 130 bytes; all share one buffer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::AsRawFd as _;

use load::clock;
use load::driver::Worker;
use load::net::pool::{Pool, RETRY_BACKOFF_NS, RampLimit};
use load::net::sources::Sources;
use load::pacer::{Start, Tick};
use load::reactor::{Event, Reactor};
use load::slots::{Id, Slots};
use load::workers::count_missed;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

use crate::answer::{Fault, RequestInfo};
use crate::checks::ResponseCapture;
use crate::content::{CaptureAndSum, Checksum};
use crate::driver::HttpLoad;
use crate::operation::{Backoff, Operation, connection_of, start_of};
use crate::outcome::{self, count};
use crate::series::{BLOCKED, CONNECTING, SENDING};
use crate::turn::BatchCounters;

mod connection;
mod dial;
mod next;
mod pause;

use connection::{Connection, State};
use pause::Pause;

/// Size of the shared read buffer: usually more than a server sends at once.
const BUFFER: usize = 64 * 1024;
/// Maximum number of operations started per loop iteration.
const STARTS_PER_ITERATION: usize = 64;
/// Maximum time between two sweeps for timeouts.
const SWEEP_NS: u64 = 1_000_000_000;

/// Runs one worker's share of the load.
pub(crate) fn work(driver: &HttpLoad, worker: Worker) -> anyhow::Result<()> {
    EventLoop::new(driver, worker)?.run()
}

/// The connections and operations of one worker.
#[derive(Debug)]
struct EventLoop<'a> {
    driver: &'a HttpLoad,
    worker: Worker,
    reactor: Reactor,
    connections: Slots<Connection>,
    sources: Sources,
    buffer: Box<[u8]>,
    /// Buffer for requests that contain a number.
    room: Vec<u8>,
    counters: BatchCounters<'a>,
    /// Idle connections of the pool, the longest idle first. Some may have closed since.
    idle: VecDeque<Id>,
    /// Operations of an open loop that wait for a free connection.
    waiting: VecDeque<Operation>,
    backing_off: BinaryHeap<Reverse<Backoff>>,
    /// Connections with requests to send after all responses are read (`batch`).
    outbox: Vec<Id>,
    pause: Pause,
    pool: Pool,
    /// Operations in progress, including those of the warm-up.
    open: u64,
    /// Open connections, and pending attempts.
    established: u64,
    connecting: u64,
    ramp: RampLimit,
    next_sweep: u64,
    next_second: u64,
    sweep_ns: u64,
}

impl<'a> EventLoop<'a> {
    fn new(driver: &'a HttpLoad, worker: Worker) -> anyhow::Result<Self> {
        let shortest = driver.settings.timeout.min(driver.settings.connect_timeout);
        Ok(Self {
            reactor: Reactor::new(Some(worker.stop.waker()))?,
            connections: Slots::with_capacity(0),
            sources: Sources::new(driver.sources.clone(), worker.share),
            buffer: vec![0; BUFFER].into(),
            room: Vec::new(),
            counters: BatchCounters::new(driver),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            backing_off: BinaryHeap::new(),
            outbox: Vec::new(),
            pause: Pause::new(driver.settings.batch),
            pool: Pool::new(driver.pool, worker.share, &worker.phases),
            open: 0,
            established: 0,
            connecting: 0,
            ramp: RampLimit::new(worker.share, driver.is_closed()),
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
            self.check_cancel(now);
            self.follow_opening();
            let next_connect = self.fill_pool(now);
            let next_start = self.start_due(now);
            let deadline = self.deadline();
            let next_retry = self.retry_due(now);
            self.empty_outbox();
            self.sweep(now);
            self.record_counts(now);
            if self.is_done(now) || now >= deadline {
                break;
            }
            let until = [
                next_connect,
                next_start,
                next_retry,
                self.next_sweep,
                self.next_second,
                deadline,
            ];
            let until = until.into_iter().min().unwrap_or(now);
            let until = self.worker.record.wait_until(until, now);
            self.pause.sleep(until, now);
            let ready = self.reactor.wait(until, now)?;
            self.pause.adjust(ready as u64, self.open);
            for index in 0..ready {
                if let Some(event) = self.reactor.event(index) {
                    self.serve(event);
                }
            }
        }
        self.record_unfinished();
        Ok(())
    }

    /// Reports a full pool, and adopts the new phases when the load starts.
    fn follow_opening(&mut self) {
        if !self.pool.has_room(self.established) {
            self.worker.opening.say_open();
        }
        if self.worker.follow_opening() {
            self.pool.set_end(self.worker.phases.end);
        }
    }

    /// Stops starting operations once the run is canceled.
    fn check_cancel(&mut self, now: u64) {
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

    fn is_done(&self, now: u64) -> bool {
        self.open == 0 && self.backing_off.is_empty() && self.worker.pacer.over(now)
    }

    /// Records the counts, and every completed second.
    fn record_counts(&mut self, now: u64) {
        self.flush();
        if now >= self.next_second {
            self.worker.record.count(count::HELD, self.established);
        }
        // In every iteration, since open operations are integrated over time.
        self.next_second = self.worker.record.tick(now);
    }

    fn flush(&mut self) {
        self.counters.flush(&self.worker.record);
    }

    /// Starts the operations that are due; returns the time of the next start.
    fn start_due(&mut self, now: u64) -> u64 {
        for _ in 0..STARTS_PER_ITERATION {
            // No timer needed: the next response or close wakes us.
            if self.ramp.is_reached() {
                return u64::MAX;
            }
            match self.worker.pacer.poll(now) {
                Tick::Ready(start) => self.begin(start, now),
                Tick::Wait(due) => return self.driver.settings.pacing.wake_at(due),
                Tick::Over => return u64::MAX,
            }
        }
        now
    }

    /// Begins an operation: a closed-loop client opens its connection, an open-loop operation takes a free one.
    fn begin(&mut self, start: Start, now: u64) {
        let closed = self.driver.closed[usize::from(start.group)];
        let operation = self.operation(start);
        if let Some(late) = start.lag.filter(|_| operation.counted) {
            self.worker.record.lag(late);
        }
        if closed {
            let index = connection_of(start, self.worker.share);
            let id = self.connect(Some(operation), index, now);
            let connection = id.and_then(|id| self.connections.get_mut(id));
            if let Some(connection) = connection {
                connection.awaiting_first_response = true;
                self.ramp.start();
            }
        } else {
            self.assign(operation, now);
        }
    }

    fn operation(&mut self, start: Start) -> Operation {
        let counted = self.worker.phases.counts(start.at);
        self.open += 1;
        self.counters.begin(counted);
        Operation::new(start, counted)
    }

    /// Assigns an open-loop operation to the connection that was idle longest, so that all are used.
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
        if self.pool.opens_on_demand(self.established + self.connecting) {
            let index = self.pool.next_index();
            self.connect(Some(operation), index, now);
            return;
        }
        self.waiting.push_back(operation);
    }

    fn retry_due(&mut self, now: u64) -> u64 {
        while let Some(Reverse(backoff)) = self.backing_off.peek().copied() {
            if backoff.until > now {
                return backoff.until;
            }
            self.backing_off.pop();
            let previous = start_of(backoff.group, backoff.index);
            if let Some(start) = self.worker.pacer.again(previous, now) {
                let operation = self.operation(start);
                self.connect(Some(operation), backoff.connection, now);
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

    /// Sends a connection's requests, or queues it until all responses are read.
    fn queue_send(&mut self, id: Id) {
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

    /// Sends requests until all are sent or the kernel accepts no more.
    fn send(&mut self, id: Id) {
        let phases = self.driver.settings.phases;
        loop {
            let Some(connection) = self.connections.get_mut(id) else {
                return;
            };
            let requests =
                &self.driver.requests[connection.index as usize % self.driver.requests.len()];
            let (offset, begun) = (connection.offset as usize, connection.written);
            let Some(operation) = connection.next_unsent() else {
                return;
            };
            let hop = self.counters.hop(operation);
            let bytes = requests.bytes(operation.index, hop, &mut self.room);
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
                    self.counters.sent(length as u64, counted);
                    if !connection.record_sent(length, bytes.len()) {
                        // The kernel reports when it has room again.
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
                // The server may have responded before it closed: read that first.
                Err(errno) => return self.read_last(id, errno),
            }
        }
    }

    /// Reads the last response of a connection that broke during a write.
    fn read_last(&mut self, id: Id, errno: Errno) {
        self.read(id, true);
        self.end(id, outcome::broken(errno));
    }

    /// Reads once, or to the end if the server has closed.
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
                    // A short read took everything, unless the peer closes and may still have data.
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

    /// Processes received bytes: one response, several, or a part of one.
    fn received(&mut self, id: Id, length: usize) {
        let now = clock::now();
        let asked = RequestInfo {
            head: self.driver.is_head(),
        };
        let mut taken = 0;
        while taken < length {
            let Some(connection) = self.connections.get_mut(id) else {
                return;
            };
            // No request was sent; with `batch`, not yet.
            let Some(operation) = connection.first().filter(|operation| operation.sent > 0) else {
                self.worker
                    .record
                    .count(count::EXCESS, (length - taken) as u64);
                return self.end(id, outcome::EARLY_CLOSE);
            };
            let index = operation.index;
            if taken == 0 {
                self.counters.received(length as u64, operation.counted);
            }
            if connection.first_byte == 0 {
                connection.first_byte = now;
                let compares = self.driver.compares(index);
                connection.sum = compares.then(Checksum::default);
            }
            let bytes = &self.buffer[taken..length];
            let checks = &self.driver.checks;
            let reader = &mut connection.reader;
            let progress = match (connection.captured.as_deref_mut(), &mut connection.sum) {
                (None, None) => reader.take(asked, bytes, &mut ()),
                (None, Some(sum)) => reader.take(asked, bytes, sum),
                (Some(captured), sum) => {
                    let capture = ResponseCapture { checks, captured };
                    let sum = sum.as_mut();
                    reader.take(asked, bytes, &mut CaptureAndSum { capture, sum })
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

    /// Handles the end of the server's data.
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
                // Pipelined requests after it will not be answered.
                self.end(id, outcome::EARLY_CLOSE);
            }
            Err(Fault::Early { .. }) => self.end(id, outcome::EARLY_CLOSE),
            Err(fault) => self.end(id, fault.kind()),
        }
    }

    /// Closes a connection. Its unanswered operations fail as `kind`; its client goes on with another connection.
    fn end(&mut self, id: Id, kind: &'static str) {
        let Some(mut connection) = self.connections.remove(id) else {
            return;
        };
        let (group, last, index) = (connection.group, connection.last, connection.index);
        let (state, was_pool) = (connection.state, connection.pool);
        match state {
            State::Connecting => self.connecting -= 1,
            State::Idle | State::Busy => self.established -= 1,
        }
        if connection.awaiting_first_response {
            self.ramp.end();
        }
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
            self.back_off(group, last, index, now + RETRY_BACKOFF_NS);
        } else {
            // It has just responded: the next request is due at once, on a new connection.
            self.back_off(group, last, index, now);
        }
    }

    fn back_off(&mut self, group: u16, index: u64, connection: u32, until: u64) {
        if until < self.worker.phases.end {
            self.backing_off.push(Reverse(Backoff {
                until,
                group,
                index,
                connection,
            }));
        }
    }

    fn fail(&mut self, operation: Operation, kind: &'static str) {
        self.open -= 1;
        self.counters.failed(&self.worker.record, &operation, kind);
    }

    /// Ends operations and connection attempts that took too long. Checking a connection costs a few nanoseconds, so
    /// none needs a timer.
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

    /// Counts the operations that are still open at the end.
    fn record_unfinished(&mut self) {
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
                self.count_unread(&connection);
            }
            while let Some(operation) = connection.answered() {
                open += usize::from(operation.counted);
            }
        }
        // Makes the result report 0 if there were none.
        self.worker.record.count(count::EXCESS, 0);
        self.flush();
        self.worker.record.unfinished_many(open as u64);
        count_missed(&mut self.worker.pacer, &self.worker.record);
    }

    /// Counts a connection that was opened, and its connect time since `began`.
    fn opened(&mut self, began: u64, now: u64) {
        self.connecting -= 1;
        self.established += 1;
        self.worker.record.count(count::OPENED, 1);
        self.worker.record.value(CONNECTING, now - began);
    }
}
