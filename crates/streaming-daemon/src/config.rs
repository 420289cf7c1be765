//! What the daemon does, after the options were checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

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

/// Where the events come from.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// Fixed events at a fixed pace.
    #[default]
    Mock,
    /// An OpenAI-compatible chat API.
    Openai,
}

impl Backend {
    /// As the metrics and the options call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mock => "mock",
            Self::Openai => "openai",
        }
    }
}

/// The kernel cuts it to `net.core.somaxconn`.
pub(crate) const LONGEST_BACKLOG: u32 = i32::MAX.unsigned_abs();

/// Everything that [`Daemon::bind`](crate::Daemon::bind) needs to know. The defaults are those of
/// the command line.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the handoff socket is made.
    pub socket_path: PathBuf,
    /// The permissions of the socket file.
    pub socket_mode: u32,
    /// The type of the handoff socket.
    pub socket_type: SocketType,
    /// How many handoffs may wait to be accepted. Above 4096: as many as `net.core.somaxconn` allows.
    pub backlog: u32,
    /// Who may hand over clients, of those whom the permissions let in.
    pub peers: Peers,
    /// How many streams may be open at once. Never more than the limit of open files leaves room for.
    pub max_connections: u64,
    /// Where `/metrics` and `/healthz` are served; `None` for nowhere.
    pub metrics_addr: Option<SocketAddr>,
    /// The backend `openai`; `None` for `mock`.
    pub openai: Option<OpenAiConfig>,
    /// Events per stream.
    pub message_count: u32,
    /// The time between two events.
    pub message_delay: Duration,
    /// How long one write may take.
    pub write_timeout: Duration,
    /// How long open streams may go on after the shutdown began.
    pub shutdown_grace: Duration,
    /// How many shards serve the streams.
    pub workers: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket_path: PathBuf::from("/var/run/streaming-daemon.sock"),
            socket_mode: 0o660,
            socket_type: SocketType::Seqpacket,
            backlog: LONGEST_BACKLOG,
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

/// The cores that this process may use.
pub(crate) fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
