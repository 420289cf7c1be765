//! What the daemon is asked to do.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::options::Level;

/// What the options and the file mean together.
#[derive(Debug, Clone)]
pub struct Config {
    /// Processes that serve.
    pub processes: usize,
    /// Threads in each of them.
    pub workers: usize,
    /// Where all ports are.
    pub bind: IpAddr,
    /// Port of HTTP; 0 for any.
    pub http_port: u16,
    /// Port of HTTPS; 0 for any.
    pub https_port: Option<u16>,
    /// Port of the metrics; 0 for any.
    pub metrics_port: Option<u16>,
    /// A Unix socket besides.
    pub unix: Option<PathBuf>,
    /// The certificate of HTTPS; `None` for one that is made at start.
    pub certificate: Option<Certificate>,
    /// The folder that is served.
    pub root: PathBuf,
    /// `TCP_NODELAY`.
    pub tcp_nodelay: bool,
    /// `SO_KEEPALIVE`.
    pub tcp_keepalive: bool,
    /// Of each listener.
    pub backlog: u32,
    /// Bytes of the sink's body; `None` to serve files.
    pub sink_body: Option<usize>,
    /// In all processes together.
    pub max_connections: u64,
    /// For a request head, and for a peer to take what it was sent.
    pub connection_timeout: Duration,
    /// For an idle connection.
    pub keep_alive_timeout: Duration,
    /// For requests in flight at the end.
    pub shutdown_grace: Duration,
    /// Bytes of the longest request head.
    pub request_buffer: usize,
    /// Bytes of a file that are read at once.
    pub response_buffer: usize,
    /// Whether files are kept in memory.
    pub caches: bool,
    /// What is said on stderr.
    pub level: Level,
}

/// Files in PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate, and those that signed it.
    pub chain: PathBuf,
    /// Its key.
    pub key: PathBuf,
}
