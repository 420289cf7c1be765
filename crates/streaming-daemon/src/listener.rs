//! The handoff socket: created with its permissions, never taken from a running daemon, removed at the end.

use std::fs::{self, Metadata, Permissions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{self, AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};

use crate::activation::PassedSocket;
use crate::config::{Config, SocketType};

/// A listening handoff socket, with its file if the daemon created it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    socket_type: SocketType,
    /// `None` for a socket that was passed to the process: others listen on it before and after.
    file: Option<SocketFile>,
}

impl Listener {
    /// Creates the socket and listens.
    ///
    /// `bind` gives the file the permissions of the socket, minus the umask, so they are never wider than requested.
    /// Nobody can connect before `listen`.
    pub(crate) fn bind(config: &Config) -> anyhow::Result<Self> {
        let path = &config.socket_path;
        let address = UnixAddr::new(path).with_context(|| {
            format!(
                "{}: the socket path is too long: give at most 107 bytes",
                path.display()
            )
        })?;
        let socket = new_socket(config.socket_type)?;
        remove_stale(path, &address)?;
        fchmod(&socket, Mode::from_bits_truncate(config.socket_mode))
            .context("cannot set the permissions of a socket")?;
        socket::bind(socket.as_raw_fd(), &address)
            .with_context(|| format!("cannot create the socket {}", path.display()))?;
        let file = SocketFile::new(path)?;
        // Restores the permissions that the umask removed.
        fs::set_permissions(path, Permissions::from_mode(config.socket_mode))
            .with_context(|| format!("cannot set the permissions of {}", path.display()))?;
        // Above the C library's constant, the kernel's own limit is used.
        let backlog = i32::try_from(config.backlog).ok();
        let backlog = backlog.and_then(|wanted| Backlog::new(wanted).ok());
        socket::listen(&socket, backlog.unwrap_or(Backlog::MAXALLOWABLE))
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self {
            socket,
            socket_type: config.socket_type,
            file: Some(file),
        })
    }

    /// Adopts a socket that is already listening.
    pub(crate) fn adopt(passed: PassedSocket) -> anyhow::Result<Self> {
        let PassedSocket {
            socket,
            socket_type,
        } = passed;
        // Non-blocking, since shards accept until nothing is left.
        let flags = fcntl(&socket, FcntlArg::F_GETFL).context("cannot read the socket's flags")?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(&socket, FcntlArg::F_SETFL(flags)).context("cannot make the socket non-blocking")?;
        Ok(Self {
            socket,
            socket_type,
            file: None,
        })
    }

    pub(crate) fn socket_type(&self) -> SocketType {
        self.socket_type
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

/// The file of the socket. Dropping this removes the file, unless it was replaced.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn new(path: &Path) -> anyhow::Result<Self> {
        let found = fs::symlink_metadata(path)
            .with_context(|| format!("cannot inspect the new socket {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
        })
    }

    fn is_ours(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

    fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| self.is_ours(&found)) {
            // On failure a stale file is left, which the next start replaces.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

fn new_socket(socket_type: SocketType) -> anyhow::Result<OwnedFd> {
    let kind = match socket_type {
        SocketType::Seqpacket => SockType::SeqPacket,
        SocketType::Stream => SockType::Stream,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket::socket(AddressFamily::Unix, kind, flags, None).context("cannot create a Unix socket")
}

/// Removes the file of a daemon that no longer runs. Connecting tells: ECONNREFUSED means that nobody is listening; any
/// other result means that somebody might be.
fn remove_stale(path: &Path, address: &UnixAddr) -> anyhow::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        // For example a missing folder, which bind will report.
        Err(_) => return Ok(()),
    };
    if !found.file_type().is_socket() {
        bail!(
            "{} exists and is not a socket: name another path, or move it away",
            path.display()
        );
    }
    let probe = new_socket(SocketType::Stream)?;
    match socket::connect(probe.as_raw_fd(), address) {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path)
            .with_context(|| format!("cannot remove the stale socket {}", path.display())),
        Err(Errno::EACCES) => bail!(
            "{}: no permission to check whether a process listens on it: remove it, or name another path",
            path.display()
        ),
        Ok(()) | Err(_) => bail!(
            "another process is listening on {}: stop it, or name another path",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path) -> Config {
        Config {
            socket_path: folder.join("handoff.sock"),
            ..Config::default()
        }
    }

    #[test]
    fn the_file_has_the_mode_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o660, 0o666, 0o777] {
            let config = Config {
                socket_mode: mode,
                ..config(folder.path())
            };
            let _listener = Listener::bind(&config).unwrap();
            let found = fs::metadata(&config.socket_path)
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(found & 0o7777, mode);
        }
    }

    #[test]
    fn the_file_is_removed_at_the_end_but_not_if_it_belongs_to_another() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        drop(Listener::bind(&config).unwrap());
        assert!(!config.socket_path.exists());

        let first = Listener::bind(&config).unwrap();
        fs::remove_file(&config.socket_path).unwrap();
        let _second = Listener::bind(&config).unwrap();
        drop(first);
        assert!(config.socket_path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let stale = new_socket(SocketType::Seqpacket).unwrap();
        let address = UnixAddr::new(&config.socket_path).unwrap();
        socket::bind(stale.as_raw_fd(), &address).unwrap();
        drop(stale);
        Listener::bind(&config).unwrap();
    }

    #[test]
    fn the_socket_of_a_living_daemon_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for socket_type in [SocketType::Seqpacket, SocketType::Stream] {
            let config = Config {
                socket_type,
                ..config(folder.path())
            };
            let _living = Listener::bind(&config).unwrap();
            let error = Listener::bind(&config).unwrap_err().to_string();
            assert!(error.contains("another process is listening on"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        fs::write(&config.socket_path, "precious").unwrap();
        let error = Listener::bind(&config).unwrap_err().to_string();
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&config.socket_path).unwrap(), "precious");
    }

    #[test]
    fn after_refusing_further_handoffs_those_that_wait_can_still_be_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let listener = Listener::bind(&config).unwrap();
        let address = UnixAddr::new(&config.socket_path).unwrap();
        let connect = || {
            let sender = new_socket(config.socket_type).unwrap();
            socket::connect(sender.as_raw_fd(), &address).map(|()| sender)
        };
        let _waiting = (connect().unwrap(), connect().unwrap());
        // A second name, since the path itself is removed.
        let other = folder.path().join("other.sock");
        fs::hard_link(&config.socket_path, &other).unwrap();
        listener.refuse_further();
        let sender = new_socket(config.socket_type).unwrap();
        let refused = socket::connect(sender.as_raw_fd(), &UnixAddr::new(&other).unwrap());
        assert_eq!(refused, Err(Errno::ECONNREFUSED));
        assert!(crate::socket::accept(&listener).is_ok());
        assert!(crate::socket::accept(&listener).is_ok());
        assert!(crate::socket::accept(&listener).is_err());
    }
}
