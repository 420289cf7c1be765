//! The hot loop: start what is due, serve what is ready, wait.
//!
//! Cost of a stream on a 2-core machine, estimated: 8 system calls to hand it over (about 10 µs), one `recv` per record
//! (18 × 1 µs) and its share of an `epoll_wait`, 120 ns to check a record, 20 ns for each value recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsRawFd as _, OwnedFd};

use load::clock;
use load::driver::Worker;
use load::pacer::{Start, Tick};
use load::reactor::{Event, Reactor};
use load::slots::{Id, Slots};
use load::workers::count_missed;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::doubts::PendingOutcomes;
use crate::driver::FdPass;
use crate::expect::{Expect, Expected};
use crate::handoff::{Clients, pass};
use crate::outcome::{self, count};
use crate::series::{CONNECT, DRIFT, FIRST_BYTE, FIRST_EVENT, GAP, HANDOFF, STREAM, TAKE};
use crate::stream::{Reads, Stream, StreamStart};

/// The two descriptors of a stream, as parts of tokens.
const CLIENT: u8 = 0;
const CONNECTION: u8 = 1;
/// Scheduled streams started before events are served again; those of a burst are all started.
const STARTS_AT_ONCE: usize = 32;
/// The shared read buffer: more than a daemon writes at once.
const BUFFER: usize = 64 * 1024;
/// Bytes per read of a slow reader.
const SLOW_READ_BYTES: usize = 64;
/// Pause before the first retry of a connect; it doubles each time, as in the Apache module.
const RETRY_PAUSE_NS: u64 = 10_000_000;
/// Spare descriptors: with fewer left, handoff connections are closed early, as the reference does.
const SPARE_DESCRIPTORS: u64 = 512;

/// A connect attempt to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Retry {
    at: u64,
    start: u64,
    /// Its number among all starts of the run.
    index: u64,
    attempt: u32,
    errno: i32,
}

/// The streams of one worker.
#[derive(Debug)]
pub(crate) struct Loop<'a> {
    driver: &'a FdPass,
    worker: Worker,
    clients: Clients,
    reactor: Reactor,
    streams: Slots<Stream>,
    buffer: Vec<u8>,
    retries: BinaryHeap<Reverse<Retry>>,
    paused: BinaryHeap<Reverse<(u64, Id)>>,
    pending: PendingOutcomes,
    /// Handoff connections that the daemon has not closed.
    untaken: u64,
    next_sweep: u64,
    ended: Vec<(Id, &'static str)>,
    /// Descriptors to close together at the end of the iteration. While any socket is in flight, each close of a Unix
    /// socket calls the kernel's garbage collector (`unix_gc`), which preempts another task, unless it is running
    /// already. Closed one by one, 4 to 20 % fewer handoffs passed.
    closing: Vec<OwnedFd>,
    expected: Expected,
}

