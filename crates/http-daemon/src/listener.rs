//! The sockets that listen: one for each worker and port, the Unix socket shared by all.

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

/// Of the file of the Unix socket.
const PERMISSIONS: u32 = 0o660;
const FLAGS: SockFlag = SockFlag::SOCK_NONBLOCK.union(SockFlag::SOCK_CLOEXEC);

/// What one worker listens on.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: OwnedFd,
    pub(crate) https: Option<OwnedFd>,
    pub(crate) unix: Option<OwnedFd>,
}

/// All sockets of the daemon. They listen from now on: who connects waits in the queue of a worker.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// For each worker of each process.
    pub(crate) workers: Vec<Listeners>,
    pub(crate) pages: Option<TcpListener>,
    /// Dropped, it removes the file.
    #[expect(dead_code, reason = "it is kept for its end")]
    pub(crate) file: Option<SocketFile>,
    /// What is listened on, for people.
    pub(crate) places: Vec<String>,
}

impl Sockets {
    pub(crate) fn bind(config: &Config) -> anyhow::Result<Self> {
        let count = config.processes * config.workers;
        let mut places = Vec::new();
        let (http, address) = group(config, config.http_port, count, "http-port")?;
        places.push(format!("http://{address}"));
        let mut https = Vec::new();
        if let Some(port) = config.https_port {
            let (group, address) = group(config, port, count, "https-port")?;
            places.push(format!("https://{address}"));
            https = group;
        }
        let pages = config
            .metrics_port
            .map(|port| pages(config.bind, port))
            .transpose()?;
        if let Some(listener) = &pages {
            places.push(format!(
                "http://{}/metrics",
                listener
                    .local_addr()
                    .context("asking for the metrics port")?
            ));
        }
        let unix = config
            .unix
            .as_deref()
            .map(|path| unix(path, config.backlog))
            .transpose()?;
        let (unix, file) = unix.unzip();
        if let Some(path) = &config.unix {
            places.push(format!("unix:{}", path.display()));
        }
        let mut https = https.into_iter();
        let workers = http.into_iter().map(|http| {
            let unix = unix.as_ref().map(OwnedFd::try_clone).transpose();
            Ok(Listeners {
                http,
                https: https.next(),
                unix: unix.context("sharing the Unix socket")?,
            })
        });
        Ok(Self {
            workers: workers.collect::<anyhow::Result<_>>()?,
            pages,
            file,
            places,
        })
    }
}

/// Listeners on one port, among which the system spreads the connections.
fn group(
    config: &Config,
    port: u16,
    count: usize,
    option: &str,
) -> anyhow::Result<(Vec<OwnedFd>, SocketAddr)> {
    let mut address = SocketAddr::new(config.bind, port);
    let doing = |address| {
        format!("listening on {address} (another port: --{option}; another address: --bind)")
    };
    let one_of_all = || format!("making {count} listeners (fewer: --workers, --processes)");
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
    // Connections have from birth what their listener has.
    setsockopt(&listener, sockopt::TcpNoDelay, &config.tcp_nodelay)?;
    setsockopt(&listener, sockopt::KeepAlive, &config.tcp_keepalive)?;
    socket::bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
    socket::listen(&listener, backlog(config.backlog))?;
    Ok(listener)
}

/// Above what the library knows, as many as the system allows.
fn backlog(wanted: u32) -> Backlog {
    i32::try_from(wanted)
        .ok()
        .and_then(|wanted| Backlog::new(wanted).ok())
        .unwrap_or(Backlog::MAXALLOWABLE)
}

fn pages(bind: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(bind, port);
    let listener = TcpListener::bind(address).with_context(|| {
        format!("listening on {address} for the metrics (another port: --metrics-port)")
    })?;
    listener
        .set_nonblocking(true)
        .context("making the metrics listener non-blocking")?;
    Ok(listener)
}

fn unix(path: &Path, wanted: u32) -> anyhow::Result<(OwnedFd, SocketFile)> {
    let shown = path.display();
    let address = UnixAddr::new(path)
        .with_context(|| format!("--unix {shown}: a path of 107 bytes at most"))?;
    remove_stale(path)?;
    let made = socket::socket(AddressFamily::Unix, SockType::Stream, FLAGS, None)
        .context("making a Unix socket")?;
    // `bind` gives the file the permissions of the socket, less the umask: it is never open wider.
    fchmod(&made, Mode::from_bits_truncate(PERMISSIONS))
        .context("setting the permissions of a socket")?;
    socket::bind(made.as_raw_fd(), &address)
        .with_context(|| format!("making the socket {shown} (another path: --unix)"))?;
    let file =
        SocketFile::of(path).with_context(|| format!("looking at the new socket {shown}"))?;
    // What the umask took away.
    fs::set_permissions(path, Permissions::from_mode(PERMISSIONS))
        .with_context(|| format!("setting the permissions of {shown}"))?;
    socket::listen(&made.as_fd(), backlog(wanted))
        .with_context(|| format!("listening on {shown}"))?;
    Ok((made, file))
}

/// Removes the socket of a daemon that is gone; anything else stays.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        bail!(
            "--unix {shown}: there is something else than a socket; remove it, or name another path"
        );
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("removing the old socket {shown}"))
        }
        _ => bail!("--unix {shown}: somebody listens there; stop it, or name another path"),
    }
}

/// The file of a Unix socket. Dropping it removes the file, unless another one stands in its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
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
