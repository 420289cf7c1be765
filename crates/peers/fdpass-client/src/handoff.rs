//! Passes a client's socket to a daemon: one connection, one message, one descriptor (`SCM_RIGHTS`, unix(7)).
//!
//! System calls of a handoff with a Unix client: socketpair, socket, connect, sendmsg, close; the two descriptors that
//! stay open are watched (2 × epoll_ctl), and the handoff connection is closed when the daemon has closed it. These are
//! 8.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use load::clock;
use load::plan::Invalid;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt,
    send, sendmsg, socket, sockopt,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default payload of the reference generator.
pub const DEFAULT_DATA: &str = r#"{"prompt":"benchmark test","user_id":1}"#;
/// Default number of records per stream of the mock backends.
pub const DEFAULT_MESSAGES: u32 = 18;
/// The socket of the daemons that the reference describes.
pub const REFERENCE_SOCKET: &str = "/var/run/streaming-daemon.sock";

/// The type of the daemon's socket.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum, JsonSchema,
)]
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
    pub const BOTH: [Self; 2] = [Self::Seqpacket, Self::Stream];

    /// Returns the name as in `DAEMON_SOCKET_TYPE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Auto | Self::Seqpacket => "seqpacket",
        }
    }
}

/// The kind of client whose socket is handed over.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// An end of a pair of Unix stream sockets: the cheapest.
    #[default]
    Unix,
    /// A TCP connection on loopback, as behind a web server.
    Tcp,
}

impl ClientKind {
    /// All kinds.
    pub const BOTH: [Self; 2] = [Self::Unix, Self::Tcp];
}

/// Send buffer that a record cannot use: the kernel keeps 32 bytes of it (`unix_dgram_sendmsg`).
const RECORD_OVERHEAD: usize = 32;
/// Flags of a send that neither waits nor raises SIGPIPE.
pub const SEND_FLAGS: MsgFlags = MsgFlags::MSG_NOSIGNAL.union(MsgFlags::MSG_DONTWAIT);
/// Time that the rest of a payload may take if it did not fit at once.
const SPLIT_TIMEOUT_MS: u16 = 1_000;
/// Number of listeners for TCP clients: each address gives its clients a separate range of ports (28,000 by default).
const TCP_ADDRESSES: u8 = 16;

/// Returns the largest payload that fits into one message.
pub fn payload_limit() -> nix::Result<usize> {
    let probe = unix_socket(SocketType::Seqpacket)?;
    Ok(getsockopt(&probe, sockopt::SndBuf)?.saturating_sub(RECORD_OVERHEAD))
}

fn unix_socket(kind: SocketType) -> nix::Result<OwnedFd> {
    let kind = match kind {
        SocketType::Stream => SockType::Stream,
        SocketType::Auto | SocketType::Seqpacket => SockType::SeqPacket,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, kind, flags, None)
}

/// The endpoint for handoffs: the daemon's socket.
#[derive(Debug)]
pub struct HandoffEndpoint {
    address: UnixAddr,
    /// Determined by the first connection if it was not given.
    kind: OnceLock<SocketType>,
}

impl HandoffEndpoint {
    /// Creates the endpoint for a daemon's socket.
    ///
    /// # Errors
    /// A path longer than a socket address can be, or the name of an abstract socket.
    pub fn new(path: &Path, wanted: SocketType) -> Result<Self, Invalid> {
        let kind = match wanted {
            SocketType::Auto => OnceLock::new(),
            known => OnceLock::from(known),
        };
        let invalid = |problem| Invalid::new(format!("--socket {}", path.display()), problem);
        if path.as_os_str().as_encoded_bytes().starts_with(b"@") {
            return Err(invalid(
                "abstract sockets (@…) are not supported: name a file, for instance /run/streaming-daemon.sock",
            ));
        }
        let address = UnixAddr::new(path).map_err(|_| {
            invalid("is longer than a socket address can be (107 bytes): use a shorter path")
        })?;
        Ok(Self { address, kind })
    }

    /// Returns the path of the daemon's socket.
    pub fn path(&self) -> &Path {
        self.address.path().unwrap_or(Path::new(""))
    }

    /// Connects to find out if a daemon listens, and on which type of socket.
    pub fn find(path: &Path) -> Result<SocketType, Invalid> {
        let endpoint = Self::new(path, SocketType::Auto)?;
        endpoint.connect().map_err(|errno| explain(path, errno))?;
        Ok(endpoint.kind.get().copied().unwrap_or_default())
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
        let (kind, handoff) = match self.connect_as(SocketType::Seqpacket) {
            Err(Errno::EPROTOTYPE) => (SocketType::Stream, self.connect_as(SocketType::Stream)?),
            other => (SocketType::Seqpacket, other?),
        };
        // Another worker can only have found the same.
        let _ = self.kind.set(kind);
        Ok(handoff)
    }

