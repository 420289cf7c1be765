//! Options of the command line and keys of the configuration file, which are the same.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::thread::available_parallelism;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Command, FromArgMatches as _, Parser, ValueEnum};
use daemon_kit::cli::{DaemonOptions, socket_path};

/// Minimum for the limit of a request head.
const MIN_BUFFER: usize = 8192;
/// Maximum body of the sink, the same as for faults.
const MAX_SINK_BODY: u32 = 1 << 24;

const PATHS: &str = "Paths: the files of --root (/1kb.txt, /10kb.txt, /100kb.txt), /healthz, /metrics, and faults on \
demand: /fault/delay?ms=100, /fault/slow?ms=100, /fault/stall, /fault/status/503, /fault/close, /fault/reset, \
/fault/truncated?bytes=100, /fault/chunked?chunks=4&size=256, /fault/garbage.

Exit codes: 0 stopped by a signal, 1 serving failed, 2 invalid options or file.";

/// Serve static files over HTTP/1.1 and HTTP/2, inject faults on demand, or hold large numbers of connections.
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100, after_help = PATHS)]
pub struct Options {
    #[command(flatten)]
    config: Config,
}

/// The configuration of the daemon, in the sections of its file.
#[derive(Debug, Clone, Args)]
pub struct Config {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(flatten)]
    pub(crate) performance: Performance,
    #[command(flatten)]
    pub(crate) cache: Cache,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// Run this many threads per process, each with its own listener [default: the number of cores divided by
    /// --processes]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) workers: Option<NonZeroUsize>,

    /// Run this many processes, each with its own limit of open files
    #[arg(long, value_name = "NUMBER")]
    #[arg(default_value = "1")]
    pub(crate) processes: NonZeroUsize,

    /// Listen on this address
    #[arg(long, value_name = "ADDRESS")]
    #[arg(default_value = "127.0.0.1")]
    pub(crate) bind: IpAddr,

    /// Serve HTTP/1.1, and HTTP/2 with prior knowledge, on this port; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    #[arg(default_value_t = 8080)]
    pub(crate) http_port: u16,

    /// Serve HTTPS on this port, with HTTP/2 and HTTP/1.1 by ALPN [default: none]
    #[arg(long, value_name = "PORT")]
    pub(crate) https_port: Option<u16>,

    /// Serve /metrics and /healthz for all processes together on this port [default: none]
    #[arg(long, value_name = "PORT")]
    pub(crate) metrics_port: Option<u16>,

    /// Also listen on a Unix socket at this path, with permissions 0660 [default: none]
    #[arg(long, value_name = "PATH", value_parser = socket_path())]
    pub(crate) unix: Option<PathBuf>,

    /// Use the certificate chain in this PEM file for HTTPS [default: a self-signed certificate]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Use the private key in this PEM file for HTTPS
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Serve the files of this folder; if it is missing, it is created with files of 1, 10 and 100 KiB
    #[arg(long, value_name = "FOLDER")]
    #[arg(default_value = "www")]
    pub(crate) root: PathBuf,

    /// Send small packets at once (TCP_NODELAY)
    #[arg(long, value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    #[arg(default_value_t = true)]
    pub(crate) tcp_nodelay: bool,

    /// Let the system probe silent peers (SO_KEEPALIVE)
    #[arg(long, value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    #[arg(default_value_t = true)]
    pub(crate) tcp_keepalive: bool,

    /// Let this many connections wait to be accepted on each listener; the system limits it to net.core.somaxconn
    #[arg(long, value_name = "NUMBER")]
    #[arg(default_value = "65535")]
    pub(crate) backlog: NonZeroU32,

    /// Hold connections and answer every request head with the same 200 response, without parsing it
    #[arg(long, value_name = "BOOL")]
    #[arg(action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new())]
    #[arg(default_value_t = false)]
    pub(crate) sink: bool,

    /// Set the length of the sink's response body in bytes
    #[arg(long, value_name = "BYTES")]
    #[arg(default_value_t = 1024)]
    pub(crate) sink_body: u32,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Performance")]
