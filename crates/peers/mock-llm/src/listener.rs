//! Listening sockets: a TCP address or a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Permissions of the file of a Unix socket.
const PERMISSIONS: u32 = 0o660;

/// A listening socket. Dropping it removes the file of a Unix socket, unless it was replaced.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Listens on a TCP address; port 0 lets the system choose.
    ///
    /// # Errors
    /// The address can't be listened on, most often because it is in use.
    pub async fn tcp(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| {
            format!("cannot listen on {address} (choose another address with --listen)")
        })?;
        Ok(Self {
            socket: Socket::Tcp(listener),
        })
    }

    /// Listens on a new Unix socket with the permissions 0660 from the start. Needs a Tokio runtime.
    ///
    /// # Errors
    /// The socket can't be created, most often because the file exists.
    pub fn unix(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let address = UnixAddr::new(path)
            .with_context(|| format!("{shown}: the path is too long: give at most 107 bytes"))?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let made = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .context("cannot create a Unix socket")?;
        // `bind` gives the file the permissions of the socket, minus the umask.
        fchmod(&made, Mode::from_bits_truncate(PERMISSIONS))
            .context("cannot set the permissions of a socket")?;
        socket::bind(made.as_raw_fd(), &address).with_context(|| {
            format!(
                "cannot create the socket {shown} (remove the existing file, or name another path)"
            )
        })?;
        let file = SocketFile::new(path)?;
        // Restores the permissions that the umask removed.
        fs::set_permissions(path, Permissions::from_mode(PERMISSIONS))
            .with_context(|| format!("cannot set the permissions of {shown}"))?;
        socket::listen(&made, Backlog::MAXCONN)
            .with_context(|| format!("cannot listen on {shown}"))?;
        let listener = UnixListener::from_std(StdUnixListener::from(made))
            .with_context(|| format!("cannot watch {shown}"))?;
        Ok(Self {
            socket: Socket::Unix(listener, file),
        })
    }

    /// Returns the address in the form of the streaming daemon's `--openai-base`: `http://127.0.0.1:8081` or
    /// `unix:/run/llm.sock`.
    #[must_use]
    pub fn base(&self) -> String {
        match &self.socket {
            Socket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}"),
                Err(_) => String::new(),
            },
            Socket::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    /// Accepts the next connection, with a second descriptor of its socket. May be dropped.
    pub(crate) async fn accept(&self) -> io::Result<(Connection, OwnedFd)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (client, _) = listener.accept().await?;
                client.set_nodelay(true)?;
                let socket = client.as_fd().try_clone_to_owned()?;
                Ok((Connection::Tcp(client), socket))
            }
            Socket::Unix(listener, _) => {
                let (client, _) = listener.accept().await?;
                let socket = client.as_fd().try_clone_to_owned()?;
                Ok((Connection::Unix(client), socket))
            }
        }
    }
}

/// A client's connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The file of a Unix socket. Dropping this removes the file, unless it was replaced.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> anyhow::Result<Self> {
        let identity = identify(path)
            .with_context(|| format!("cannot inspect the new socket {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            identity,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identify(&self.path).is_ok_and(|found| found == self.identity) {
            // On failure a stale file is left, which the next start reports.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_file_is_removed_and_one_in_its_place_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("llm.sock");
        let listener = Listener::unix(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, PERMISSIONS);
        drop(listener);
        assert!(!path.exists());
        let listener = Listener::unix(&path).unwrap();
        // The old socket is kept under another name, so that its inode is not reused.
        fs::rename(&path, folder.path().join("old")).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(listener);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
