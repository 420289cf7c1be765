//! Where the server listens: a TCP address or a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A socket that listens. Dropping it removes the file of a Unix socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on a TCP address; port 0 lets the system choose.
    ///
    /// # Errors
    /// What is in the way: mostly somebody else who listens there.
    pub async fn tcp(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener =
            listener.with_context(|| format!("listening on {address} (another one: --listen)"))?;
        Ok(Self {
            socket: Socket::Tcp(listener),
        })
    }

    /// Listens on a new Unix socket with the permissions 0660. They are set before anybody can
    /// connect, which is from `listen` on. Needs a Tokio runtime.
    ///
    /// # Errors
    /// What is in the way: mostly a file of that name.
    pub fn unix(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let address =
            UnixAddr::new(path).with_context(|| format!("{shown}: at most 107 bytes, please"))?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let made = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .context("making a Unix socket")?;
        socket::bind(made.as_raw_fd(), &address).with_context(|| {
            format!("making the socket {shown} (remove what stands there, or name another path)")
        })?;
        fs::set_permissions(path, Permissions::from_mode(0o660))
            .with_context(|| format!("setting the permissions of {shown}"))?;
        socket::listen(&made, Backlog::MAXCONN).with_context(|| format!("listening on {shown}"))?;
        let listener = UnixListener::from_std(StdUnixListener::from(made))
            .with_context(|| format!("watching {shown}"))?;
        Ok(Self {
            socket: Socket::Unix(listener, path.to_owned()),
        })
    }

    /// Where it listens, as the streaming daemon's `--openai-base` takes it: `http://127.0.0.1:8081`
    /// or `unix:/run/llm.sock`.
    #[must_use]
    pub fn base(&self) -> String {
        match &self.socket {
            Socket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}"),
                Err(_) => String::new(),
            },
            Socket::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// The next connection, with a second descriptor of its socket. May be dropped.
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

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Failing leaves a stale file, which the next start names.
            let _ = fs::remove_file(path);
        }
    }
}
