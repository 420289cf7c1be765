//! The handoff socket: created, or passed to the process.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use daemon_kit::activation::PassedSocket;
use daemon_kit::{SocketFile, UnixSocket};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{self, Shutdown, SockType, UnixAddr};

use crate::config::{Config, SocketType};

/// A listening handoff socket, with its file if the daemon created it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    socket_type: SocketType,
    /// `None` for a socket that was passed to the process: others listen on it before and after.
    file: Option<Arc<SocketFile>>,
}

impl Listener {
    /// Creates the socket and listens.
    pub(crate) fn bind(config: &Config) -> anyhow::Result<Self> {
        let (socket, file) = UnixSocket {
            kind: kind(config.socket_type),
            mode: config.socket_mode,
            backlog: config.backlog,
        }
        .bind(&config.socket_path)?;
        Ok(Self {
            socket,
            socket_type: config.socket_type,
            file: Some(Arc::new(file)),
        })
    }

    /// Adopts a socket that is already listening.
    pub(crate) fn adopt(passed: PassedSocket) -> anyhow::Result<Self> {
        let socket = passed.socket;
        // Non-blocking, since shards accept until nothing is left.
        let flags = fcntl(&socket, FcntlArg::F_GETFL).context("cannot read the socket's flags")?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(&socket, FcntlArg::F_SETFL(flags)).context("cannot make the socket non-blocking")?;
        Ok(Self {
            socket,
            socket_type: match passed.kind {
                SockType::Stream => SocketType::Stream,
                _ => SocketType::Seqpacket,
            },
            file: None,
        })
    }

    pub(crate) fn socket_type(&self) -> SocketType {
        self.socket_type
    }

    /// Returns the file of the socket, if the daemon created it.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        self.file.clone()
    }

    /// Returns the path of the socket; `None` for a socket without a path.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let address = socket::getsockname::<UnixAddr>(self.socket.as_raw_fd()).ok()?;
        address.path().map(Path::to_owned)
    }

    /// Duplicates the descriptor of the socket: epoll accepts each descriptor once.
    pub(crate) fn share(&self) -> anyhow::Result<OwnedFd> {
        self.socket
            .try_clone()
            .context("cannot duplicate the handoff socket")
    }

    /// Refuses further connections, while those in the accept queue can still be accepted.
    ///
    /// A passed socket stays open: its owner keeps it for the next daemon, which finds new connections in the accept
    /// queue.
    pub(crate) fn refuse_further(&self) {
        let Some(file) = &self.file else {
            return;
        };
        file.remove();
        if let Err(error) = socket::shutdown(self.socket.as_raw_fd(), Shutdown::Read) {
            // Other systems return ENOTCONN; Linux returns no error for a listening socket.
            debug_assert_eq!(error, Errno::ENOTCONN);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn kind(socket_type: SocketType) -> SockType {
    match socket_type {
        SocketType::Seqpacket => SockType::SeqPacket,
        SocketType::Stream => SockType::Stream,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;
    use daemon_kit::accept_waiting;
    use nix::sys::socket::{AddressFamily, SockFlag};

    use super::*;
    use crate::Options;

    #[test]
    fn after_refusing_further_handoffs_those_that_wait_can_still_be_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handoff.sock");
        let arguments = ["streaming-daemon", "--socket", path.to_str().unwrap()];
        let config = Options::parse_from(arguments).config().unwrap();
        let new_socket = || {
            let kind = kind(config.socket_type);
            socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap()
        };
        let listener = Listener::bind(&config).unwrap();
        let address = UnixAddr::new(&config.socket_path).unwrap();
        let connect = || {
            let sender = new_socket();
            socket::connect(sender.as_raw_fd(), &address).map(|()| sender)
        };
        let _waiting = (connect().unwrap(), connect().unwrap());
        // A second name, since the path itself is removed.
        let other = folder.path().join("other.sock");
        fs::hard_link(&config.socket_path, &other).unwrap();
        listener.refuse_further();
        let sender = new_socket();
        let refused = socket::connect(sender.as_raw_fd(), &UnixAddr::new(&other).unwrap());
        assert_eq!(refused, Err(Errno::ECONNREFUSED));
        assert!(accept_waiting(&listener).is_ok());
        assert!(accept_waiting(&listener).is_ok());
        assert!(accept_waiting(&listener).is_err());
    }
}
