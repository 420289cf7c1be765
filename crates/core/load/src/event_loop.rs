//! The loop of a worker: starts what is due, serves what is ready, waits.
//!
//! A driver implements [`Handler`] for connections that it reads and writes itself, and hands it to [`run`]. A driver
//! whose connections are futures of a client library implements [`AsyncHandler`] and awaits [`run_async`]. One whose
//! clients do one operation after the other implements [`Operations`] and awaits [`operations`]. All follow the rules of [`LoopState`], so that starts, lateness, missed and unfinished operations, the drain phase and
//! cancellation mean the same everywhere.
//!
//! A turn of the loop:
//!
//! 1. After a cancellation, nothing starts any more. A load that was brought forward begins.
//! 2. Due operations start ([`Handler::start`]), their begin and lateness are recorded.
//! 3. Due timers fire ([`Handler::timer`]), and connections whose deadline has passed expire ([`Handler::expired`]).
//! 4. The handler does what it collected ([`Handler::turn`]), and a second that has ended is sent off.
//! 5. The loop ends if nothing will start and nothing is open, or at the end of the drain phase. Otherwise it waits, and
//!    serves the connections that are ready ([`Handler::ready`]).
//!
//! At the end, [`Handler::give_up`] counts what is still open, and the loop counts what never started.
//!
//! Cost: `run` is compiled for each handler. A turn reads the clock three times and allocates nothing; an event costs its share
//! of an `epoll_wait` for up to 1,024 connections. All connections share one read buffer, one timer and one epoll set.

mod futures;
mod operations;
mod state;
mod timers;

pub use futures::{AsyncHandler, run_async};
pub use operations::{Operation, Operations, operations};
pub use state::{LoopState, Options, Pacing};
pub use timers::Timers;

use crate::clock;
use crate::driver::Worker;
use crate::pacer::Start;
use crate::reactor::{Event, Reactor};
use crate::slots::{Id, Slots};

/// The protocol of a driver, for connections that the loop watches.
pub trait Handler: Sized {
    /// A connection, or another entry with descriptors.
    type Connection;
    /// The content of a timer: a retry, a backoff, a heartbeat.
    type Timer;

    /// Starts an operation that is due now.
    fn start(&mut self, start: Start, cx: &mut Context<Self>);

    /// Returns false if due operations must wait, until an event or a timer ends the wait.
    fn can_start(&self, _cx: &Context<Self>) -> bool {
        true
    }

    /// Serves a connection that is ready. It may have ended since the kernel reported it.
    fn ready(&mut self, id: Id, event: Event, cx: &mut Context<Self>);

    /// Handles a timer that is due.
    fn timer(&mut self, _timer: Self::Timer, _cx: &mut Context<Self>) {}

    /// Returns the time after which a connection has [expired](Self::expired).
    fn expires_at(&self, _connection: &Self::Connection) -> u64 {
        u64::MAX
    }

    /// Ends a connection whose time has passed. Connections are checked every [`Options::sweep_ns`]: checking one costs
    /// a few nanoseconds, so none needs a timer.
    fn expired(&mut self, _id: Id, _cx: &mut Context<Self>) {}

    /// Does what is to be done once per turn, after all starts. Returns when it must be called again, or `u64::MAX`.
    ///
    /// # Errors
    /// A failure that ends the worker.
    fn turn(&mut self, _cx: &mut Context<Self>) -> anyhow::Result<u64> {
        Ok(u64::MAX)
    }

    /// Is called before the loop waits until `until` or until a connection is ready.
    fn before_wait(&mut self, _until: u64, _cx: &mut Context<Self>) {}

    /// Is called after all `events` of a wait were served.
    fn after_wait(&mut self, _events: usize, _cx: &mut Context<Self>) {}

    /// Returns true if no operation is open, waiting or about to be retried.
    fn is_idle(&self, cx: &Context<Self>) -> bool;

    /// Returns when open operations are given up. A cancellation may come earlier.
    fn drained(&self, cx: &Context<Self>) -> u64 {
        cx.state.drained()
    }

    /// Counts what is open at the end of the loop as unfinished. It is called once, even if nothing is open.
    ///
    /// # Errors
    /// A failure of the worker.
    fn give_up(&mut self, cx: &mut Context<Self>) -> anyhow::Result<()>;
}