    /// Connects. Waits until `until` while the accept queue is full.
    pub fn connect_until(&self, until: u64) -> nix::Result<OwnedFd> {
        loop {
            match self.connect() {
                Err(Errno::EAGAIN) if clock::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    fn connect_as(&self, kind: SocketType) -> nix::Result<OwnedFd> {
        let handoff = unix_socket(kind)?;
        connect(handoff.as_raw_fd(), &self.address)?;
        Ok(handoff)
    }
}

/// Returns the error of a refused connect with its remedy.
pub fn explain(socket: &Path, errno: Errno) -> Invalid {
    let remedy = match errno {
        Errno::ENOENT => "start the daemon first, or leave --socket out to have one launched",
        Errno::ECONNREFUSED => {
            "no process listens there: start the daemon; if a crashed daemon left the file, remove it"
        }
        Errno::EPROTOTYPE => "the daemon's socket has the other type: use --socket-type auto",
        Errno::ENOTSOCK => "this is not a socket: name the daemon's socket",
        Errno::EACCES | Errno::EPERM => {
            "start the daemon with a more permissive --socket-mode, or run as its group"
        }
        Errno::EAGAIN => "its accept queue is full: check if the daemon is stuck",
        _ => "check that this is the daemon's socket",
    };
    let field = format!("--socket {}", socket.display());
    Invalid::new(field, format!("{}: {remedy}", errno.desc()))
}

/// Sends payload and descriptor in one message.
///
/// # Errors
/// The kernel's error; `EMSGSIZE` for a payload above the limit of the socket.
pub fn pass(handoff: &OwnedFd, payload: &[u8], client: RawFd) -> nix::Result<()> {
    let sent = send_message(handoff, payload, &[client])?;
    finish(handoff, &payload[sent..])
}

/// Sends a payload with any number of descriptors; returns how many bytes of it were sent.
#[inline]
pub fn send_message(
    handoff: &OwnedFd,
    payload: &[u8],
    descriptors: &[RawFd],
) -> nix::Result<usize> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = &rights[..usize::from(!descriptors.is_empty())];
    let message = [IoSlice::new(payload)];
    sendmsg::<()>(handoff.as_raw_fd(), &message, control, SEND_FLAGS, None)
}

/// Sends the rest of a large payload that did not fit into a stream's buffer at once, as the daemon reads. This waits,
/// which happens only for payloads of more than about 100 KiB on `SOCK_STREAM`.
fn finish(handoff: &OwnedFd, mut rest: &[u8]) -> nix::Result<()> {
    while !rest.is_empty() {
        let mut polled = [PollFd::new(handoff.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut polled, PollTimeout::from(SPLIT_TIMEOUT_MS))? == 0 {
            return Err(Errno::ETIMEDOUT);
        }
        match send(handoff.as_raw_fd(), rest, SEND_FLAGS) {
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
    listeners: Vec<(TcpListener, SocketAddr)>,
    next: usize,
}

impl Clients {
    /// Prepares clients of a kind.
    ///
    /// # Errors
    /// A loopback address that cannot be listened on.
    pub fn new(kind: ClientKind) -> io::Result<Self> {
        let last = match kind {
            ClientKind::Unix => 0,
            ClientKind::Tcp => TCP_ADDRESSES,
        };
        let listener = |host| {
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), 0))?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        Ok(Self {
            listeners: (1..=last).map(listener).collect::<io::Result<_>>()?,
            next: 0,
        })
    }

    /// Creates a connection: our end, and the one to hand over.
    ///
    /// # Errors
    /// The kernel's error, usually `EMFILE`.
    pub fn open(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        if self.listeners.is_empty() {
            return UnixStream::pair().map(|(ours, theirs)| (ours.into(), theirs.into()));
        }
        self.next = (self.next + 1) % self.listeners.len();
        let (listener, address) = &self.listeners[self.next];
        // On loopback the handshake is over when connect returns, and the connection waits in the accept queue.
        let ours = TcpStream::connect(address)?;
        let (theirs, _) = listener.accept()?;
        Ok((ours.into(), theirs.into()))
    }
}

/// Returns the daemon's process, which called `listen` (`SO_PEERCRED`, unix(7)). `None` if it is in another PID
/// namespace.
pub fn peer(handoff: &OwnedFd) -> Option<i32> {
    let credentials = getsockopt(handoff, sockopt::PeerCredentials).ok()?;
    Some(credentials.pid()).filter(|pid| *pid > 0)
}
/// Returns a payload of `bytes` bytes by padding the prompt.
pub fn long_prompt(bytes: usize) -> Vec<u8> {
    let (before, after) = (r#"{"prompt":""#, r#"","user_id":1}"#);
    let prompt = bytes.saturating_sub(before.len() + after.len());
    [before, &"a".repeat(prompt), after].concat().into_bytes()
}
