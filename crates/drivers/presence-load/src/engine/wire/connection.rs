//! The connection of a user: up to three connections of TCP.

use load::net::write_buffer::WriteBuffer;
use tls_client::Socket;

use super::requests::Queue;
use crate::protocol::transport::{Side, Transport};

/// The connection of a user.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) user: u32,
    /// The index of its server.
    pub(super) server: usize,
    pub(super) transport: Transport,
    pub(super) requests: Queue,
    /// The id of the next acknowledgement.
    next_id: u32,
    /// Requests that were not acknowledged in time: their acknowledgements may still come.
    pub(super) overdue: u32,
    /// The time of the server's last ping, or of its handshake; the end of time if it sends none.
    pub(super) pinged: u64,
    main: Option<Stream>,
    /// The other sides, which only polling clients have.
    others: Option<Box<[Option<Stream>; 2]>>,
}

/// A connection of TCP.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: Socket,
    pub(super) unsent: WriteBuffer,
    pub(super) is_connecting: bool,
    /// True if it is closed once everything is sent.
    pub(super) closes: bool,
}

impl Connection {
    pub(super) fn new(user: u32, server: usize, transport: Transport) -> Self {
        Self {
            user,
            server,
            transport,
            requests: Queue::default(),
            next_id: 0,
            overdue: 0,
            pinged: u64::MAX,
            main: None,
            others: None,
        }
    }

    /// Returns the id of the next acknowledgement.
    #[inline]
    pub(super) fn take_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// Returns the id that was taken last.
    pub(super) fn last_id(&self) -> u32 {
        self.next_id.wrapping_sub(1)
    }

    /// Returns true if a request with this id was sent.
    pub(super) fn has_sent(&self, id: u64) -> bool {
        id < u64::from(self.next_id)
    }

    pub(super) fn stream(&mut self, side: Side) -> Option<&mut Stream> {
        self.slot(side).as_mut()
    }

    /// Returns a side with the transport, both to be changed.
    pub(super) fn parts(&mut self, side: Side) -> Option<(&mut Stream, &mut Transport)> {
        let stream = match side {
            Side::Main => self.main.as_mut(),
            Side::Post => self.others.as_mut()?[0].as_mut(),
            Side::Probe => self.others.as_mut()?[1].as_mut(),
        };
        stream.map(|stream| (stream, &mut self.transport))
    }

    /// Opens a side.
    pub(super) fn set(&mut self, side: Side, socket: Socket) {
        *self.slot(side) = Some(Stream {
            socket,
            unsent: WriteBuffer::default(),
            is_connecting: true,
            closes: false,
        });
    }

    /// Closes a side.
    pub(super) fn close(&mut self, side: Side) {
        *self.slot(side) = None;
    }

    fn slot(&mut self, side: Side) -> &mut Option<Stream> {
        match side {
            Side::Main => &mut self.main,
            Side::Post => &mut self.others.get_or_insert_default()[0],
            Side::Probe => &mut self.others.get_or_insert_default()[1],
        }
    }
}
