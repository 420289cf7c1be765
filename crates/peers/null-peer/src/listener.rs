//! The socket on which a peer is reached.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
    sockopt,
};

/// Connections that may wait to be accepted; the system limits it further.
const BACKLOG: i32 = 65_535;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A listening socket. The file of a Unix socket is removed with it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens on an address of TCP.
    pub(crate) fn tcp(address: SocketAddr) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, path: None })
    }

    /// Listens on a path, and replaces the socket file of a dead process.
    pub(crate) fn unix(path: &Path, kind: SocketType) -> io::Result<Self> {
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if UnixStream::connect(path).is_err_and(is_refused) {
            std::fs::remove_file(path)?;
        }
        let socket = socket_with(AddressFamily::UNIX, kind, FLAGS, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self {
            socket,
            path: Some(path.to_owned()),
        })
    }

    /// Returns the address, if it is one of TCP.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        if self.path.is_some() {
            return Ok(None);
        }
        TcpListener::from(self.socket.try_clone()?)
            .local_addr()
            .map(Some)
    }

    /// Accepts the next connection, if one waits. It does not block.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match accept_with(&self.socket, FLAGS).map_err(io::Error::from) {
            Ok(socket) => {
                if self.path.is_none() {
                    sockopt::set_tcp_nodelay(&socket, true)?;
                }
                Ok(Some(socket))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Another process may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}
