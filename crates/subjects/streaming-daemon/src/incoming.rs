//! Reads a handoff connection: one message with a payload and the client's socket.

use std::os::fd::OwnedFd;
use std::time::Duration;

use daemon_kit::watch;
use nix::errno::Errno;
use tokio::io::Interest;
use tokio::time::timeout;

use crate::config::SocketType;
use crate::failure::HandoffFailure;
use crate::request::{PAYLOAD_LIMIT, Parsed, Request, parse};
use crate::socket::{CONTROL_WORDS, receive};
use daemon_kit::clock;

/// Time for a sender to send its payload after it connected.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A buffer for one handoff; a shard reuses a single one.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Has one byte more than is allowed, so that a payload that is too long is detected.
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

    /// Returns the first `length` bytes that were read.
    pub(crate) fn payload(&self, length: usize) -> &[u8] {
        &self.payload[..length]
    }
}

/// A handoff connection that was accepted, with its received data.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Its close is the only signal that the sender gets.
    pub(crate) connection: OwnedFd,
    /// Time at which it was accepted.
    pub(crate) accepted: u64,
    /// The first descriptor that was received.
    pub(crate) client: Option<OwnedFd>,
    /// Number of further descriptors; they are closed.
    pub(crate) surplus: usize,
    saw_end: bool,
    /// True if the time for the rest of the payload is over.
    is_late: bool,
    /// The beginning of a payload whose rest is awaited; otherwise empty.
    begun: Vec<u8>,
}

impl Incoming {
    pub(crate) fn new(connection: OwnedFd, accepted: u64) -> Self {
        Self {
            connection,
            accepted,
            client: None,
            surplus: 0,
            saw_end: false,
            is_late: false,
            begun: Vec::new(),
        }
    }

    /// Reads available data into `buffer`, after the data that was read before. Returns the length of the whole payload,
    /// or `None` if the rest of it is missing.
    ///
    /// On `SOCK_SEQPACKET` one record is one handoff. On `SOCK_STREAM` nothing marks the end of the payload, since the
    /// sender may keep the connection open until we close it. There, a payload is complete unless it is the beginning
    /// of a JSON object. In that case the rest is awaited, until it parses, the connection ends or the time is over.
    /// (It is parsed once more when it is used: 0.3 µs for the usual payload.)
    pub(crate) fn read(
        &mut self,
        socket_type: SocketType,
        buffer: &mut Buffer,
    ) -> Result<Option<usize>, HandoffFailure> {
        let mut filled = self.take_begun(buffer);
        if self.is_late {
            return Ok(Some(filled));
        }
        loop {
            let room = &mut buffer.payload[filled..];
            let message = match receive(&self.connection, room, &mut buffer.control) {
                Ok(message) => message,
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    self.begun.extend_from_slice(&buffer.payload[..filled]);
                    return Ok(None);
                }
                Err(errno) => return Err(errno.into()),
            };
            if message.control_cut {
                return Err(HandoffFailure::Truncated);
            }
            let is_end = message.bytes == 0 && message.descriptor.is_none();
            filled += message.bytes;
            self.keep(message.descriptor, message.surplus);
            if message.payload_cut || filled > PAYLOAD_LIMIT {
                return Err(HandoffFailure::TooLarge);
            }
            if is_end && !self.saw_end {
                // On a SEQPACKET socket the first end may be false: the kernel looks for a message, finds none, then
                // the sender sends and closes, and then the kernel finds that the sender has closed. A second try finds
                // the message.
                self.saw_end = true;
                continue;
            }
            if is_end && filled == 0 && self.client.is_none() {
                return Err(HandoffFailure::Empty);
            }
            let is_record = socket_type == SocketType::Seqpacket;
            if is_end || is_record || !is_beginning(&buffer.payload[..filled]) {
                return Ok(Some(filled));
            }
        }
    }

    /// Moves the data that was read before into `buffer`. Returns its length.
    fn take_begun(&mut self, buffer: &mut Buffer) -> usize {
        let length = self.begun.len();
        buffer.payload[..length].copy_from_slice(&self.begun);
        self.begun = Vec::new();
        length
    }

    fn keep(&mut self, descriptor: Option<OwnedFd>, surplus: usize) {
        self.surplus += surplus;
        match self.client {
            None => self.client = descriptor,
            // A second one, in a later piece of a stream: it is dropped, and so closed.
            Some(_) => self.surplus += usize::from(descriptor.is_some()),
        }
    }

    /// Waits until there is more to read. If the time is over, the payload ends here; fails if no client has arrived.
    /// Dropping the future closes all received descriptors.
    pub(crate) async fn readable(self) -> Result<Self, HandoffFailure> {
        let deadline = self.accepted.saturating_add(nanos(RECEIVE_TIMEOUT));
        let left = Duration::from_nanos(deadline.saturating_sub(clock::now()));
        let watched =
            watch(self.connection, Interest::READABLE).map_err(|_| HandoffFailure::Other)?;
        let is_late = match timeout(left, watched.readable()).await {
            Ok(ready) => ready.map(|_| false).map_err(|_| HandoffFailure::Other)?,
            Err(_) if self.client.is_some() => true,
            Err(_) => return Err(HandoffFailure::Timeout),
        };
        Ok(Self {
            connection: watched.into_inner(),
            is_late,
            ..self
        })
    }
}

fn is_beginning(payload: &[u8]) -> bool {
    parse::<Request<'_>>(payload) == Parsed::Beginning
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType};
    use nix::sys::socket::{sendmsg, socketpair};

    use super::*;

    #[test]
    fn a_handoff_that_lost_descriptors_is_dropped_with_those_that_arrived() {
        let kind = SockType::SeqPacket;
        let (sender, connection) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let (mut client, theirs) = UnixStream::pair().unwrap();
        let rights = [theirs.as_raw_fd(); 3];
        let control = [ControlMessage::ScmRights(&rights)];
        let payload = [IoSlice::new(b"{}")];
        let flags = MsgFlags::empty();
        sendmsg::<()>(sender.as_raw_fd(), &payload, &control, flags, None).unwrap();
        drop(theirs);

        // This has room for two of the three descriptors.
        let mut buffer = Buffer {
            control: vec![0; 3],
            ..Buffer::new()
        };
        let mut incoming = Incoming::new(connection, 0);
        let read = incoming.read(SocketType::Seqpacket, &mut buffer);
        assert_eq!(read, Err(HandoffFailure::Truncated));
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