/// The state that a handler works with. Its fields can be borrowed apart.
#[derive(Debug)]
pub struct Context<H: Handler> {
    /// The schedule, the recorder, the phases and the timers.
    pub state: LoopState<H::Timer>,
    /// Watches the descriptors of connections.
    pub reactor: Reactor,
    /// The connections.
    pub connections: Slots<H::Connection>,
    /// The read buffer that all connections share.
    pub buffer: Box<[u8]>,
    /// True while operations that are due all at once have not all been started: what can wait should.
    pub is_in_burst: bool,
    next_sweep: u64,
    expired: Vec<Id>,
}

impl<H: Handler> Context<H> {
    /// Creates the context of a worker without connections.
    ///
    /// # Errors
    /// The kernel's error, usually `EMFILE`.
    pub fn new(worker: Worker, options: Options) -> anyhow::Result<Self> {
        Ok(Self {
            reactor: Reactor::new(Some(worker.cancellation.waker()))?,
            state: LoopState::new(worker, options),
            connections: Slots::with_capacity(0),
            buffer: vec![0; options.read_buffer].into(),
            is_in_burst: false,
            next_sweep: 0,
            expired: Vec::new(),
        })
    }

    /// Waits until `until` at most and serves the connections that are ready.
    fn serve(&mut self, handler: &mut H, until: u64) -> anyhow::Result<usize> {
        self.state.record.waits(clock::now());
        let events = self.reactor.wait(until, self.state.now)?;
        let was_interrupted = self.reactor.was_interrupted();
        self.state.record.woken(clock::now(), was_interrupted);
        for index in 0..events {
            if let Some(event) = self.reactor.event(index) {
                handler.ready(Id::from_token(event.token).0, event, self);
            }
        }
        Ok(events)
    }

    /// Serves connections while `waits` returns true, at most until `until`, and starts nothing. It is for the end of a
    /// worker, in [`Handler::give_up`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn serve_while(
        &mut self,
        handler: &mut H,
        until: u64,
        waits: impl Fn(&H, &Self) -> bool,
    ) -> anyhow::Result<()> {
        self.state.now = clock::now();
        while waits(handler, self) && self.state.now < until {
            self.serve(handler, until)?;
            self.state.now = clock::now();
        }
        Ok(())
    }

    /// Starts what is due. Returns when the next operation is due.
    fn start_due(&mut self, handler: &mut H) -> u64 {
        for _ in 0..self.state.options.starts_per_turn {
            // An event or a timer ends this wait.
            if !handler.can_start(self) {
                self.state.hold();
                return u64::MAX;
            }
            match self.state.next_start() {
                Ok(start) => handler.start(start, self),
                Err(next) => return next,
            }
        }
        self.state.now
    }

    fn fire_timers(&mut self, handler: &mut H) -> u64 {
        loop {
            match self.state.timers.take_due(self.state.now) {
                Ok(timer) => handler.timer(timer, self),
                Err(next) => return next,
            }
        }
    }

    fn sweep(&mut self, handler: &mut H) -> u64 {
        let now = self.state.now;
        if now >= self.next_sweep {
            self.next_sweep = now.saturating_add(self.state.options.sweep_ns);
            let mut expired = std::mem::take(&mut self.expired);
            let entries = self.connections.iter();
            let entries = entries.filter(|(_, entry)| now > handler.expires_at(entry));
            expired.extend(entries.map(|(id, _)| id));
            expired.drain(..).for_each(|id| handler.expired(id, self));
            self.expired = expired;
        }
        self.next_sweep
    }
}

/// Runs a worker's share of the load until nothing is left, or the end of the drain phase.
///
/// # Errors
/// A failure of the handler, or the kernel's error.
pub fn run<H: Handler>(mut handler: H, mut cx: Context<H>) -> anyhow::Result<()> {
    loop {
        cx.state.begin_turn(clock::now());
        let next_start = cx.start_due(&mut handler);
        let next_timer = cx.fire_timers(&mut handler);
        let next_sweep = cx.sweep(&mut handler);
        let next_turn = handler.turn(&mut cx)?;
        cx.state.end_turn();
        let deadline = cx.state.deadline(handler.drained(&cx));
        let is_idle = handler.is_idle(&cx);
        if cx.state.has_ended(is_idle, deadline) {
            break;
        }
        let next = next_start.min(next_timer).min(next_sweep).min(next_turn);
        let until = cx.state.wait_until(next, deadline, is_idle);
        handler.before_wait(until, &mut cx);
        cx.is_in_burst = cx.state.pacer.is_in_burst(cx.state.now);
        let events = cx.serve(&mut handler, until)?;
        handler.after_wait(events, &mut cx);
    }
    handler.give_up(&mut cx)?;
    cx.state.count_missed(0);
    Ok(())
}

#[cfg(test)]
mod tests;
