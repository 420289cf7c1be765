//! Holding connections in masses: one epoll set per worker, 16 bytes per connection, one answer for all.
//!
//! What is read is looked through for the ends of request heads and forgotten; each end is owed one answer. So a
//! request may come in any pieces, and several at once, but its body would be taken for the next head: the sink is for
//! requests without one. It knows no timeouts: holding idle connections is what it is for.

mod answers;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use anyhow::Context as _;
use memchr::memchr;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, Shutdown, SockFlag, accept4, recv, send, shutdown};

use crate::counts::Counts;
use crate::listener::Listeners;
use crate::stop::Stop;

use self::answers::Answers;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;
/// Connections accepted in one turn, so that those that are open are not kept waiting by a flood.
const ACCEPTS: usize = 256;
/// How much is read from a connection, and written to it, at once.
const BUFFER: usize = 64 * 1024;
/// How long accepting rests where there are no descriptors left.
const PAUSE_MS: u16 = 10;
/// Tokens of what is no connection; those of connections are their descriptors.
const STOP: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 1;

/// What a worker may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections in all processes.
    pub(crate) max: u64,
    /// Connections in this one.
    pub(crate) room: u64,
}

/// A connection, at the place of its descriptor.
#[derive(Debug, Default)]
struct Slot {
    socket: Option<OwnedFd>,
    /// Answers that are not written whole.
    owed: u32,
    /// Bytes of the first of them that are.
    sent: u32,
    /// How much of the end of a head has come.
    matched: u8,
    /// The client has said all that it will say.
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Sink {
    epoll: Epoll,
    listeners: Vec<OwnedFd>,
    paused: bool,
    slots: Vec<Slot>,
    buffer: Vec<u8>,
    answers: Answers,
    counts: Counts,
    limits: Limits,
}

impl Sink {
    pub(crate) fn new(
        listeners: Listeners,
        body: usize,
        counts: Counts,
        limits: Limits,
    ) -> nix::Result<Self> {
        let Listeners { http, unix, .. } = listeners;
        let sink = Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            listeners: [Some(http), unix].into_iter().flatten().collect(),
            paused: false,
            slots: Vec::new(),
            buffer: vec![0; BUFFER],
            answers: Answers::new(body),
            counts,
            limits,
        };
        sink.watch_listeners()?;
        Ok(sink)
    }

    /// Serves until it is asked to stop, and closes what is open then.
    pub(crate) fn run(mut self, stop: &Stop) -> anyhow::Result<()> {
        let wake = EpollEvent::new(EpollFlags::EPOLLIN, STOP);
        self.epoll
            .add(stop.as_fd(), wake)
            .context("watching for the end")?;
        let mut events = vec![EpollEvent::empty(); EVENTS];
        loop {
            let timeout = if self.paused {
                EpollTimeout::from(PAUSE_MS)
            } else {
                EpollTimeout::NONE
            };
            let ready = match self.epoll.wait(&mut events, timeout) {
                Err(Errno::EINTR) => 0,
                other => other.context("waiting for connections")?,
            };
            if self.paused {
                self.watch_listeners().context("watching the listeners")?;
                self.paused = false;
            }
            self.answers.renew();
            for event in &events[..ready] {
                match event.data() {
                    STOP => return Ok(()),
                    token => match usize::try_from(LISTENERS - token) {
                        Ok(place) if place < self.listeners.len() => self.accept(place)?,
                        _ => self.serve(token as usize, event.events()),
                    },
                }
            }
        }
    }

