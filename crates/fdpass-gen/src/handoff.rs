//! Passes a client's socket to a daemon: one connection, one message, one descriptor (`SCM_RIGHTS`, unix(7)).
//!
//! System calls of a handoff with a Unix client: socketpair, socket, connect, sendmsg, close; the two descriptors that
//! stay open are watched (2 × epoll_ctl), and the handoff connection is closed when the daemon has closed it. These are
//! 8.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, SockaddrIn, UnixAddr,
    accept4, bind, connect, getsockname, getsockopt, listen, send, sendmsg, setsockopt, socket,
    socketpair, sockopt,
};
use serde::{Deserialize, Serialize};

/// The type of the daemon's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SocketType {
    /// Sequential packets, or a stream if the daemon refuses them.
    #[default]
    Auto,
    /// `SOCK_SEQPACKET`.
    Seqpacket,
    /// `SOCK_STREAM`.
    Stream,
}

impl SocketType {
    /// The types that every streaming daemon supports.
    pub(crate) const BOTH: [Self; 2] = [Self::Seqpacket, Self::Stream];

    /// Returns the name as in `DAEMON_SOCKET_TYPE`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Auto | Self::Seqpacket => "seqpacket",
        }
    }
}

/// The kind of client whose socket is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// An end of a pair of Unix stream sockets: the cheapest.
    #[default]
    Unix,
    /// A TCP connection on loopback, as behind a web server.
    Tcp,
}

/// Send buffer that a record cannot use: the kernel keeps 32 bytes of it (`unix_dgram_sendmsg`).
const RECORD_OVERHEAD: usize = 32;
/// Time that the rest of a payload may take if it did not fit at once.
const SPLIT_TIMEOUT_MS: u16 = 1_000;
/// Number of listeners for TCP clients: each address gives its clients a separate range of ports (28,000 by default).
const TCP_ADDRESSES: u8 = 16;

/// Returns the largest payload that fits into one message.
///
/// # Errors
/// The kernel's error.
pub fn payload_limit() -> nix::Result<usize> {
    let probe = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    Ok(getsockopt(&probe, sockopt::SndBuf)?.saturating_sub(RECORD_OVERHEAD))
}

fn connecting(kind: SockType) -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Unix,
        kind,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )
}

/// The endpoint for handoffs: the daemon's socket.
#[derive(Debug)]
pub struct HandoffEndpoint {
    address: UnixAddr,
    /// Determined by the first connection if it was not given.
    kind: OnceLock<SockType>,
}

impl HandoffEndpoint {
    /// Creates the endpoint for a daemon's socket.
    ///
    /// # Errors
    /// A path longer than a socket address can be.
    pub fn new(path: &Path, wanted: SocketType) -> nix::Result<Self> {
        let kind = match wanted {
            SocketType::Auto => OnceLock::new(),
            SocketType::Seqpacket => OnceLock::from(SockType::SeqPacket),
            SocketType::Stream => OnceLock::from(SockType::Stream),
        };
        Ok(Self {
            address: UnixAddr::new(path)?,
            kind,
        })
    }

    /// Connects without waiting: a full accept queue is `EAGAIN` at once. A socket of the wrong type is refused with
    /// `EPROTOTYPE`, which costs one extra call, once.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn connect(&self) -> nix::Result<OwnedFd> {
        if let Some(kind) = self.kind.get() {
            return self.connect_as(*kind);
        }
        let (kind, handoff) = match self.connect_as(SockType::SeqPacket) {
            Err(Errno::EPROTOTYPE) => (SockType::Stream, self.connect_as(SockType::Stream)?),
            other => (SockType::SeqPacket, other?),
        };
        // Another worker can only have found the same.
        let _ = self.kind.set(kind);
        Ok(handoff)
    }

    fn connect_as(&self, kind: SockType) -> nix::Result<OwnedFd> {
        let handoff = connecting(kind)?;
        connect(handoff.as_raw_fd(), &self.address)?;
        Ok(handoff)
    }
}

