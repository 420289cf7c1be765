//! The sink, which holds large numbers of connections: one epoll set per worker, 16 bytes per connection, one response
//! for all.
//!
//! It scans received bytes for the ends of request heads and discards them; each end is owed one response. A request
//! may arrive in any pieces, and several at once. A request body would be taken for the next head, so the sink only
//! supports requests without one. It has no timeouts: its purpose is to hold idle connections.

mod answers;

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use anyhow::Context as _;
use daemon_kit::accept_waiting;
use memchr::memchr;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, Shutdown, recv, send, shutdown};

use crate::counts::{Counter, Counts, Limits};
use crate::listener::Listening;
use crate::resources::Resources;
use crate::stop::Stop;

use self::answers::Answers;

const EVENTS: usize = 1024;
/// Maximum number of connections accepted per iteration, so that a flood does not delay the open ones.
const ACCEPTS: usize = 256;
/// Number of bytes read from a connection, and written to it, at once.
const BUFFER: usize = 64 * 1024;
/// Pause of accepting if no descriptors are left.
const ACCEPT_PAUSE_MS: u16 = 10;
/// Tokens other than connections'; a connection's token is its descriptor.
const STOP: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 1;

/// A connection, indexed by its descriptor.
#[derive(Debug, Default)]
struct Slot {
    socket: Option<OwnedFd>,
    /// Number of responses that are not completely written.
    owed: u32,
    /// Number of written bytes of the first of them.
    sent: u32,
    /// Number of bytes matched of the end of a head.
    matched: u8,
    /// True once the client has closed its side.
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
        listeners: Vec<Listening>,
        resources: &Resources,
        counts: Counts,
    ) -> anyhow::Result<Self> {
        let sockets = listeners.into_iter().map(|listening| listening.socket);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let sink = Self {
            epoll: epoll.context("cannot set up the sink")?,
            listeners: sockets.collect(),
            paused: false,
            slots: Vec::new(),
            buffer: vec![0; BUFFER],
            answers: Answers::new(resources.config.server.sink_body as usize),
            counts,
            limits: resources.limits,
        };
        sink.watch_listeners()?;
        Ok(sink)
    }

    /// Serves until it is asked to stop, then closes open connections.
    pub(crate) fn run(mut self, stop: &Stop) -> anyhow::Result<()> {
        let wake = EpollEvent::new(EpollFlags::EPOLLIN, STOP);
        self.epoll
            .add(stop.as_fd(), wake)
            .context("cannot watch the stop signal")?;
        let mut events = vec![EpollEvent::empty(); EVENTS];
        loop {
            let timeout = if self.paused {
                EpollTimeout::from(ACCEPT_PAUSE_MS)
            } else {
                EpollTimeout::NONE
            };
            let ready = match self.epoll.wait(&mut events, timeout) {
                Err(Errno::EINTR) => 0,
                other => other.context("cannot wait for connections")?,
            };
            if self.paused {
                self.watch_listeners()?;
                self.paused = false;
            }
            self.answers.renew();
            for event in &events[..ready] {
                match event.data() {
                    STOP => return Ok(()),
                    token => match usize::try_from(LISTENERS - token) {
                        Ok(index) if index < self.listeners.len() => self.accept(index)?,
                        _ => self.serve(token as usize, event.events()),
                    },
                }
            }
        }
    }

    fn watch_listeners(&self) -> anyhow::Result<()> {
        for (token, listener) in (0..=LISTENERS).rev().zip(&self.listeners) {
            self.epoll
                .add(listener, EpollEvent::new(EpollFlags::EPOLLIN, token))
                .context("cannot watch the listeners")?;
        }
        Ok(())
    }

    fn accept(&mut self, index: usize) -> anyhow::Result<()> {
        for _ in 0..ACCEPTS {
            match accept_waiting(&self.listeners[index]) {
                Ok(socket) => self.admit(socket),
                Err(Errno::EAGAIN) => break,
                // The client gave up, or a signal interrupted the call.
                Err(Errno::ECONNABORTED | Errno::EINTR) => {}
                Err(error) => {
                    self.counts.add(Counter::AcceptErrors, 1);
                    tracing::warn!(%error, "cannot accept; retrying in {ACCEPT_PAUSE_MS} ms");
                    return self.pause();
                }
            }
        }
        Ok(())
    }

    /// Stops accepting for a while: without descriptors it would fail, and the listener would be ready again at once.
    fn pause(&mut self) -> anyhow::Result<()> {
        if !self.paused {
            for listener in &self.listeners {
                self.epoll
                    .delete(listener)
                    .context("cannot pause a listener")?;
            }
            self.paused = true;
        }
        Ok(())
    }

    fn admit(&mut self, socket: OwnedFd) {
        if !self.counts.open(self.limits) {
            refuse(&socket);
            return;
        }
        let index = socket.as_raw_fd() as usize;
        if self.slots.len() <= index {
            // The allocation doubles; memory beyond the last descriptor is never touched, and costs nothing.
            self.slots.resize_with(index + 1, Slot::default);
        }
        if self.watch(&socket, EpollFlags::EPOLLIN).is_err() {
            self.counts.close();
            self.counts.add(Counter::AcceptErrors, 1);
            return;
        }
        self.slots[index] = Slot {
            socket: Some(socket),
            ..Slot::default()
        };
    }

    fn watch(&self, socket: &OwnedFd, flags: EpollFlags) -> nix::Result<()> {
        self.epoll
            .add(socket, EpollEvent::new(flags, socket.as_raw_fd() as u64))
    }

    fn serve(&mut self, index: usize, ready: EpollFlags) {
        // An event may belong to a connection that was closed earlier in this iteration, or to a new one with the same
        // number: then there is nothing to read, and nothing happens.
        let Some(slot) = self.slots.get_mut(index) else {
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
            // Closing removes it from the epoll set.
            slot.socket = None;
            self.counts.close();
        } else if was_blocked != (slot.owed > 0) {
            // A client that does not read is not read from, so the owed responses stay bounded by one read.
            let flags = if slot.owed > 0 {
                EpollFlags::EPOLLOUT
            } else {
                EpollFlags::EPOLLIN
            };
            if let Some(socket) = &slot.socket {
                // Fails only for unwatched descriptors, and this one is watched.
                let _ = self
                    .epoll
                    .modify(socket, &mut EpollEvent::new(flags, index as u64));
            }
        }
    }
}

