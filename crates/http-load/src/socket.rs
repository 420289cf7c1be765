//! Connecting sockets, bound to the source addresses of the plan.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect,
    setsockopt, socket, sockopt,
};

use crate::source::Sources;
use crate::target::Peer;

/// Ports that are tried before giving up.
const TRIES: usize = 16;

/// Starts connecting; returns a socket that is connecting or already connected.
pub(crate) fn dial(peer: &Peer, sources: &mut Sources) -> Result<OwnedFd, Errno> {
    match peer {
        Peer::Unix(path) => {
            let socket = open(AddressFamily::Unix)?;
            ignore_in_progress(connect(socket.as_raw_fd(), &UnixAddr::new(path)?))?;
            Ok(socket)
        }
        Peer::Tcp(address) => dial_tcp(*address, sources),
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
        let source = sources.next();
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
