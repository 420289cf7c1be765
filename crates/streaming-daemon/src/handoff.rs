//! Receiving one handoff: a message with a payload and the client's socket.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{self, SockType, sockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::answer::Opening;
use crate::config::SocketType;
use crate::failure::HandoffFailure;
use crate::request::{PAYLOAD_LIMIT, Parsed, Request, parse};
use crate::shard::Shared;
use crate::socket::{CONTROL_WORDS, receive, watch};

/// How long a sender may take for its payload after it connected.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Room for what is received. A shard has one, used again and again; a handoff that has to be
/// waited for gets its own.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// One byte more than is allowed, so that what is too long shows.
    payload: Vec<u8>,
    control: Vec<u64>,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Self {
            payload: vec![0; PAYLOAD_LIMIT + 1],
            control: vec![0; CONTROL_WORDS],
        }
    }
}

/// A client that arrived, and what is peculiar to its answer.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub(crate) client: OwnedFd,
    pub(crate) user_id: i64,
    pub(crate) opening: Opening,
    /// When the handoff connection was accepted.
    pub(crate) accepted: u64,
}

/// What has been read from a handoff connection.
#[derive(Debug)]
pub(crate) struct Incoming {
    accepted: u64,
    client: Option<OwnedFd>,
    surplus: usize,
    filled: usize,
    saw_end: bool,
}

/// How far the reading has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Whole,
    /// The rest, or everything, has still to come.
    Wait,
}

impl Incoming {
    pub(crate) fn new(accepted: u64) -> Self {
        Self {
            accepted,
            client: None,
            surplus: 0,
            filled: 0,
            saw_end: false,
        }
    }

