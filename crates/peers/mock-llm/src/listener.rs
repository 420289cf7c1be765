//! Listening sockets: a TCP address or a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listening socket. Dropping it removes the file of a Unix socket.
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

    /// Listens on a new Unix socket. Needs a Tokio runtime.
    ///
    /// # Errors
    /// The socket can't be created, most often because the file exists.
    pub fn unix(path: &Path) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(path).with_context(|| {
            let shown = path.display();
            format!(
                "cannot create the socket {shown} (remove the existing file, or name another path)"
            )
        })?;
        std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
        Ok(Self {
            socket: Socket::Unix(listener, path.to_owned()),
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
            Socket::Unix(_, path) => format!("unix:{}", path.display()),
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

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // On failure a stale file is left, which the next start reports.
            let _ = fs::remove_file(path);
        }
    }
}

/// A client's connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}
