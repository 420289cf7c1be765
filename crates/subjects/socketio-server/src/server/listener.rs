//! The listening sockets: one per worker, on one port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use daemon_kit::backlog;
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt,
};

const FLAGS: SockFlag = SockFlag::SOCK_NONBLOCK.union(SockFlag::SOCK_CLOEXEC);
/// Connections that may wait to be accepted; the kernel limits it to `net.core.somaxconn`.
const BACKLOG: u32 = 65_535;
/// Send buffer of a client's socket; Linux uses twice as much. Without this limit the kernel would hold megabytes for a
/// client that does not read.
const SEND_BUFFER: usize = 64 * 1024;

/// Creates listeners on one port; the kernel distributes connections among them, and ends one whose client takes
/// nothing for `silence_limit`.
pub(crate) fn bind(
    mut address: SocketAddr,
    count: usize,
    silence_limit: Duration,
) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    if address.port() != 0 {
        // Without SO_REUSEPORT: with it, a second daemon of the same user would take half of the first one's clients.
        drop(TcpListener::bind(address)?);
    }
    let mut listeners = Vec::new();
    for _ in 0..count {
        let listener = TcpListener::from(listen(address, silence_limit)?);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok((listeners, address))
}

fn listen(address: SocketAddr, silence_limit: Duration) -> nix::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let listener = socket::socket(family, SockType::Stream, FLAGS, None)?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    setsockopt(&listener, sockopt::ReusePort, &true)?;
    // Connections inherit their listener's options.
    setsockopt(&listener, sockopt::TcpNoDelay, &true)?;
    setsockopt(&listener, sockopt::KeepAlive, &true)?;
    setsockopt(&listener, sockopt::SndBuf, &SEND_BUFFER)?;
    // Without it, an answer that nobody reads would keep its connection for good.
    let limit_ms = i32::try_from(silence_limit.as_millis()).unwrap_or(i32::MAX);
    setsockopt(&listener, sockopt::TcpUserTimeout, &limit_ms.unsigned_abs())?;
    socket::bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
    socket::listen(&listener, backlog(BACKLOG))?;
    Ok(listener)
}
