//! The configuration of the daemon, after the options were checked.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use daemon_kit::cli::socket_path;
use daemon_kit::parse_duration;

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
const MAX_BACKLOG: u32 = i32::MAX.unsigned_abs();

/// The configuration for [`Daemon::bind`](crate::Daemon::bind), made of [`Options`](crate::Options). The help of the
/// command line documents the fields that are also options.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// Create the handoff socket at this path
    #[arg(
        long = "socket",
        visible_alias = "socket-path",
        env = "DAEMON_SOCKET_PATH",
        value_name = "PATH",
        value_parser = socket_path()
    )]
    #[arg(default_value = "/var/run/streaming-daemon.sock")]
    pub socket_path: PathBuf,

    /// Set the permissions of the socket file, in octal
    #[arg(long, value_name = "MODE", default_value = "0660", value_parser = parse_mode)]
    pub socket_mode: u32,

    /// Set the type of the handoff socket
    #[arg(long, value_name = "TYPE", default_value = "seqpacket")]
    pub socket_type: SocketType,

    /// Let this many handoffs wait to be accepted; above 4096, as many as net.core.somaxconn allows [default: as many
    /// as net.core.somaxconn allows]
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = MAX_BACKLOG,
        hide_default_value = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub backlog: u32,

    /// Senders that may hand over clients, among those that the permissions let in.
    #[command(flatten)]
    pub peers: Peers,

    /// Limit the open streams; further ones are answered with 503
    // The limit of open files may lower it.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub max_connections: u64,

    /// The address of `/metrics` and `/healthz`; `None` to serve neither.
    #[arg(skip)]
    pub metrics_addr: Option<SocketAddr>,

    /// The backend `openai`; `None` for `mock`.
    #[arg(skip)]
    pub openai: Option<OpenAiConfig>,

    /// Send this many events per stream; 0 sends only the head and the end mark
    #[arg(long, value_name = "NUMBER", default_value_t = 18)]
    pub message_count: u32,

    /// Wait this long between two events, such as 50ms or 5625ms
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = parse_duration)]
    pub message_delay: Duration,

    /// Fail a stream if one write to the client takes longer than this
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub write_timeout: Duration,

    /// Time for open streams to finish after the shutdown began.
    #[arg(skip)]
    pub shutdown_grace: Duration,

    /// Run this many threads and shards of streams [default: one per core]
    #[arg(long, value_name = "NUMBER", default_value_t = cores(), hide_default_value = true)]
    pub workers: NonZeroUsize,
}

/// Returns the number of cores that this process may use.
fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("write the permissions in octal, for instance 0660".to_owned()),
    }
}
