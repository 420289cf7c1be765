//! The configuration of the daemon.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::options::Level;

/// The combined settings of options and file.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of processes that serve.
    pub processes: usize,
    /// Number of threads in each process.
    pub workers: usize,
    /// The address of all ports.
    pub bind: IpAddr,
    /// Port of HTTP; 0 for any.
    pub http_port: u16,
    /// Port of HTTPS; 0 for any.
    pub https_port: Option<u16>,
    /// Port of the metrics; 0 for any.
    pub metrics_port: Option<u16>,
    /// The path of an additional Unix socket.
    pub unix: Option<PathBuf>,
    /// The certificate of HTTPS; `None` for one that is generated at start.
    pub certificate: Option<Certificate>,
    /// The folder that is served.
    pub root: PathBuf,
    /// `TCP_NODELAY`.
    pub tcp_nodelay: bool,
    /// `SO_KEEPALIVE`.
    pub tcp_keepalive: bool,
    /// The backlog of each listener.
    pub backlog: u32,
    /// Length of the sink's body in bytes; `None` to serve files.
    pub sink_body: Option<usize>,
    /// Maximum number of open connections, in all processes together.
    pub max_connections: u64,
    /// Timeout for a request head, and for a peer that does not read.
    pub connection_timeout: Duration,
    /// Timeout of an idle connection.
    pub keep_alive_timeout: Duration,
    /// Time for requests in flight to finish at the end.
    pub shutdown_grace: Duration,
    /// Maximum length of a request head in bytes.
    pub request_buffer: usize,
    /// Number of bytes of a file that are read at once.
    pub response_buffer: usize,
    /// Keeps files in memory.
    pub caches: bool,
    /// The severity of messages on stderr.
    pub level: Level,
}

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate, followed by the CAs that signed it.
    pub chain: PathBuf,
    /// Its key.
    pub key: PathBuf,
}
