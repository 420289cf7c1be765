//! The listening sockets: one per worker and port; the Unix socket is shared by all.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::sys::socket::{
    self, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, UnixAddr, setsockopt,
    sockopt,
};
use nix::sys::stat::{Mode, fchmod};

use crate::config::Config;

/// Permissions of the Unix socket's file.
const PERMISSIONS: u32 = 0o660;
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
    pub(crate) pages: Option<TcpListener>,
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
        let pages = config
            .metrics_port
            .map(|port| pages(config.bind, port))
            .transpose()?;
        if let Some(listener) = &pages {
            addresses.push(format!(
                "http://{}/metrics",
                listener
                    .local_addr()
                    .context("cannot determine the metrics port")?
            ));
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
            pages,
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

/// Converts a backlog; above the library's maximum, the system's maximum is used.
fn backlog(wanted: u32) -> Backlog {
    i32::try_from(wanted)
        .ok()
        .and_then(|wanted| Backlog::new(wanted).ok())
        .unwrap_or(Backlog::MAXALLOWABLE)
}

fn pages(bind: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(bind, port);
    let listener = TcpListener::bind(address).with_context(|| {
        format!(
            "cannot listen on {address} for the metrics (choose another port with --metrics-port)"
        )
    })?;
    listener
        .set_nonblocking(true)
        .context("cannot make the metrics listener non-blocking")?;
    Ok(listener)
}

fn unix(path: &Path, wanted: u32) -> anyhow::Result<(OwnedFd, SocketFile)> {
    let shown = path.display();
    let address = UnixAddr::new(path)
        .with_context(|| format!("--unix {shown}: give a path of at most 107 bytes"))?;
    remove_stale(path)?;
    let made = socket::socket(AddressFamily::Unix, SockType::Stream, FLAGS, None)
        .context("cannot create a Unix socket")?;
    // `bind` gives the file the permissions of the socket, minus the umask: it is never more open than that.
    fchmod(&made, Mode::from_bits_truncate(PERMISSIONS))
        .context("cannot set the permissions of a socket")?;
    socket::bind(made.as_raw_fd(), &address).with_context(|| {
        format!("cannot create the socket {shown} (choose another path with --unix)")
    })?;
    let file =
        SocketFile::new(path).with_context(|| format!("cannot inspect the new socket {shown}"))?;
    // Restores the permissions that the umask removed.
    fs::set_permissions(path, Permissions::from_mode(PERMISSIONS))
        .with_context(|| format!("cannot set the permissions of {shown}"))?;
    socket::listen(&made.as_fd(), backlog(wanted))
        .with_context(|| format!("cannot listen on {shown}"))?;
    Ok((made, file))
}

/// Removes the socket of a daemon that no longer runs; anything else stays.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        bail!("--unix {shown}: the file is not a socket; remove it, or name another path");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("cannot remove the old socket {shown}"))
        }
        _ => bail!(
            "--unix {shown}: another process is listening there; stop it, or name another path"
        ),
    }
}

/// The file of a Unix socket. Dropping this removes the file, unless it was replaced.
#[derive(Debug)]
pub(crate) struct SocketFile {
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
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identify(&self.path).is_ok_and(|found| found == self.identity) {
            // Failing leaves a stale file, which the next start removes.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