    /// Reads what is there.
    ///
    /// On `SOCK_SEQPACKET` one record is one handoff. On `SOCK_STREAM` nothing marks the end of the
    /// payload, for the sender may keep the connection open until we close it. So a payload is whole
    /// there unless it is the beginning of a JSON object; then the rest is waited for, until it
    /// parses or the connection ends or the time is over.
    pub(crate) fn advance(
        &mut self,
        connection: &OwnedFd,
        socket_type: SocketType,
        buffer: &mut Buffer,
    ) -> Result<Progress, HandoffFailure> {
        loop {
            let room = &mut buffer.payload[self.filled..];
            let message = match receive(connection, room, &mut buffer.control) {
                Ok(message) => message,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Progress::Wait),
                Err(errno) => return Err(errno.into()),
            };
            if message.control_cut {
                return Err(HandoffFailure::Truncated);
            }
            let is_end = message.bytes == 0 && message.descriptor.is_none();
            self.filled += message.bytes;
            self.keep(message.descriptor, message.surplus);
            if message.payload_cut || self.filled > PAYLOAD_LIMIT {
                return Err(HandoffFailure::TooLarge);
            }
            if is_end && !self.saw_end {
                // On a SEQPACKET socket the first end may be none: the kernel looks for a message,
                // finds none, then the sender sends and closes, and then the kernel finds that the
                // sender has closed. The message is there at the second try.
                self.saw_end = true;
                continue;
            }
            if is_end {
                return self.at_end();
            }
            if socket_type == SocketType::Seqpacket || !self.is_beginning(buffer) {
                return Ok(Progress::Whole);
            }
        }
    }

    fn keep(&mut self, descriptor: Option<OwnedFd>, surplus: usize) {
        self.surplus += surplus;
        match self.client {
            None => self.client = descriptor,
            // A second one, in a later piece of a stream: dropped, and so closed.
            Some(_) => self.surplus += usize::from(descriptor.is_some()),
        }
    }

    fn at_end(&self) -> Result<Progress, HandoffFailure> {
        match (self.filled, &self.client) {
            (0, None) => Err(HandoffFailure::Empty),
            _ => Ok(Progress::Whole),
        }
    }

    fn is_beginning(&self, buffer: &Buffer) -> bool {
        parse(&buffer.payload[..self.filled]) == Parsed::Beginning
    }

    /// Closes the handoff connection, which is all that its sender hears from us, and looks at what
    /// it brought.
    pub(crate) fn finish(
        self,
        connection: OwnedFd,
        buffer: &Buffer,
        shared: &Shared,
    ) -> Result<Handoff, HandoffFailure> {
        drop(connection);
        let client = self.client.ok_or(HandoffFailure::NoDescriptor)?;
        prepare(&client)?;
        if self.surplus > 0 {
            shared
                .metrics
                .handoff_flaw(HandoffFailure::SurplusDescriptors);
            shared.log.warn(HandoffFailure::SurplusDescriptors);
        }
        let request = request(&buffer.payload[..self.filled], shared);
        Ok(Handoff {
            client,
            user_id: request.user_id.unwrap_or(0),
            opening: shared.answer.opening(&request),
            accepted: self.accepted,
        })
    }

    /// Waits for what [`Incoming::advance`] did not find, and finishes. Dropping the future closes
    /// what has arrived.
    pub(crate) async fn finish_later(
        mut self,
        connection: OwnedFd,
        mut buffer: Buffer,
        shared: &Shared,
    ) -> Result<Handoff, HandoffFailure> {
        let connection =
            watch(connection, Interest::READABLE).map_err(|_| HandoffFailure::Other)?;
        let rest = self.read_rest(&connection, &mut buffer, shared.socket_type);
        match timeout(RECEIVE_TIMEOUT, rest).await {
            Ok(read) => read?,
            // Half a payload is one that does not parse: the client is served with the defaults.
            Err(_) if self.client.is_some() => {}
            Err(_) => return Err(HandoffFailure::Timeout),
        }
        self.finish(connection.into_inner(), &buffer, shared)
    }

    async fn read_rest(
        &mut self,
        connection: &AsyncFd<OwnedFd>,
        buffer: &mut Buffer,
        socket_type: SocketType,
    ) -> Result<(), HandoffFailure> {
        while self.advance(connection.get_ref(), socket_type, buffer)? == Progress::Wait {
            // Cleared before the next try, so that nothing that comes meanwhile is missed.
            let ready = connection.readable().await;
            ready.map_err(|_| HandoffFailure::Other)?.clear_ready();
        }
        Ok(())
    }

    /// A buffer of its own that holds what has been read into `buffer` so far. Its pages are zero
    /// and untouched, so that it takes the memory of its payload alone.
    pub(crate) fn own_buffer(&self, buffer: &Buffer) -> Buffer {
        let mut own = Buffer::new();
        own.payload[..self.filled].copy_from_slice(&buffer.payload[..self.filled]);
        own
    }
}

/// Checks that the descriptor is a stream socket, and has TCP send each event at once.
fn prepare(client: &OwnedFd) -> Result<(), HandoffFailure> {
    match socket::getsockopt(client, sockopt::SockType) {
        Ok(SockType::Stream) => {}
        _ => return Err(HandoffFailure::NotAStreamSocket),
    }
    // Without this the second event would wait for the acknowledgement of the first, up to 40 ms.
    // Other sockets refuse the option, and need it not.
    let _ = socket::setsockopt(client, sockopt::TcpNoDelay, &true);
    Ok(())
}

/// The request of a payload; the default one, counted and logged, if there is none in it.
fn request<'a>(payload: &'a [u8], shared: &Shared) -> Request<'a> {
    let reason = match parse(payload) {
        Parsed::Whole(request) => return request,
        Parsed::Beginning => "it ends in the middle".to_owned(),
        Parsed::Invalid(reason) => reason,
    };
    shared.metrics.handoff_flaw(HandoffFailure::InvalidJson);
    shared
        .log
        .warn(format_args!("{}: {reason}", HandoffFailure::InvalidJson));
    Request::default()
}
