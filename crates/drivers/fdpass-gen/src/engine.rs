//! The hot loop: starts streams and serves those that are ready.
//!
//! Cost of a stream on a 2-core machine, estimated: 8 system calls to hand it over (about 10 µs), one `recv` per record
//! (18 × 1 µs) and its share of an `epoll_wait`, 120 ns to check a record, 20 ns for each value recorded.

mod connect;
mod pending_outcomes;
mod stream;

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};

use load::clock;
use load::driver::Worker;
use load::event_loop::{self, Handler, Options};
use load::pacer::Start;
use load::reactor::Event;
use load::slots::Id;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::expect::Expected;
use crate::outcome::{self, count};
use crate::shared::Shared;
use fdpass_client::handoff::Clients;
use fdpass_client::sse::Fault;
use pending_outcomes::PendingOutcomes;
use stream::{Attempt, Reads, Stream};

/// The two descriptors of a stream, as parts of tokens.
const CLIENT: u8 = 0;
const CONNECTION: u8 = 1;
/// Scheduled streams started before events are served again; streams of a burst are all started.
const STARTS_AT_ONCE: usize = 32;
/// Clients of a burst that are read before events are served again.
const READS_AT_ONCE: usize = 1024;
/// The shared read buffer: more than a daemon writes at once.
const BUFFER: usize = 64 * 1024;
/// Bytes per read of a slow reader.
const SLOW_READ_BYTES: usize = 64;
/// The outcome of a successful stream.
const OK: &str = "ok";

type Context<'a> = event_loop::Context<Streams<'a>>;

/// A timer of the loop.
#[derive(Debug)]
pub(crate) enum Timer {
    /// Connects again.
    Retry(Attempt),
    /// Lets a slow reader read again.
    Resume(Id),
}

/// The streams of one worker.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    shared: &'a Shared,
    clients: Clients,
    pending: PendingOutcomes,
    /// Connect attempts to repeat.
    retries: u64,
    /// Handoff connections that the daemon has not closed.
    untaken: u64,
    /// Descriptors to close together after all events are served. While any socket is in flight, each close of a Unix
    /// socket calls the kernel's garbage collector (`unix_gc`), which preempts another task, unless it is running
    /// already. Closed one by one, 4 to 20 % fewer handoffs passed.
    closing: Vec<OwnedFd>,
    /// Clients that became readable in a burst, each with its event. They are read after it.
    unread: VecDeque<(Id, Event)>,
    expected: Expected,
}

/// Runs one worker's share of the load.
pub(crate) fn work(shared: &Shared, worker: Worker) -> anyhow::Result<()> {
    let options = Options {
        read_buffer: BUFFER,
        starts_per_turn: STARTS_AT_ONCE,
        sweep_ns: shared.timeouts.sweep_ns(),
        ..Options::default()
    };
    let streams = Streams {
        shared,
        clients: Clients::new(shared.settings.client)?,
        pending: PendingOutcomes::new(shared.endpoints.len()),
        retries: 0,
        untaken: 0,
        closing: Vec::new(),
        unread: VecDeque::new(),
        expected: shared.expected(),
    };
    event_loop::run(streams, Context::new(worker, options)?)
}

impl<'a> Handler for Streams<'a> {
    type Connection = Stream;
    type Timer = Timer;

    fn start(&mut self, start: Start, cx: &mut Context<'a>) {
        let attempt = self.attempt(start, cx);
        let is_slow = attempt.reads != Reads::Promptly;
        if attempt.counted && is_slow && self.shared.settings.slow_share.is_some() {
            cx.state.record.count(count::SLOW, 1);
        }
        self.connect(attempt, cx);
    }

    /// Serves what is ready. In a burst, records are left for later, because reading the records of started clients
    /// would delay the rest of the burst.
    fn ready(&mut self, id: Id, event: Event, cx: &mut Context<'a>) {
        match event.side() {
            CONNECTION => self.taken(id, event, cx),
            _ if cx.is_in_burst => self.leave(id, event, cx),
            _ => self.read(id, event, cx),
        }
    }

