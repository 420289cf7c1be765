//! The configuration of the daemon, after the options were checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use daemon_kit::DEFAULT_MODE;

use crate::openai::OpenAiConfig;
use crate::peers::Peers;

/// The type of the handoff socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SocketType {
    /// `SOCK_SEQPACKET`: one handoff is one record.
    Seqpacket,
    /// `SOCK_STREAM`: a long payload may arrive in pieces.
    Stream,
}

/// The source of the events.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// Fixed events at a fixed pace.
    #[default]
    Mock,
    /// An OpenAI-compatible chat API.
    Openai,
}

impl Backend {
    /// Returns the name in metrics and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mock => "mock",
            Self::Openai => "openai",
        }
    }
}

/// Maximum backlog; the kernel limits it to `net.core.somaxconn`.
pub(crate) const MAX_BACKLOG: u32 = i32::MAX.unsigned_abs();

/// The configuration for [`Daemon::bind`](crate::Daemon::bind). The defaults are those of the command line.
#[derive(Debug, Clone)]
pub struct Config {
    /// The path of the handoff socket.
    pub socket_path: PathBuf,
    /// The permissions of the socket file.
    pub socket_mode: u32,
    /// The type of the handoff socket.
    pub socket_type: SocketType,
    /// Maximum number of handoffs that wait to be accepted. Above 4096: as many as `net.core.somaxconn` allows.
    pub backlog: u32,
    /// Senders that may hand over clients, among those that the permissions let in.
    pub peers: Peers,
    /// Maximum number of open streams. The limit of open files may lower it.
    pub max_connections: u64,
    /// The address of `/metrics` and `/healthz`; `None` to serve neither.
    pub metrics_addr: Option<SocketAddr>,
    /// The backend `openai`; `None` for `mock`.
    pub openai: Option<OpenAiConfig>,
    /// Number of events per stream.
    pub message_count: u32,
    /// Delay between two events.
    pub message_delay: Duration,
    /// Timeout of one write.
    pub write_timeout: Duration,
    /// Time for open streams to finish after the shutdown began.
    pub shutdown_grace: Duration,
    /// Number of shards that serve the streams.
    pub workers: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket_path: PathBuf::from("/var/run/streaming-daemon.sock"),
            socket_mode: DEFAULT_MODE,
            socket_type: SocketType::Seqpacket,
            backlog: MAX_BACKLOG,
            peers: Peers::default(),
            max_connections: 100_000,
            metrics_addr: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9090))),
            openai: None,
            message_count: 18,
            message_delay: Duration::from_millis(50),
            write_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(30),
            workers: cores(),
        }
    }
}

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