impl Slot {
    /// Reads once; returns false if the connection is broken.
    fn read(&mut self, socket: RawFd, buffer: &mut [u8], counts: Counts) -> bool {
        match recv(socket, buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => self.ended = true,
            Ok(length) => {
                let heads = count_heads(&mut self.matched, &buffer[..length]);
                self.owed += heads;
                counts.answered(200, heads.into());
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => return false,
        }
        true
    }

    /// Writes owed responses as far as the client accepts them; returns false if the connection is broken.
    fn write(&mut self, socket: RawFd, answers: &Answers, counts: Counts) -> bool {
        while self.owed > 0 {
            let rest = answers.rest(self.owed, self.sent as usize);
            match send(
                socket,
                rest,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            ) {
                Ok(length) => {
                    counts.add(Counter::SentBytes, length as u64);
                    let done = self.sent as usize + length;
                    self.owed -= (done / answers.length) as u32;
                    self.sent = (done % answers.length) as u32;
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Counts the heads that end in these bytes. `matched` is the number of bytes of an end, CR LF CR LF, that came last.
pub(crate) fn count_heads(matched: &mut u8, mut bytes: &[u8]) -> u32 {
    let mut heads = 0;
    loop {
        if *matched == 0 {
            // Most bytes are within a line.
            match memchr(b'\r', bytes) {
                Some(index) => bytes = &bytes[index..],
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

/// Answers with 503, as far as that is possible without waiting. Received bytes are read first, since closing with
/// unread bytes would reset the connection and lose the response.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_may_come_in_any_pieces() {
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..=request.len() {
            let mut matched = 0;
            let (first, second) = request.split_at(cut);
            let found = count_heads(&mut matched, first) + count_heads(&mut matched, second);
            assert_eq!((found, matched), (1, 0), "cut at {cut}");
        }
    }

    #[test]
    fn the_likeness_of_an_end_is_not_an_end() {
        for (bytes, wanted) in [
            (&b"\r\r\n\r\n"[..], 1),
            (b"\r\n\r\r\n\r\n", 1),
            (b"\r\nX\r\n\r\n", 1),
            (b"\n\n\r\n", 0),
            (b"\r\n\n\r\n", 0),
            (b"a\r\n\r\nb\r\n\r\n\r\n", 2),
            (b"\r\n\r\n\r\n\r\n", 2),
        ] {
            assert_eq!(count_heads(&mut 0, bytes), wanted, "{bytes:?}");
        }
    }
}
