//! The listening sockets: one per worker and port; the Unix socket is shared by all.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use anyhow::Context as _;
use daemon_kit::{DEFAULT_MODE, MetricsServer, SocketFile, UnixSocket, backlog};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt,
};

use crate::options::Server;

const FLAGS: SockFlag = SockFlag::SOCK_NONBLOCK.union(SockFlag::SOCK_CLOEXEC);

/// A listening socket of one worker.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    pub(crate) protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
    /// HTTP over a Unix socket.
    Unix,
}

/// All sockets of the daemon. They are already listening: clients that connect wait in the queue of a worker.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The sockets of each worker of each process.
    pub(crate) workers: Vec<Vec<Listening>>,
    pub(crate) metrics: Option<MetricsServer>,
    /// Removes the socket's file when it is dropped.
    #[expect(dead_code, reason = "it is kept for its end")]
    pub(crate) file: Option<SocketFile>,
    /// Addresses for the "listening on" lines.
    pub(crate) addresses: Vec<String>,
}

impl Sockets {
    pub(crate) fn bind(server: &Server) -> anyhow::Result<Self> {
        let count = server.processes.get() * server.workers();
        let mut addresses = Vec::new();
        let mut workers: Vec<Vec<Listening>> = (0..count).map(|_| Vec::new()).collect();
        for (scheme, protocol, port) in [
            ("http", Protocol::Http, Some(server.http_port)),
            ("https", Protocol::Https, server.https_port),
        ] {
            let Some(port) = port else { continue };
            let (group, address) = group(server, port, count, &format!("{scheme}-port"))?;
            for (worker, socket) in workers.iter_mut().zip(group) {
                worker.push(Listening { socket, protocol });
            }
            addresses.push(format!("{scheme}://{address}"));
        }
        let bind_metrics = |port| {
            let address = SocketAddr::new(server.bind, port);
            MetricsServer::bind(address, "choose another port with --metrics-port")
        };
        let metrics = server.metrics_port.map(bind_metrics).transpose()?;
        if let Some(server) = &metrics {
            addresses.push(format!("http://{}/metrics", server.address()?));
        }
        let mut file = None;
        if let Some(path) = &server.unix {
            let (unix, socket_file) = unix(path, server.backlog.get())?;
            for worker in &mut workers {
                let socket = unix.try_clone().context("cannot share the Unix socket")?;
                let protocol = Protocol::Unix;
                worker.push(Listening { socket, protocol });
            }
            addresses.push(format!("unix:{}", path.display()));
            file = Some(socket_file);
        }
        Ok(Self {
            workers,
            metrics,
            file,
            addresses,
        })
    }
}

/// Creates listeners on one port; the kernel distributes connections among them.
fn group(
    server: &Server,
    port: u16,
    count: usize,
    option: &str,
) -> anyhow::Result<(Vec<OwnedFd>, SocketAddr)> {
    let mut address = SocketAddr::new(server.bind, port);
    let doing = |address| {
        format!(
            "cannot listen on {address} (choose another port with --{option}, or another address with --bind)"
        )
    };
    let one_of_all =
        || format!("cannot create {count} listeners (use fewer: --workers, --processes)");
    if port != 0 {
        // Without SO_REUSEPORT: with it, a second daemon of the same user would take half of the first one's clients.
        drop(TcpListener::bind(address).with_context(|| doing(address))?);
    }
    let mut group = Vec::new();
    for _ in 0..count {
        let listener = listen(server, address).with_context(|| {
            if group.is_empty() {
                doing(address)
            } else {
                one_of_all()
            }
        })?;
        let bound = listener.try_clone().with_context(one_of_all)?;
        address = TcpListener::from(bound).local_addr()?;
        group.push(listener);
    }
    Ok((group, address))
}

fn listen(server: &Server, address: SocketAddr) -> nix::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let listener = socket::socket(family, SockType::Stream, FLAGS, None)?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    setsockopt(&listener, sockopt::ReusePort, &true)?;
    // Connections inherit their listener's options.
    setsockopt(&listener, sockopt::TcpNoDelay, &server.tcp_nodelay)?;
    setsockopt(&listener, sockopt::KeepAlive, &server.tcp_keepalive)?;
    socket::bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
    socket::listen(&listener, backlog(server.backlog.get()))?;
    Ok(listener)
}

fn unix(path: &Path, backlog: u32) -> anyhow::Result<(OwnedFd, SocketFile)> {
    let socket = UnixSocket {
        kind: SockType::Stream,
        mode: DEFAULT_MODE,
        backlog,
    };
    socket
        .bind(path)
        .with_context(|| format!("--unix {}", path.display()))
}