    fn timer(&mut self, timer: Timer, cx: &mut Context<'a>) {
        match timer {
            Timer::Retry(attempt) => {
                self.retries -= 1;
                self.connect(attempt, cx);
            }
            Timer::Resume(id) => self.resume_reading(id, cx),
        }
    }

    fn expires_at(&self, stream: &Stream) -> u64 {
        stream.expires(&self.shared.timeouts).0
    }

    fn expired(&mut self, id: Id, cx: &mut Context<'a>) {
        let Some(stream) = cx.connections.get_mut(id) else {
            return;
        };
        let (_, kind) = stream.expires(&self.shared.timeouts);
        self.end(id, kind, cx);
    }

    fn turn(&mut self, cx: &mut Context<'a>) -> anyhow::Result<u64> {
        let is_in_burst = cx.state.pacer.is_in_burst(cx.state.now);
        let are_left = !is_in_burst && self.read_left(cx);
        let next = self.pending.settle(cx.state.now, &cx.state.record);
        Ok(if are_left { cx.state.now } else { next })
    }

    fn after_wait(&mut self, _events: usize, _cx: &mut Context<'a>) {
        self.closing.clear();
    }

    fn is_idle(&self, cx: &Context<'a>) -> bool {
        cx.connections.is_empty() && self.retries == 0 && self.pending.is_empty()
    }

    /// Counts streams that are still open when the time is over.
    fn give_up(&mut self, cx: &mut Context<'a>) -> anyhow::Result<()> {
        let record = &cx.state.record;
        self.pending.settle(u64::MAX, record);
        for timer in cx.state.timers.drain() {
            match timer {
                Timer::Retry(attempt) if attempt.counted => {
                    record.error(outcome::connect_error(attempt.errno));
                }
                Timer::Retry(_) | Timer::Resume(_) => {}
            }
        }
        for (_, stream) in cx.connections.iter().filter(|(_, stream)| stream.counted) {
            match stream.reads {
                Reads::Never => record.error(outcome::UNREAD),
                Reads::Promptly | Reads::Slowly => record.unfinished(),
            }
        }
        Ok(())
    }
}

impl<'a> Streams<'a> {
    /// Handles that the daemon has closed the handoff connection.
    fn taken(&mut self, id: Id, event: Event, cx: &mut Context<'a>) {
        let now = clock::now();
        let Some(stream) = cx.connections.get_mut(id) else {
            return;
        };
        if let Some(handoff) = stream.handoff.take() {
            self.untaken -= 1;
            self.closing.push(handoff);
        }
        if event.failed {
            // Closed with the message unread: not taken.
            cx.state.record.count(count::UNTAKEN, 1);
        } else {
            stream.taken(now, &cx.state.record);
        }
    }

    /// Leaves a client that became readable in a burst for later. The kernel reports it once, if it reads promptly.
    fn leave(&mut self, id: Id, event: Event, cx: &mut Context<'a>) {
        let stream = cx.connections.get_mut(id);
        if stream.is_some_and(|stream| stream.reads == Reads::Promptly) {
            self.unread.push_back((id, event));
        }
    }

    /// Reads clients that were left in a burst. Returns true if more are left.
    fn read_left(&mut self, cx: &mut Context<'a>) -> bool {
        for _ in 0..READS_AT_ONCE.min(self.unread.len()) {
            if let Some((id, event)) = self.unread.pop_front() {
                self.read(id, event, cx);
            }
        }
        !self.unread.is_empty()
    }

    /// Reads until nothing is left, and to the end if the daemon has closed already.
    fn read(&mut self, id: Id, event: Event, cx: &mut Context<'a>) {
        loop {
            let Some(stream) = cx.connections.get_mut(id) else {
                return;
            };
            let room = match stream.reads {
                Reads::Promptly => &mut cx.buffer[..],
                Reads::Slowly => &mut cx.buffer[..SLOW_READ_BYTES],
                Reads::Never => return self.end(id, outcome::UNREAD, cx),
            };
            let (whole, slow) = (room.len(), stream.reads == Reads::Slowly);
            let mut again = event.closing;
            let received = recv(stream.client.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT);
            let kind = match received {
                Ok(0) => Some(self.at_end(id, cx)),
                // The data of a closed side is in the buffer completely: a short read is the last one.
                Ok(length) if event.closing && !event.failed && length < whole => self
                    .received(id, length, cx)
                    .or_else(|| Some(self.at_end(id, cx))),
                Ok(length) => {
                    again |= length == whole;
                    self.received(id, length, cx)
                }
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {
                    again = true;
                    None
                }
                Err(_) => Some(outcome::RESET),
            };
            match kind {
                Some(kind) => return self.end(id, kind, cx),
                None if slow => return self.pause_reading(id, cx),
                None if again => {}
                None => return,
            }
        }
    }

