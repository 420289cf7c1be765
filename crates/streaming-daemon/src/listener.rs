//! The handoff socket: made with its permissions, never stolen from a living daemon, removed at the end.

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

/// A listening handoff socket, and its file if that is the daemon's own.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    socket_type: SocketType,
    /// `None` for a socket that was passed to the process: others listen on it before and after.
    file: Option<SocketFile>,
}

impl Listener {
    /// Makes the socket and listens.
    ///
    /// `bind` gives the file the permissions of the socket, less the umask: at no moment are they
    /// wider than was asked for. And nobody can connect before `listen`.
    pub(crate) fn bind(config: &Config) -> anyhow::Result<Self> {
        let path = &config.socket_path;
        let address = UnixAddr::new(path)
            .with_context(|| format!("{}: a socket path has at most 107 bytes", path.display()))?;
        let socket = new_socket(config.socket_type)?;
        remove_stale(path, &address)?;
        fchmod(&socket, Mode::from_bits_truncate(config.socket_mode))
            .context("setting the permissions of a socket")?;
        socket::bind(socket.as_raw_fd(), &address)
            .with_context(|| format!("making the socket {}", path.display()))?;
        let file = SocketFile::of(path)?;
        // What the umask took away.
        fs::set_permissions(path, Permissions::from_mode(config.socket_mode))
            .with_context(|| format!("setting the permissions of {}", path.display()))?;
        // Above the constant of the C library the kernel is asked for its own limit.
        let backlog = i32::try_from(config.backlog).ok();
        let backlog = backlog.and_then(|wanted| Backlog::new(wanted).ok());
        socket::listen(&socket, backlog.unwrap_or(Backlog::MAXALLOWABLE))
            .with_context(|| format!("listening on {}", path.display()))?;
        Ok(Self {
            socket,
            socket_type: config.socket_type,
            file: Some(file),
        })
    }

    /// Goes on with a socket that listens already.
    pub(crate) fn adopt(passed: PassedSocket) -> anyhow::Result<Self> {
        let PassedSocket {
            socket,
            socket_type,
        } = passed;
        // Shards accept until nothing is left.
        let flags = fcntl(&socket, FcntlArg::F_GETFL).context("asking for the socket's flags")?;
        let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
        fcntl(&socket, FcntlArg::F_SETFL(flags)).context("making the socket non-blocking")?;
        Ok(Self {
            socket,
            socket_type,
            file: None,
        })
    }

    pub(crate) fn socket_type(&self) -> SocketType {
        self.socket_type
    }

    /// Where senders connect; `None` for a socket without a path.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let address = socket::getsockname::<UnixAddr>(self.socket.as_raw_fd()).ok()?;
        address.path().map(Path::to_owned)
    }

    /// A further descriptor of the same socket: epoll takes each descriptor once.
    pub(crate) fn share(&self) -> anyhow::Result<OwnedFd> {
        self.socket
            .try_clone()
            .context("duplicating the handoff socket")
    }

    /// From now on nobody can connect, while what waits in the accept queue can still be accepted.
    ///
    /// A passed socket stays open: whoever passed it keeps it for the next daemon, which finds in
    /// the accept queue what came meanwhile.
    pub(crate) fn refuse_further(&self) {
        let Some(file) = &self.file else {
            return;
        };
        file.remove();
        if let Err(error) = socket::shutdown(self.socket.as_raw_fd(), Shutdown::Read) {
            // ENOTCONN is the answer of other systems; Linux has none for a listening socket.
            debug_assert_eq!(error, Errno::ENOTCONN);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The file of the socket. Dropping it removes the file, unless another one stands in its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let found = fs::symlink_metadata(path)
            .with_context(|| format!("looking at the new socket {}", path.display()))?;
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
            // Failing leaves a stale file, which the next start replaces.
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
    socket::socket(AddressFamily::Unix, kind, flags, None).context("making a Unix socket")
}

/// Removes the file of a daemon that is gone. Whether it is gone is asked by connecting: ECONNREFUSED
/// means that nobody listens, and every other answer that somebody might.
fn remove_stale(path: &Path, address: &UnixAddr) -> anyhow::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        // A missing folder and the like: bind will say so.
        Err(_) => return Ok(()),
    };
    if !found.file_type().is_socket() {
        bail!(
            "{} exists and is no socket: name another path, or move it away",
            path.display()
        );
    }
    let probe = new_socket(SocketType::Stream)?;
    match socket::connect(probe.as_raw_fd(), address) {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path)
            .with_context(|| format!("removing the stale socket {}", path.display())),
        Err(Errno::EACCES) => bail!("{}: no permission to ask who listens on it", path.display()),
        Ok(()) | Err(_) => bail!(
            "another process listens on {}: stop it, or name another path",
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
            assert!(error.contains("another process listens on"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        fs::write(&config.socket_path, "precious").unwrap();
        let error = Listener::bind(&config).unwrap_err().to_string();
        assert!(error.contains("is no socket"), "{error}");
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
        // A second name, because the path itself is removed.
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
