//! The connections of a peer, and the bytes to be written on each.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use load::net::write_buffer::WriteBuffer;
use load::reactor::Reactor;
use load::slots::{Id, Slots};
use rustix::net::{SendFlags, send};

/// A connection, with the state `S` of its protocol.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(crate) socket: OwnedFd,
    pub(crate) state: S,
    /// The beginning of a request.
    pub(crate) unread: Vec<u8>,
    /// The number of its requests that wait for the time of their answers, and the latest of these times.
    pub(crate) waiting: u32,
    pub(crate) last_due: u64,
    output: WriteBuffer,
    is_watched: bool,
    /// True if it is in the list of connections to be written.
    is_listed: bool,
    /// True if it is closed once all output is written.
    is_closing: bool,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections<S> {
    pub(crate) reactor: Reactor,
    slots: Slots<Connection<S>>,
    /// Connections with output that was not yet tried to be written.
    listed: Vec<Id>,
}

/// A socket that is written without waiting, whatever its mode: the sender of a socket that was handed over shares it.
struct Unblocking<'a>(&'a OwnedFd);

impl Write for Unblocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(send(self.0, bytes, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Default> Connections<S> {
    pub(crate) fn new(reactor: Reactor) -> Self {
        Self {
            reactor,
            slots: Slots::with_capacity(0),
            listed: Vec::new(),
        }
    }

    /// Adds a connection, which is not yet watched.
    pub(crate) fn insert(&mut self, socket: OwnedFd) -> Id {
        self.slots.insert(Connection {
            socket,
            state: S::default(),
            unread: Vec::new(),
            waiting: 0,
            last_due: 0,
            output: WriteBuffer::default(),
            is_watched: false,
            is_listed: false,
            is_closing: false,
        })
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Connection<S>> {
        self.slots.get_mut(id)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Connection<S>> {
        self.slots.remove(id)
    }

    /// Closes this end of a connection that another process has too, so that the system would go on to report it.
    pub(crate) fn release(&mut self, id: Id) {
        if let Some(connection) = self.slots.remove(id)
            && connection.is_watched
        {
            // Not watched any more is all that is wanted.
            let _ = self.reactor.unwatch(&connection.socket);
        }
    }

    /// Watches a connection, unless it is closed or watched already.
    pub(crate) fn watch(&mut self, id: Id) -> io::Result<()> {
        match self.slots.get_mut(id) {
            Some(connection) if !connection.is_watched => {
                connection.is_watched = true;
                let token = id.token(0);
                self.reactor.watch_edges(&connection.socket, token)
            }
            _ => Ok(()),
        }
    }

    /// Appends bytes to the output of a connection, if it is still open.
    #[inline]
    pub(crate) fn append(&mut self, id: Id, bytes: &[u8]) {
        if let Some(connection) = self.slots.get_mut(id) {
            connection.output.append(bytes);
            if !std::mem::replace(&mut connection.is_listed, true) {
                self.listed.push(id);
            }
        }
    }

    /// Closes a connection once its output is written.
    pub(crate) fn close(&mut self, id: Id) {
        if let Some(connection) = self.slots.get_mut(id) {
            connection.is_closing = true;
        }
    }

    /// Writes as much as the kernel takes, and the rest when it takes more. Returns false if the connection has ended.
    #[inline]
    pub(crate) fn flush(&mut self, id: Id) -> io::Result<bool> {
        let Some(connection) = self.slots.get_mut(id) else {
            return Ok(true);
        };
        match connection.output.flush(&mut Unblocking(&connection.socket)) {
            Ok(true) => Ok(!connection.is_closing),
            Ok(false) => self.watch(id).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Exchanges the list of connections with new output for an empty one.
    pub(crate) fn swap_listed(&mut self, listed: &mut Vec<Id>) {
        std::mem::swap(&mut self.listed, listed);
        for id in listed {
            if let Some(connection) = self.slots.get_mut(*id) {
                connection.is_listed = false;
            }
        }
    }
}