    /// Handles a piece of the answer; returns the outcome if it is the last.
    fn received(&mut self, id: Id, length: usize, cx: &mut Context<'a>) -> Option<&'static str> {
        let now = clock::now();
        let stream = cx.connections.get_mut(id)?;
        let record = &cx.state.record;
        let piece = stream.received(&cx.buffer[..length], now, &mut self.expected, record);
        if let Some(variation) = self.expected.take_variation() {
            self.shared.differs(count::VARIES, variation, record);
        }
        match piece {
            Err(fault) => {
                match &fault {
                    Fault::Content(difference) => {
                        self.shared.differs(count::DIFFERS, difference, record);
                    }
                    Fault::Http(_) | Fault::Status(_) | Fault::ContentType => {
                        self.shared.refused(&fault);
                    }
                    _ => {}
                }
                Some(fault.kind())
            }
            Ok(piece) if piece.rejected => Some(outcome::REJECTED),
            Ok(piece) if piece.ended => Some(self.at_end(id, cx)),
            Ok(_) => {
                let most = self.shared.settings.abort_after;
                most.filter(|most| stream.records() >= *most)
                    .map(|_| outcome::ABORTED)
            }
        }
    }

    /// Returns the outcome of a stream that the daemon has closed.
    fn at_end(&mut self, id: Id, cx: &mut Context<'a>) -> &'static str {
        let now = clock::now();
        let Some(stream) = cx.connections.get_mut(id) else {
            return outcome::INCOMPLETE;
        };
        stream.closed(now, self.shared, &mut self.expected, &cx.state.record)
    }

    /// Removes a stream and counts its outcome.
    fn end(&mut self, id: Id, kind: &'static str, cx: &mut Context<'a>) {
        let Some(stream) = cx.connections.remove(id) else {
            return;
        };
        let bytes = stream.bytes();
        self.closing.push(stream.client);
        if let Some(handoff) = stream.handoff {
            self.closing.push(handoff);
            self.untaken -= 1;
            cx.state.record.count(count::UNTAKEN, 1);
        }
        self.shared.say(stream.start, kind, bytes);
        if kind == OK {
            let record = &cx.state.record;
            record.goodput(stream.counted, u64::from(stream.meets));
        }
        if !stream.counted {
            return match kind {
                OK => cx.state.record.ok_of_warmup(1),
                _ => cx.state.record.error_of_warmup(kind),
            };
        }
        match kind {
            OK => cx.state.record.ok(),
            // A 503 is a definite outcome.
            outcome::REJECTED if bytes > 0 => cx.state.record.error(kind),
            outcome::REJECTED | outcome::INCOMPLETE | outcome::RESET => {
                self.pending.add(stream.endpoint, kind);
            }
            kind => cx.state.record.error(kind),
        }
    }

    /// Pauses a slow reader after a read.
    fn pause_reading(&mut self, id: Id, cx: &mut Context<'a>) {
        let pause = self.shared.settings.slow_reader;
        let (Some(stream), Some(pause)) = (cx.connections.get_mut(id), pause) else {
            return;
        };
        if cx.reactor.unwatch(&stream.client).is_err() {
            return self.end(id, outcome::EPOLL, cx);
        }
        let until = clock::now() + pause.as_nanos() as u64;
        cx.state.timers.set(until, Timer::Resume(id));
    }

    fn resume_reading(&mut self, id: Id, cx: &mut Context<'a>) {
        let Some(stream) = cx.connections.get_mut(id) else {
            return;
        };
        if cx.reactor.watch(&stream.client, id.token(CLIENT)).is_err() {
            self.end(id, outcome::EPOLL, cx);
        }
    }
}