pub(crate) struct Performance {
    /// Limit the open connections of all processes together; further ones are answered with 503 [default: as many as
    /// the limit of open files allows]
    #[arg(long, value_name = "NUMBER")]
    #[arg(default_value_t = NonZeroU64::MAX, hide_default_value = true)]
    pub(crate) max_connections: NonZeroU64,

    /// Close a connection if the client takes more than this many seconds to send a request head or to read a response
    #[arg(long, value_name = "SECONDS")]
    #[arg(default_value = "30")]
    pub(crate) connection_timeout: NonZeroU32,

    /// Close a connection that is idle for this many seconds
    #[arg(long, value_name = "SECONDS")]
    #[arg(default_value = "60")]
    pub(crate) keep_alive_timeout: NonZeroU32,

    /// Let requests finish for up to this many seconds after SIGTERM, SIGINT or SIGHUP; a second signal ends them
    #[arg(long, value_name = "SECONDS")]
    #[arg(default_value_t = 10)]
    pub(crate) shutdown_grace: u32,

    /// Limit a request head to this many bytes, at least 8192; longer ones are answered with 431
    #[arg(long, value_name = "BYTES")]
    #[arg(default_value_t = MIN_BUFFER)]
    pub(crate) request_buffer_size: usize,

    /// Read a file in pieces of this many bytes, for TLS and HTTP/2
    #[arg(long, value_name = "BYTES")]
    #[arg(default_value = "65536")]
    pub(crate) response_buffer_size: NonZeroUsize,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct Cache {
    /// Keep files in memory once they were read, instead of reading them for each request
    #[arg(id = "cache_enabled", long = "cache-enabled", value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    #[arg(default_value_t = false)]
    pub(crate) enabled: bool,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct Logging {
    /// Log messages of this severity and above on stderr
    #[arg(id = "logging_level", long = "logging-level", value_name = "LEVEL")]
    #[arg(default_value = "error")]
    pub(crate) level: Level,
}

/// The severity of log messages on stderr; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Errors that end the daemon.
    Error,
    /// Errors that cost a client its response: no descriptors left, for instance.
    Warn,
    /// Start and end of the daemon.
    Info,
    /// The reason why a connection failed.
    Debug,
}

impl DaemonOptions for Options {
    const VARIABLE_PREFIX: &'static str = "HTTP_DAEMON";
}

impl Default for Config {
    /// Returns the settings without options, whatever the environment.
    fn default() -> Self {
        let matches = Self::augment_args(Command::default()).get_matches_from([""]);
        Self::from_arg_matches(&matches).expect("every option has a default")
    }
}

impl Options {
    /// Converts the options to the configuration.
    ///
    /// # Errors
    /// An invalid value, with the key, the option and the remedy.
    pub fn config(self) -> Result<Config, String> {
        self.config.validate()?;
        Ok(self.config)
    }
}

impl Config {
    /// Returns the severity of the messages on stderr.
    #[must_use]
    pub fn log_level(&self) -> Level {
        self.logging.level
    }

    fn validate(&self) -> Result<(), String> {
        let request_buffer = self.performance.request_buffer_size;
        if request_buffer < MIN_BUFFER {
            return Err(format!(
                "--request-buffer-size (request_buffer_size, HTTP_DAEMON_REQUEST_BUFFER_SIZE): {request_buffer} \
                bytes are too few; give at least {MIN_BUFFER}"
            ));
        }
        let sink_body = self.server.sink_body;
        if sink_body > MAX_SINK_BODY {
            return Err(format!(
                "--sink-body (sink_body, HTTP_DAEMON_SINK_BODY): {sink_body} bytes are too many, since each worker keeps \
                a response in memory; give at most {MAX_SINK_BODY}"
            ));
        }
        if self.server.tls_cert.is_some() != self.server.tls_key.is_some() {
            let problem = "--tls-cert and --tls-key (tls_cert, tls_key) belong together: give both, or neither for a \
                self-signed certificate";
            return Err(problem.to_owned());
        }
        Ok(())
    }
}

impl Server {
    /// Returns the number of workers of each process.
    pub(crate) fn workers(&self) -> usize {
        let cores = || available_parallelism().map_or(1, NonZeroUsize::get);
        match self.workers {
            Some(workers) => workers.get(),
            None => (cores() / self.processes).max(1),
        }
    }
}