    fn watch_listeners(&self) -> nix::Result<()> {
        for (token, listener) in (0..=LISTENERS).rev().zip(&self.listeners) {
            self.epoll
                .add(listener, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        }
        Ok(())
    }

    fn accept(&mut self, place: usize) -> anyhow::Result<()> {
        for _ in 0..ACCEPTS {
            let listener = self.listeners[place].as_raw_fd();
            match accept(listener) {
                Ok(socket) => self.admit(socket),
                Err(Errno::EAGAIN) => break,
                // What the client did to itself, or is done to us by a signal.
                Err(Errno::ECONNABORTED | Errno::EINTR) => {}
                Err(error) => {
                    self.counts.accept_failed();
                    tracing::warn!(%error, "accepting; resting for {PAUSE_MS} ms");
                    return self.pause();
                }
            }
        }
        Ok(())
    }

    /// Accepting does not help while there is nothing to accept with, and the listener would be ready again at once.
    fn pause(&mut self) -> anyhow::Result<()> {
        if !self.paused {
            for listener in &self.listeners {
                self.epoll
                    .delete(listener)
                    .context("leaving a listener alone")?;
            }
            self.paused = true;
        }
        Ok(())
    }

    fn admit(&mut self, socket: OwnedFd) {
        if !self.counts.open(self.limits.max, self.limits.room) {
            refuse(&socket);
            return;
        }
        let place = socket.as_raw_fd() as usize;
        if self.slots.len() <= place {
            // The allocation doubles; what lies beyond the last descriptor is never touched, and costs no memory.
            self.slots.resize_with(place + 1, Slot::default);
        }
        if self.watch(&socket, EpollFlags::EPOLLIN).is_err() {
            self.counts.close();
            self.counts.accept_failed();
            return;
        }
        self.slots[place] = Slot {
            socket: Some(socket),
            ..Slot::default()
        };
    }

    fn watch(&self, socket: &OwnedFd, flags: EpollFlags) -> nix::Result<()> {
        self.epoll
            .add(socket, EpollEvent::new(flags, socket.as_raw_fd() as u64))
    }

    fn serve(&mut self, place: usize, ready: EpollFlags) {
        // An event may be of a connection that was closed earlier in the same turn, and even of a new one by the same
        // number: then there is nothing to read, and nothing happens.
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        let Some(socket) = slot.socket.as_ref().map(OwnedFd::as_raw_fd) else {
            return;
        };
        let was_blocked = slot.owed > 0;
        let lives = if was_blocked {
            !ready.contains(EpollFlags::EPOLLERR)
        } else {
            slot.read(socket, &mut self.buffer, self.counts)
        };
        let lives = lives
            && slot.write(socket, &self.answers, self.counts)
            && (slot.owed > 0 || !slot.ended);
        if !lives {
            // Closing ends the watch.
            slot.socket = None;
            self.counts.close();
        } else if was_blocked != (slot.owed > 0) {
            // Who does not read is not read from: what is owed stays within one read's worth.
            let flags = if slot.owed > 0 {
                EpollFlags::EPOLLOUT
            } else {
                EpollFlags::EPOLLIN
            };
            if let Some(socket) = &slot.socket {
                // It fails for descriptors that are not watched, which this one is.
                let _ = self
                    .epoll
                    .modify(socket, &mut EpollEvent::new(flags, place as u64));
            }
        }
    }
}

impl Slot {
    /// Reads once; false if the connection is broken.
    fn read(&mut self, socket: RawFd, buffer: &mut [u8], counts: Counts) -> bool {
        match recv(socket, buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => self.ended = true,
            Ok(length) => {
                let heads = heads(&mut self.matched, &buffer[..length]);
                self.owed += heads;
                counts.answered(200, heads.into());
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => return false,
        }
        true
    }

    /// Writes what is owed as far as the client takes it; false if the connection is broken.
    fn write(&mut self, socket: RawFd, answers: &Answers, counts: Counts) -> bool {
        while self.owed > 0 {
            let rest = answers.rest(self.owed, self.sent as usize);
            match send(
                socket,
                rest,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            ) {
                Ok(length) => {
                    counts.sent(length);
                    let done = self.sent as usize + length;
                    self.owed -= (done / answers.length()) as u32;
                    self.sent = (done % answers.length()) as u32;
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// How many heads end in these bytes. `matched` is how much of an end, CR LF CR LF, came last.
fn heads(matched: &mut u8, mut bytes: &[u8]) -> u32 {
    let mut heads = 0;
    loop {
        if *matched == 0 {
            // Most bytes are within a line.
            match memchr(b'\r', bytes) {
                Some(place) => bytes = &bytes[place..],
                None => return heads,
            }
        }
        let Some((byte, rest)) = bytes.split_first() else {
            return heads;
        };
        *matched = match (*matched, byte) {
            (0 | 2, b'\r') => *matched + 1,
            (1, b'\n') => 2,
            (3, b'\n') => {
                heads += 1;
                0
            }
            (_, b'\r') => 1,
            _ => 0,
        };
        bytes = rest;
    }
}

#[expect(
    unsafe_code,
    reason = "descriptors enter the process here, as bare integers"
)]
fn accept(listener: RawFd) -> nix::Result<OwnedFd> {
    let descriptor = accept4(listener, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Says why, as far as that goes without waiting. What the client has sent already is read, since closing over it would
/// reset the connection and take the answer with it.
fn refuse(socket: &OwnedFd) {
    let socket = socket.as_raw_fd();
    let _ = send(
        socket,
        crate::REFUSAL,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
    );
    let _ = shutdown(socket, Shutdown::Write);
    let _ = recv(socket, &mut [0; 4096], MsgFlags::MSG_DONTWAIT);
}

/// A worker that is a sink.
pub(crate) fn run(
    listeners: Listeners,
    body: usize,
    counts: Counts,
    limits: Limits,
    stop: &Stop,
) -> anyhow::Result<()> {
    let sink = Sink::new(listeners, body, counts, limits)
        .map_err(io::Error::from)
        .context("setting up a sink")?;
    sink.run(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_may_come_in_any_pieces() {
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..=request.len() {
            let mut matched = 0;
            let (first, second) = request.split_at(cut);
            let found = heads(&mut matched, first) + heads(&mut matched, second);
            assert_eq!((found, matched), (1, 0), "cut at {cut}");
        }
    }

    #[test]
    fn what_only_looks_like_an_end_is_none() {
        for (bytes, wanted) in [
            (&b"\r\r\n\r\n"[..], 1),
            (b"\r\n\r\r\n\r\n", 1),
            (b"\r\nX\r\n\r\n", 1),
            (b"\n\n\r\n", 0),
            (b"\r\n\n\r\n", 0),
            (b"a\r\n\r\nb\r\n\r\n\r\n", 2),
            (b"\r\n\r\n\r\n\r\n", 2),
        ] {
            assert_eq!(heads(&mut 0, bytes), wanted, "{bytes:?}");
        }
    }
}
