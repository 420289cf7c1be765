//! Listening Unix sockets: created with their permissions, never taken from a running process, removed at the end.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};

/// Permissions of a socket file unless others are requested: owner and group.
pub const DEFAULT_MODE: u32 = 0o660;

/// The settings of a listening Unix socket.
#[derive(Debug, Clone, Copy)]
pub struct UnixSocket {
    /// `SOCK_STREAM` or `SOCK_SEQPACKET`.
    pub kind: SockType,
    /// Permissions of the socket file.
    pub mode: u32,
    /// Number of connections that may wait to be accepted; see [`backlog`].
    pub backlog: u32,
}

impl UnixSocket {
    /// Creates a non-blocking socket at `path` and listens. The file of a process that no longer runs is replaced.
    ///
    /// `bind` gives the file the permissions of the socket, minus the umask, so they are never wider than requested.
    /// Nobody can connect before `listen`.
    ///
    /// # Errors
    /// The path is too long, in use, or not permitted.
    pub fn bind(self, path: &Path) -> anyhow::Result<(OwnedFd, SocketFile)> {
        let shown = path.display();
        let address = UnixAddr::new(path).with_context(|| {
            format!("{shown}: the socket path is too long: give at most 107 bytes")
        })?;
        let socket = new_socket(self.kind)?;
        remove_stale(path, &address)?;
        fchmod(&socket, Mode::from_bits_truncate(self.mode))
            .context("cannot set the permissions of a socket")?;
        socket::bind(socket.as_raw_fd(), &address)
            .with_context(|| format!("cannot create the socket {shown}"))?;
        let file = SocketFile::new(path)
            .with_context(|| format!("cannot inspect the new socket {shown}"))?;
        // Restores the permissions that the umask removed.
        fs::set_permissions(path, Permissions::from_mode(self.mode))
            .with_context(|| format!("cannot set the permissions of {shown}"))?;
        socket::listen(&socket, backlog(self.backlog))
            .with_context(|| format!("cannot listen on {shown}"))?;
        Ok((socket, file))
    }
}

/// Converts a backlog. Above the C library's constant (4096), the kernel's own limit is used: `net.core.somaxconn`.
#[must_use]
pub fn backlog(wanted: u32) -> Backlog {
    i32::try_from(wanted)
        .ok()
        .and_then(|wanted| Backlog::new(wanted).ok())
        .unwrap_or(Backlog::MAXALLOWABLE)
}

/// The file of a Unix socket. Dropping this removes the file, unless it was replaced.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identify(path)?,
        })
    }

    fn is_intact(&self) -> bool {
        identify(&self.path).is_ok_and(|found| found == self.identity)
    }

    /// Returns why no client can connect: the file was removed or replaced.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        (!self.is_intact()).then(|| {
            let path = self.path.display();
            format!("{path} was removed or replaced: no client can connect until the daemon is started again")
        })
    }

    /// Removes the file, unless it was replaced.
    pub fn remove(&self) {
        if self.is_intact() {
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

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn new_socket(kind: SockType) -> anyhow::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket::socket(AddressFamily::Unix, kind, flags, None).context("cannot create a Unix socket")
}

/// Removes the file of a process that no longer runs. Connecting tells: ECONNREFUSED means that nobody is listening;
/// any other result means that somebody might be.
fn remove_stale(path: &Path, address: &UnixAddr) -> anyhow::Result<()> {
    let shown = path.display();
    let Ok(found) = fs::symlink_metadata(path) else {
        // For example a missing folder, which bind will report.
        return Ok(());
    };
    if !found.file_type().is_socket() {
        bail!("{shown} exists and is not a socket: name another path, or move it away");
    }
    let probe = new_socket(SockType::Stream)?;
    match socket::connect(probe.as_raw_fd(), address) {
        Err(Errno::ECONNREFUSED) => {
            fs::remove_file(path).with_context(|| format!("cannot remove the stale socket {shown}"))
        }
        Err(Errno::EACCES) => bail!(
            "{shown}: no permission to check whether a process listens on it: remove it, or name another path"
        ),
        Ok(()) | Err(_) => {
            bail!("another process is listening on {shown}: stop it, or name another path")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    const STREAM: UnixSocket = UnixSocket {
        kind: SockType::Stream,
        mode: DEFAULT_MODE,
        backlog: 16,
    };

    fn path() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.sock");
        (folder, path)
    }

    #[test]
    fn the_file_has_the_mode_that_was_asked_for() {
        let (_folder, path) = path();
        for mode in [0o600, 0o660, 0o666, 0o777] {
            let _socket = UnixSocket { mode, ..STREAM }.bind(&path).unwrap();
            let found = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode);
        }
    }

    #[test]
    fn another_user_cannot_connect() {
        if !nix::unistd::geteuid().is_root() {
            return test_kit::skip("root, who alone can become another user");
        }
        let (folder, path) = path();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        let script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
        for (mode, is_let_in) in [(0o600, false), (DEFAULT_MODE, false), (0o666, true)] {
            let _socket = UnixSocket { mode, ..STREAM }.bind(&path).unwrap();
            let mut client = Command::new("python3");
            let client = client.args(["-c", script]).arg(&path).uid(65534).gid(65534);
            let output = client.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_let_in, "{mode:o}: {errors}");
            assert!(is_let_in || errors.contains("PermissionError"), "{errors}");
        }
    }

    #[test]
    fn the_file_is_removed_at_the_end_but_not_if_it_belongs_to_another() {
        let (_folder, path) = path();
        drop(STREAM.bind(&path).unwrap());
        assert!(!path.exists());

        let first = STREAM.bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = STREAM.bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let (_folder, path) = path();
        let stale = new_socket(SockType::SeqPacket).unwrap();
        socket::bind(stale.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        drop(stale);
        STREAM.bind(&path).unwrap();
    }

    #[test]
    fn the_socket_of_a_running_process_is_left_alone() {
        let (_folder, path) = path();
        for kind in [SockType::SeqPacket, SockType::Stream] {
            let socket = UnixSocket { kind, ..STREAM };
            let _running = socket.bind(&path).unwrap();
            let error = socket.bind(&path).unwrap_err().to_string();
            assert!(error.contains("another process is listening on"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let (_folder, path) = path();
        fs::write(&path, "precious").unwrap();
        let error = STREAM.bind(&path).unwrap_err().to_string();
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_with_the_limit() {
        let error = STREAM.bind(Path::new(&"x".repeat(200))).unwrap_err();
        assert!(error.to_string().contains("107 bytes"), "{error}");
    }
}
