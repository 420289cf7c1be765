//! Reading a handoff connection: one message with a payload and the client's socket.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::time::timeout;

use crate::clock;
use crate::config::SocketType;
use crate::failure::HandoffFailure;
use crate::request::{PAYLOAD_LIMIT, Parsed, Request, parse};
use crate::socket::{CONTROL_WORDS, receive, watch};

/// How long a sender may take for its payload after it connected.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Room for one handoff; a shard has one, used again and again.
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

    /// The first `length` bytes of what was read.
    pub(crate) fn payload(&self, length: usize) -> &[u8] {
        &self.payload[..length]
    }
}

/// A handoff connection that was accepted, and what came from it.
#[derive(Debug)]
pub(crate) struct Incoming {
    connection: OwnedFd,
    /// When it was accepted.
    pub(crate) accepted: u64,
    client: Option<OwnedFd>,
    surplus: usize,
    saw_end: bool,
    /// What has come of a payload while its rest is waited for; empty before and after.
    begun: Vec<u8>,
}

/// How far the reading has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The payload is whole and has so many bytes; it is in the buffer.
    Whole(usize),
    /// The rest, or everything, has still to come.
    Wait,
}

/// What a connection brought besides its payload.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The first descriptor.
    pub(crate) client: Option<OwnedFd>,
    /// How many more there were; they are closed.
    pub(crate) surplus: usize,
}

impl Incoming {
    pub(crate) fn new(connection: OwnedFd, accepted: u64) -> Self {
        Self {
            connection,
            accepted,
            client: None,
            surplus: 0,
            saw_end: false,
            begun: Vec::new(),
        }
    }

    /// Reads what is there into `buffer`, after what had been read before.
    ///
    /// On `SOCK_SEQPACKET` one record is one handoff. On `SOCK_STREAM` nothing marks the end of the
    /// payload, for the sender may keep the connection open until we close it. So a payload is whole
    /// there unless it is the beginning of a JSON object; then the rest is waited for, until it
    /// parses or the connection ends or the time is over. (It is parsed once more to be used: 0.3 µs
    /// for the usual payload.)
    pub(crate) fn read(
        &mut self,
        socket_type: SocketType,
        buffer: &mut Buffer,
    ) -> Result<Progress, HandoffFailure> {
        let mut filled = self.take_begun(buffer);
        loop {
            let room = &mut buffer.payload[filled..];
            let message = match receive(&self.connection, room, &mut buffer.control) {
                Ok(message) => message,
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    self.begun.extend_from_slice(&buffer.payload[..filled]);
                    return Ok(Progress::Wait);
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
                // On a SEQPACKET socket the first end may be none: the kernel looks for a message,
                // finds none, then the sender sends and closes, and then the kernel finds that the
                // sender has closed. The message is there at the second try.
                self.saw_end = true;
                continue;
            }
            if is_end && filled == 0 && self.client.is_none() {
                return Err(HandoffFailure::Empty);
            }
            let is_record = socket_type == SocketType::Seqpacket;
            if is_end || is_record || !is_beginning(&buffer.payload[..filled]) {
                return Ok(Progress::Whole(filled));
            }
        }
    }

    /// Moves what had been read before into `buffer`. Returns its length.
    pub(crate) fn take_begun(&mut self, buffer: &mut Buffer) -> usize {
        let length = self.begun.len();
        buffer.payload[..length].copy_from_slice(&self.begun);
        self.begun = Vec::new();
        length
    }

    fn keep(&mut self, descriptor: Option<OwnedFd>, surplus: usize) {
        self.surplus += surplus;
        match self.client {
            None => self.client = descriptor,
            // A second one, in a later piece of a stream: dropped, and so closed.
            Some(_) => self.surplus += usize::from(descriptor.is_some()),
        }
    }

    /// Waits until there is more to read. Fails if the time is over and no client has come.
    /// Dropping the future closes what has come.
    pub(crate) async fn readable(self) -> Result<Waited, HandoffFailure> {
        let deadline = self.accepted.saturating_add(nanos(RECEIVE_TIMEOUT));
        let left = Duration::from_nanos(deadline.saturating_sub(clock::now()));
        let watched =
            watch(self.connection, Interest::READABLE).map_err(|_| HandoffFailure::Other)?;
        let in_time = match timeout(left, watched.readable()).await {
            Ok(ready) => ready.map(|_| true).map_err(|_| HandoffFailure::Other)?,
            Err(_) if self.client.is_some() => false,
            Err(_) => return Err(HandoffFailure::Timeout),
        };
        let incoming = Self {
            connection: watched.into_inner(),
            ..self
        };
        Ok(match in_time {
            true => Waited::Readable(incoming),
            false => Waited::TimeOver(incoming),
        })
    }

    /// Closes the connection, which is all that its sender hears from us.
    pub(crate) fn close(self) -> Arrival {
        Arrival {
            client: self.client,
            surplus: self.surplus,
        }
    }
}

/// What waiting for the rest of a handoff led to.
#[derive(Debug)]
pub(crate) enum Waited {
    Readable(Incoming),
    /// A client came, but not its whole payload.
    TimeOver(Incoming),
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

        // Room for two descriptors of the three.
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
