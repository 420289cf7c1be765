//! Opens connections without waiting, bound to the source addresses of the plan.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect,
    getsockopt, setsockopt, socket, sockopt,
};

use crate::net::sources::Sources;

/// Ports that are tried before giving up.
const TRIES: usize = 16;

/// The kind of error of a connection attempt that was refused.
pub const REFUSED: &str = "refused";
/// The connection attempt timed out.
pub const CONNECT_TIMEOUT: &str = "connect_timeout";
/// The connection attempt failed for another reason.
pub const CONNECT: &str = "connect";
/// The process reached its limit of open descriptors.
pub const DESCRIPTORS: &str = "descriptors";
/// No source port is left.
pub const PORTS: &str = "ports";

/// Returns the kind of error of a failed connection attempt.
#[must_use]
pub fn connect_error(errno: Errno) -> &'static str {
    match errno {
        Errno::ECONNREFUSED | Errno::ENOENT => REFUSED,
        Errno::ETIMEDOUT => CONNECT_TIMEOUT,
        Errno::EMFILE | Errno::ENFILE => DESCRIPTORS,
        Errno::EADDRNOTAVAIL | Errno::EADDRINUSE => PORTS,
        _ => CONNECT,
    }
}

/// The endpoint of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Peer {
    /// Returns true for a TCP address of this machine, which may be reached from any of its loopback addresses.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => path.display().fmt(formatter),
        }
    }
}

/// Starts connecting; returns a non-blocking socket that is connecting or already connected. It becomes writable when
/// the attempt has ended; [`finish`] then tells how.
///
/// # Errors
/// The kernel's error, such as `ECONNREFUSED` of a Unix socket or `EADDRNOTAVAIL` if no source port is left.
pub fn dial(peer: &Peer, sources: &mut Sources) -> Result<OwnedFd, Errno> {
    match peer {
        Peer::Unix(path) => {
            let socket = open(AddressFamily::Unix)?;
            ignore_in_progress(connect(socket.as_raw_fd(), &UnixAddr::new(path)?))?;
            Ok(socket)
        }
        Peer::Tcp(address) => dial_tcp(*address, sources),
    }
}

/// Connects, and waits for that no longer than `timeout`, as each read and write of the socket does.
///
/// # Errors
/// The kernel's error; `TimedOut` or `WouldBlock` after the timeout.
pub fn connect_within(peer: &Peer, timeout: Duration) -> io::Result<TcpStream> {
    let stream = match peer {
        Peer::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, timeout)?;
            stream.set_nodelay(true)?;
            stream
        }
        // Nothing that is done with it depends on the kind of socket.
        Peer::Unix(path) => OwnedFd::from(UnixStream::connect(path)?).into(),
    };
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// Returns the outcome of a connection attempt that has ended.
///
/// # Errors
/// The reason why the attempt failed.
pub fn finish(socket: &impl AsFd) -> Result<(), Errno> {
    match getsockopt(socket, sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno)),
    }
}

fn dial_tcp(address: SocketAddr, sources: &mut Sources) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let peer = SockaddrStorage::from(address);
    let mut last = Errno::EADDRINUSE;
    for _ in 0..TRIES {
        let socket = open(family)?;
        setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
        let source = sources.next_source();
        let started = match source {
            Some(source) => from(&socket, source)
                .and_then(|()| ignore_in_progress(connect(socket.as_raw_fd(), &peer))),
            None => ignore_in_progress(connect(socket.as_raw_fd(), &peer)),
        };
        match started {
            Ok(()) => return Ok(socket),
            // The port is taken, or was a moment ago: try the next one.
            Err(errno @ (Errno::EADDRINUSE | Errno::EADDRNOTAVAIL)) if source.is_some() => {
                last = errno
            }
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

fn open(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket(
        family,
        SockType::Stream,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        None,
    )
}

fn from(socket: &OwnedFd, source: SocketAddr) -> Result<(), Errno> {
    setsockopt(socket, sockopt::ReuseAddr, &true)?;
    bind(
        socket.as_raw_fd(),
        &SockaddrStorage::from(source) as &dyn SockaddrLike,
    )
}

/// Treats a connection in progress as success.
fn ignore_in_progress(connected: Result<(), Errno>) -> Result<(), Errno> {
    match connected {
        Err(Errno::EINPROGRESS) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_comes_from_its_source_and_a_refused_one_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Peer::Tcp(listener.local_addr().unwrap());
        let source = "127.64.0.1".parse().unwrap();
        let mut sources = Sources::new(vec![source], crate::schedule::Share { index: 0, of: 1 });
        let socket = dial(&peer, &mut sources).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), source);
        finish(&socket).unwrap();
        drop(listener);
        // Loopback refuses within the call of `connect`, or just after it.
        let refused = dial(&peer, &mut Sources::none()).and_then(|socket| finish(&socket));
        assert_eq!(refused, Err(Errno::ECONNREFUSED));
    }
}