/// Sends payload and descriptor in one message.
///
/// # Errors
/// The kernel's error; `EMSGSIZE` for a payload above [`payload_limit`].
pub fn pass(handoff: &OwnedFd, payload: &[u8], client: RawFd) -> nix::Result<()> {
    let rights = [client];
    let message = [ControlMessage::ScmRights(&rights)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let sent = sendmsg::<()>(
        handoff.as_raw_fd(),
        &[IoSlice::new(payload)],
        &message,
        flags,
        None,
    )?;
    finish(handoff, &payload[sent..])
}

/// Sends the rest of a large payload that did not fit into a stream's buffer at once, as the daemon reads. This waits,
/// which happens only for payloads of more than about 100 KiB on `SOCK_STREAM`.
fn finish(handoff: &OwnedFd, mut rest: &[u8]) -> nix::Result<()> {
    use std::os::fd::AsFd as _;
    while !rest.is_empty() {
        if poll(
            &mut [PollFd::new(handoff.as_fd(), PollFlags::POLLOUT)],
            PollTimeout::from(SPLIT_TIMEOUT_MS),
        )? == 0
        {
            return Err(Errno::ETIMEDOUT);
        }
        match send(
            handoff.as_raw_fd(),
            rest,
            MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
        ) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates client connections: our end and the one to hand over. Both are in blocking mode, as with most web servers,
/// which exposes daemons that rely on the mode of the socket.
#[derive(Debug)]
pub struct Clients {
    /// For TCP: listeners on 127.0.0.1, 127.0.0.2, …, and the index of the next.
    listeners: Vec<(OwnedFd, SocketAddrV4)>,
    next: usize,
}

impl Clients {
    /// Prepares clients of a kind.
    ///
    /// # Errors
    /// A loopback address that cannot be listened on.
    pub fn new(kind: ClientKind) -> nix::Result<Self> {
        let listeners = match kind {
            ClientKind::Unix => Vec::new(),
            ClientKind::Tcp => (1..=TCP_ADDRESSES)
                .map(|last| listener(Ipv4Addr::new(127, 0, 0, last)))
                .collect::<nix::Result<_>>()?,
        };
        Ok(Self { listeners, next: 0 })
    }

    /// Creates a connection: our end, and the one to hand over.
    ///
    /// # Errors
    /// The kernel's error, usually `EMFILE`.
    pub fn open(&mut self) -> nix::Result<(OwnedFd, OwnedFd)> {
        if self.listeners.is_empty() {
            return socketpair(
                AddressFamily::Unix,
                SockType::Stream,
                None,
                SockFlag::SOCK_CLOEXEC,
            );
        }
        self.next = (self.next + 1) % self.listeners.len();
        let (listener, address) = &self.listeners[self.next];
        let ours = socket(
            AddressFamily::Inet,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        // On loopback the handshake is over when connect returns, and the connection waits in the accept queue.
        connect(ours.as_raw_fd(), &SockaddrIn::from(*address))?;
        let theirs = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
        Ok((ours, own(theirs)))
    }
}

fn listener(address: Ipv4Addr) -> nix::Result<(OwnedFd, SocketAddrV4)> {
    let listener = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    bind(
        listener.as_raw_fd(),
        &SockaddrIn::from(SocketAddrV4::new(address, 0)),
    )?;
    listen(&listener, Backlog::MAXCONN)?;
    let bound: SockaddrIn = getsockname(listener.as_raw_fd())?;
    Ok((listener, SocketAddrV4::new(address, bound.port())))
}

#[expect(
    unsafe_code,
    reason = "nix returns accepted connections as raw descriptors"
)]
fn own(descriptor: RawFd) -> OwnedFd {
    use std::os::fd::FromRawFd as _;
    // SAFETY: the descriptor was returned by accept4 just now; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Returns the daemon's process, which called `listen` (`SO_PEERCRED`, unix(7)). `None` if it is in another PID
/// namespace.
#[must_use]
pub fn peer(handoff: &OwnedFd) -> Option<i32> {
    getsockopt(handoff, sockopt::PeerCredentials)
        .ok()
        .map(|credentials| credentials.pid())
        .filter(|pid| *pid > 0)
}
