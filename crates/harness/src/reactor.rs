//! The readiness loop for drivers that hold many connections in one worker. It knows no protocol.
//!
//! One task with its own buffers per connection costs kilobytes; here a connection is an entry in [`crate::slots`],
//! all of them share one read buffer and one timer, and a wake-up costs one `epoll_wait` for up to 1,024 connections.
//! The loop itself stays in the driver, where it can be read: start what is due, serve what is ready, wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Events taken from the kernel at once.
const BATCH: usize = 1024;
/// Token of the timer; [`crate::slots::Id::token`] never gives it.
const TIMER: u64 = u64::MAX;
/// Token of the waker.
const WAKE: u64 = u64::MAX - 1;

/// What a descriptor is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What it was registered with.
    pub token: u64,
    /// There is something to read, or the end.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The other side has closed or shut down its writing side: nothing follows what can be read now.
    pub closing: bool,
    /// An error is pending on the descriptor.
    pub failed: bool,
}

/// One epoll set with one timer.
#[derive(Debug)]
pub struct Reactor {
    epoll: Epoll,
    timer: TimerFd,
    armed_for: u64,
    events: Vec<EpollEvent>,
    ready: usize,
}

impl Reactor {
    /// An empty set. A `waker` (an eventfd, say) that becomes readable ends every wait from then on.
    ///
    /// # Errors
    /// What the kernel answers, usually `EMFILE`.
    pub fn new(waker: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        // Edge-triggered: an expiry wakes once and need not be read back.
        epoll.add(
            &timer,
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER),
        )?;
        if let Some(waker) = waker {
            epoll.add(
                waker,
                EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, WAKE),
            )?;
        }
        Ok(Self {
            epoll,
            timer,
            armed_for: 0,
            events: vec![EpollEvent::empty(); BATCH],
            ready: 0,
        })
    }

    /// Watches a descriptor for reading, the closing of the other side and errors. Closing it ends the watch.
    ///
    /// # Errors
    /// What the kernel answers (`ENOSPC` at `fs.epoll.max_user_watches`).
    pub fn watch(&self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(
            descriptor,
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, token),
        )?)
    }

    /// Watches a descriptor for what [`watch`](Self::watch) does and for room to write, edge-triggered: an event tells
    /// that something is new, once. Whoever is told reads until less comes than there was room for, and writes until the
    /// kernel takes no more. Never changed, and a level is not looked at again by the kernel: it saves 4 % of the CPU of
    /// short exchanges, and a call for each connection that is opened.
    ///
    /// # Errors
    /// As those of [`watch`](Self::watch).
    pub fn watch_edges(&self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLET;
        Ok(self.epoll.add(descriptor, EpollEvent::new(flags, token))?)
    }

    /// Changes what a watched descriptor is watched for: for room to write too, or no longer. Level-triggered, so that
    /// a writer asks for room when the kernel takes no more, and takes that back when it has nothing left to write.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn rewatch(&self, descriptor: impl AsFd, token: u64, writing: bool) -> io::Result<()> {
        let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        flags.set(EpollFlags::EPOLLOUT, writing);
        let mut event = EpollEvent::new(flags, token);
        Ok(self.epoll.modify(descriptor, &mut event)?)
    }

    /// Watches a descriptor for errors and the end of the connection alone, both of which the kernel always reports.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn watch_end(&self, descriptor: impl AsFd, token: u64) -> io::Result<()> {
        Ok(self
            .epoll
            .add(descriptor, EpollEvent::new(EpollFlags::empty(), token))?)
    }

    /// Stops watching a descriptor. Watching it for nothing instead would not do: the kernel always reports the end of
    /// the connection, again and again.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn unwatch(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(descriptor)?)
    }

    /// Waits until something is ready, the waker fires, or it is `until` (nanoseconds of CLOCK_MONOTONIC); a time that
    /// has passed only looks. Returns how many events [`event`](Self::event) holds; it may be 0 early.
    ///
    /// # Errors
    /// What the kernel answers, but for `EINTR`, which is an early return.
    pub fn wait(&mut self, until: u64, now: u64) -> io::Result<usize> {
        let timeout = if until <= now {
            EpollTimeout::ZERO
        } else {
            EpollTimeout::NONE
        };
        if until > now && (self.armed_for <= now || until < self.armed_for) {
            let at = TimeSpec::new((until / 1_000_000_000) as _, (until % 1_000_000_000) as _);
            self.timer.set(
                Expiration::OneShot(at),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )?;
            self.armed_for = until;
        }
        self.ready = match self.epoll.wait(&mut self.events, timeout) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(self.ready)
    }

    /// One of the events of the last wait, or `None` for the timer and the waker.
    #[must_use]
    pub fn event(&self, place: usize) -> Option<Event> {
        let event = self.events[..self.ready].get(place)?;
        let flags = event.events();
        let token = event.data();
        (token != TIMER && token != WAKE).then_some(Event {
            token,
            readable: flags.contains(EpollFlags::EPOLLIN),
            writable: flags.contains(EpollFlags::EPOLLOUT),
            closing: flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP),
            failed: flags.contains(EpollFlags::EPOLLERR),
        })
    }
}
