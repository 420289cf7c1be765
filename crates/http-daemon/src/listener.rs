//! The listening sockets: one per worker and port; the Unix socket is shared by all.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use anyhow::Context as _;
use daemon_kit::{DEFAULT_MODE, MetricsServer, SocketFile, UnixSocket, backlog};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt,
};

use crate::config::Config;

const FLAGS: SockFlag = SockFlag::SOCK_NONBLOCK.union(SockFlag::SOCK_CLOEXEC);

/// The listening sockets of one worker.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: OwnedFd,
    pub(crate) https: Option<OwnedFd>,
    pub(crate) unix: Option<OwnedFd>,
}

/// All sockets of the daemon. They are already listening: clients that connect wait in the queue of a worker.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The sockets of each worker of each process.
    pub(crate) workers: Vec<Listeners>,
    pub(crate) metrics: Option<MetricsServer>,
    /// Removes the socket's file when it is dropped.
    #[expect(dead_code, reason = "it is kept for its end")]
    pub(crate) file: Option<SocketFile>,
    /// Addresses for the "listening on" lines.
    pub(crate) addresses: Vec<String>,
}

impl Sockets {
    pub(crate) fn bind(config: &Config) -> anyhow::Result<Self> {
        let count = config.processes * config.workers;
        let mut addresses = Vec::new();
        let (http, address) = group(config, config.http_port, count, "http-port")?;
        addresses.push(format!("http://{address}"));
        let mut https = Vec::new();
        if let Some(port) = config.https_port {
            let (group, address) = group(config, port, count, "https-port")?;
            addresses.push(format!("https://{address}"));
            https = group;
        }
        let bind_metrics = |port| {
            let address = SocketAddr::new(config.bind, port);
            MetricsServer::bind(address, "choose another port with --metrics-port")
        };
        let metrics = config.metrics_port.map(bind_metrics).transpose()?;
        if let Some(server) = &metrics {
            addresses.push(format!("http://{}/metrics", server.address()?));
        }
        let unix = config
            .unix
            .as_deref()
            .map(|path| unix(path, config.backlog))
            .transpose()?;
        let (unix, file) = unix.unzip();
        if let Some(path) = &config.unix {
            addresses.push(format!("unix:{}", path.display()));
        }
        let mut https = https.into_iter();
        let workers = http.into_iter().map(|http| {
            let unix = unix.as_ref().map(OwnedFd::try_clone).transpose();
            Ok(Listeners {
                http,
                https: https.next(),
                unix: unix.context("cannot share the Unix socket")?,
            })
        });
        Ok(Self {
            workers: workers.collect::<anyhow::Result<_>>()?,
            metrics,
            file,
            addresses,
        })
    }
}

/// Creates listeners on one port; the kernel distributes connections among them.
fn group(
    config: &Config,
    port: u16,
    count: usize,
    option: &str,
) -> anyhow::Result<(Vec<OwnedFd>, SocketAddr)> {
    let mut address = SocketAddr::new(config.bind, port);
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
        let listener = listen(config, address).with_context(|| match group.is_empty() {
            true => doing(address),
            false => one_of_all(),
        })?;
        let bound = listener.try_clone().with_context(one_of_all)?;
        address = TcpListener::from(bound).local_addr()?;
        group.push(listener);
    }
    Ok((group, address))
}

fn listen(config: &Config, address: SocketAddr) -> nix::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let listener = socket::socket(family, SockType::Stream, FLAGS, None)?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    setsockopt(&listener, sockopt::ReusePort, &true)?;
    // Connections inherit their listener's options.
    setsockopt(&listener, sockopt::TcpNoDelay, &config.tcp_nodelay)?;
    setsockopt(&listener, sockopt::KeepAlive, &config.tcp_keepalive)?;
    socket::bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
    socket::listen(&listener, backlog(config.backlog))?;
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