impl<'a> Loop<'a> {
    pub(crate) fn new(driver: &'a FdPass, worker: Worker) -> anyhow::Result<Self> {
        Ok(Self {
            driver,
            clients: Clients::new(driver.settings.client)?,
            reactor: Reactor::new(Some(worker.stop.waker()))?,
            streams: Slots::with_capacity(0),
            buffer: vec![0; BUFFER],
            retries: BinaryHeap::new(),
            paused: BinaryHeap::new(),
            pending: PendingOutcomes::new(driver.endpoints.len()),
            untaken: 0,
            next_sweep: 0,
            ended: Vec::new(),
            closing: Vec::new(),
            expected: driver.expected(),
            worker,
        })
    }

    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        loop {
            let now = clock::now();
            let next_start = self.start_due(now);
            let deadline = self.deadline();
            let next_again = self.retry_due(now);
            let next_rested = self.resume_rested(now);
            self.sweep(now);
            let next_settled = self.pending.settle(now, &self.worker.record);
            let second = self.worker.record.tick(now);
            if self.over(now) || now >= deadline {
                break;
            }
            let bursts = self.worker.pacer.is_in_burst(now);
            let until = [
                next_start,
                next_again,
                next_rested,
                self.next_sweep,
                next_settled,
                second,
                deadline,
            ]
            .into_iter()
            .min()
            .unwrap_or(now);
            let until = self.worker.record.wait_until(until, now);
            for place in 0..self.reactor.wait(until, now)? {
                if let Some(event) = self.reactor.event(place) {
                    self.serve(event, bursts);
                }
            }
            self.closing.clear();
        }
        self.give_up();
        Ok(())
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
        self.worker.pacer.over(now)
            && self.streams.is_empty()
            && self.retries.is_empty()
            && self.pending.is_empty()
    }

    /// Starts what is due; returns when the next start is due.
    fn start_due(&mut self, now: u64) -> u64 {
        if self.worker.stop.deadline().is_some() {
            self.worker.pacer.stop_at(now);
        }
        for _ in 0..STARTS_AT_ONCE {
            match self.worker.pacer.poll(now) {
                Tick::Ready(start) => self.begin(start),
                Tick::Wait(due) => return due,
                Tick::Over => return u64::MAX,
            }
        }
        now
    }

    fn begin(&mut self, start: Start) {
        if self.worker.phases.counts(start.at) {
            self.worker.record.begin();
            if let Some(late) = start.lag {
                self.worker.record.lag(late);
            }
            if self.driver.settings.slow_share.is_some()
                && self.driver.settings.is_slow(start.index)
            {
                self.worker.record.count(count::SLOW, 1);
            }
        } else {
            self.worker.record.count(count::WARMUP, 1);
        }
        self.connect(Retry {
            at: start.at,
            start: start.at,
            index: start.index,
            attempt: 0,
            errno: 0,
        });
    }

    fn retry_due(&mut self, now: u64) -> u64 {
        while let Some(Reverse(retry)) = self.retries.peek().copied() {
            if retry.at > now {
                return retry.at;
            }
            self.retries.pop();
            self.connect(retry);
        }
        u64::MAX
    }

    /// Creates the client first and then connects, so that nothing delays the message after `connect`, which wakes the
    /// daemon.
    fn connect(&mut self, attempt: Retry) {
        let (ours, theirs) = match self.clients.open() {
            Ok(client) => client,
            Err(errno) => return self.failed(attempt.start, outcome::connect_error(errno)),
        };
        let stream_start = self.stream_start(attempt.start, attempt.index);
        let began = clock::now();
        match self.driver.endpoints[usize::from(stream_start.endpoint)].connect() {
            Ok(handoff) => self.hand_over(stream_start, began, handoff, ours, theirs),
            Err(errno) => self.refused(attempt, began, errno),
        }
    }

    fn stream_start(&self, start: u64, index: u64) -> StreamStart {
        let settings = &self.driver.settings;
        let counted = self.worker.phases.counts(start);
        let reads = match (settings.is_slow(index), settings.never_read) {
            (false, _) => Reads::Promptly,
            (true, false) => Reads::Slowly,
            (true, true) => Reads::Never,
        };
        StreamStart {
            start,
            counted,
            timed: counted && (reads == Reads::Promptly || settings.slow_share.is_none()),
            reads,
            endpoint: self.driver.endpoint_of(index),
        }
    }

    fn refused(&mut self, mut attempt: Retry, at: u64, errno: Errno) {
        if errno != Errno::EAGAIN {
            self.pending.refused(self.driver.endpoint_of(attempt.index));
        }
        if !outcome::may_retry(errno) || attempt.attempt >= self.driver.settings.retries {
            return self.failed(attempt.start, outcome::connect_error(errno));
        }
        self.worker.record.count(count::RETRIES, 1);
        attempt.at = at + (RETRY_PAUSE_NS << attempt.attempt);
        attempt.attempt += 1;
        attempt.errno = errno as i32;
        self.retries.push(Reverse(attempt));
    }

    fn hand_over(
        &mut self,
        stream_start: StreamStart,
        began: u64,
        handoff: OwnedFd,
        ours: OwnedFd,
        theirs: OwnedFd,
    ) {
        let sent = clock::now();
        if let Err(errno) = pass(&handoff, &self.driver.payload, theirs.as_raw_fd()) {
            return self.unsent(stream_start, errno);
        }
        drop(theirs);
        let handed = clock::now();
        self.pending.learn(stream_start.endpoint, &handoff);
        let record = &self.worker.record;
        record.count(count::HANDOFFS, 1);
        if stream_start.timed {
            record.value(CONNECT, sent - began);
            record.value(HANDOFF, handed - sent);
        }
        let stream = Stream::new(ours, handoff, stream_start, sent, handed);
        let id = self.streams.insert(stream);
        self.watch(id);
    }

    /// Handles a failed send. A daemon that closes a connection unread refuses it, or has just died.
    fn unsent(&mut self, stream_start: StreamStart, errno: Errno) {
        match outcome::send_error(errno) {
            outcome::REJECTED if stream_start.counted => {
                self.pending.add(stream_start.endpoint, outcome::REJECTED)
            }
            kind => self.failed(stream_start.start, kind),
        }
    }

    fn watch(&mut self, id: Id) {
        let open = self.streams.len() as u64 + self.untaken;
        let stream = self.streams.get_mut(id).expect("inserted just now");
        let watched = if stream.reads == Reads::Never {
            self.reactor.watch_end(&stream.client, id.token(CLIENT))
        } else {
            self.reactor.watch(&stream.client, id.token(CLIENT))
        };
        let early = open + SPARE_DESCRIPTORS > self.worker.descriptors;
        let handoff = stream.handoff.take_if(|_| early);
        if handoff.is_some() {
            self.worker.record.count(count::UNTAKEN, 1);
        } else {
            self.untaken += 1;
        }
        let taken = stream.handoff.as_ref().map_or(Ok(()), |handoff| {
            self.reactor.watch_end(handoff, id.token(CONNECTION))
        });
        if watched.and(taken).is_err() {
            self.end(id, "epoll");
        }
    }

    /// Counts a start that created no stream.
    fn failed(&self, start: u64, kind: &'static str) {
        match self.worker.phases.counts(start) {
            true => self.worker.record.error(kind),
            false => self.worker.record.error_of_warmup(),
        }
        self.driver.say(start, kind, 0);
    }

    /// Serves what is ready. In a burst, records are left for later, because reading those of started clients would
    /// delay the rest of the burst. The kernel reports them again.
    fn serve(&mut self, event: Event, bursts: bool) {
        let (id, side) = Id::from_token(event.token);
        match side {
            CONNECTION => self.taken(id, event),
            _ if bursts => {}
            _ => self.read(id, event),
        }
    }

    /// Handles that the daemon has closed the handoff connection.
    fn taken(&mut self, id: Id, event: Event) {
        let now = clock::now();
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if let Some(handoff) = stream.handoff.take() {
            self.untaken -= 1;
            self.closing.push(handoff);
        }
        match event.failed {
            // Closed with the message unread: not taken.
            true => self.worker.record.count(count::UNTAKEN, 1),
            false if stream.timed => self.worker.record.value(TAKE, now - stream.sent),
            false => {}
        }
    }

    /// Reads once, or to the end if the daemon has closed already.
    fn read(&mut self, id: Id, event: Event) {
        loop {
            let Some(stream) = self.streams.get_mut(id) else {
                return;
            };
            let room = match stream.reads {
                Reads::Promptly => &mut self.buffer[..],
                Reads::Slowly => &mut self.buffer[..SLOW_READ_BYTES],
                Reads::Never => return self.end(id, outcome::UNREAD),
            };
            let (whole, slow) = (room.len(), stream.reads == Reads::Slowly);
            let received = recv(stream.client.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT);
            let kind = match received {
                Ok(0) => Some(self.at_end(id)),
                // The data of a closed side is in the buffer completely: a short read is the last one.
                Ok(length) if event.closing && !event.failed && length < whole => {
                    self.received(id, length).or_else(|| Some(self.at_end(id)))
                }
                Ok(length) => self.received(id, length),
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => None,
                Err(_) => Some(outcome::RESET),
            };
            match kind {
                Some(kind) => return self.end(id, kind),
                None if slow => return self.pause_reading(id),
                None if !event.closing => return,
                None => {}
            }
        }
    }

    /// Handles a piece of the answer; returns the outcome if it is the last.
    fn received(&mut self, id: Id, length: usize) -> Option<&'static str> {
        let now = clock::now();
        let stream = self.streams.get_mut(id)?;
        let first = stream.bytes == 0;
        let before = stream.reader.records();
        let piece = stream.read(&self.buffer[..length], &mut self.expected);
        stream.last = now;
        let records = piece.as_ref().map_or(0, |piece| piece.records);
        let record = &self.worker.record;
        if stream.counted {
            record.count(count::BYTES, length as u64);
            if records > 0 {
                record.count(count::EVENTS, u64::from(records));
            }
        } else {
            record.count_of_warmup(count::BYTES, length as u64);
            record.count_of_warmup(count::EVENTS, u64::from(records));
        }
        if stream.timed {
            if first {
                record.value(FIRST_BYTE, now - stream.handed);
            }
            if records > 0 {
                match before {
                    0 => record.value(FIRST_EVENT, now - stream.start),
                    _ => record.value(GAP, now - stream.event),
                }
                (1..records).for_each(|_| record.value(GAP, 1));
            }
        }
        if records > 0 {
            stream.event = now;
        }
        match piece {
            Err(broken) => {
                if let Some(difference) = broken.difference {
                    self.driver.differs(&difference, record);
                }
                Some(broken.fault.kind())
            }
            Ok(piece) if piece.rejected => Some(outcome::REJECTED),
            Ok(_) => self
                .driver
                .settings
                .abort_after
                .filter(|most| stream.reader.records() >= *most)
                .map(|_| outcome::ABORTED),
        }
    }

    /// Returns the outcome of a stream that the daemon has closed.
    fn at_end(&mut self, id: Id) -> &'static str {
        let now = clock::now();
        let Some(stream) = self.streams.get_mut(id) else {
            return outcome::INCOMPLETE;
        };
        if stream.bytes == 0 {
            return outcome::REJECTED;
        }
        if !stream.complete() {
            return outcome::INCOMPLETE;
        }
        if self
            .driver
            .settings
            .messages
            .is_some_and(|expected| expected != stream.reader.records())
        {
            return crate::sse::Fault::Order.kind();
        }
        if stream.timed {
            let took = now - stream.handed;
            self.worker.record.value(STREAM, took);
            if let Some(nominal) = self.driver.nominal_ns {
                match took.checked_sub(nominal) {
                    Some(drift) => self.worker.record.value(DRIFT, drift.max(1)),
                    None => self.worker.record.count(count::EARLY, 1),
                }
            }
        }
        if stream.counted {
            match self.expected.basis() {
                Expect::Transcript => self.worker.record.count(count::AS_TRANSCRIPT, 1),
                Expect::First => self.worker.record.count(count::AS_FIRST, 1),
                Expect::Auto | Expect::Any => {}
            }
        }
        OK
    }

    /// Removes a stream and counts its outcome.
    fn end(&mut self, id: Id, kind: &'static str) {
        let Some(stream) = self.streams.remove(id) else {
            return;
        };
        self.closing.push(stream.client);
        if let Some(handoff) = stream.handoff {
            self.closing.push(handoff);
            self.untaken -= 1;
            self.worker.record.count(count::UNTAKEN, 1);
        }
        self.driver.say(stream.start, kind, stream.bytes);
        if !stream.counted {
            return match kind {
                OK => self.worker.record.ok_of_warmup(1),
                _ => self.worker.record.error_of_warmup(),
            };
        }
        match kind {
            OK => self.worker.record.ok(),
            // A 503 is a definite outcome.
            outcome::REJECTED if stream.bytes > 0 => self.worker.record.error(kind),
            outcome::REJECTED | outcome::INCOMPLETE | outcome::RESET => {
                self.pending.add(stream.endpoint, kind);
            }
            kind => self.worker.record.error(kind),
        }
    }

    /// Pauses a slow reader after a read.
    fn pause_reading(&mut self, id: Id) {
        let (Some(stream), Some(rest)) =
            (self.streams.get_mut(id), self.driver.settings.slow_reader)
        else {
            return;
        };
        match self.reactor.unwatch(&stream.client) {
            Ok(()) => self
                .paused
                .push(Reverse((clock::now() + rest.as_nanos() as u64, id))),
            Err(_) => self.end(id, "epoll"),
        }
    }

    fn resume_rested(&mut self, now: u64) -> u64 {
        while let Some(Reverse((at, id))) = self.paused.peek().copied() {
            if at > now {
                return at;
            }
            self.paused.pop();
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            if self
                .reactor
                .watch(&stream.client, id.token(CLIENT))
                .is_err()
            {
                self.end(id, "epoll");
            }
        }
        u64::MAX
    }

    /// Ends streams that took too long. Checking a stream costs a few nanoseconds, so no stream needs a timer.
    fn sweep(&mut self, now: u64) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.driver.timeouts.sweep_ns;
        let timeouts = &self.driver.timeouts;
        self.ended.extend(
            self.streams
                .iter()
                .filter_map(|(id, stream)| Some((id, timeouts.passed(stream, now)?))),
        );
        while let Some((id, kind)) = self.ended.pop() {
            let reads = self.streams.get_mut(id).map(|stream| stream.reads);
            let unread = reads == Some(Reads::Never);
            self.end(id, if unread { outcome::UNREAD } else { kind });
        }
    }

    /// Counts streams that are still open when the time is over.
    fn give_up(&mut self) {
        self.pending.settle(u64::MAX, &self.worker.record);
        for Reverse(retry) in self.retries.drain() {
            if self.worker.phases.counts(retry.start) {
                self.worker
                    .record
                    .error(outcome::connect_error(Errno::from_raw(retry.errno)));
            }
        }
        for (_, stream) in self.streams.iter().filter(|(_, stream)| stream.counted) {
            match stream.reads {
                Reads::Never => self.worker.record.error(outcome::UNREAD),
                _ => self.worker.record.unfinished(),
            }
        }
        count_missed(&mut self.worker.pacer, &self.worker.record);
    }
}

/// The outcome of a successful stream.
const OK: &str = "ok";
