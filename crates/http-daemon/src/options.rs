//! Options of the command line and keys of the configuration file, which are the same.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, ValueEnum};
use daemon_kit::cli::DaemonOptions;
use serde::Deserialize;

use crate::config::{Certificate, Config};

/// Minimum size of hyper's buffer for a request head.
const MIN_BUFFER: usize = 8192;
/// Maximum body of the sink, the same as for faults.
const MAX_SINK_BODY: u32 = 1 << 24;

const PATHS: &str = "Paths: the files of --root (/1kb.txt, /10kb.txt, /100kb.txt), /healthz, /metrics, and faults on \
demand: /fault/delay?ms=100, /fault/slow?ms=100, /fault/stall, /fault/status/503, /fault/close, /fault/reset, \
/fault/truncated?bytes=100, /fault/chunked?chunks=4&size=256, /fault/garbage.

The file uses the options' names with _ instead of -, in the sections [server] and [performance], such as \
http_port = 8080; in addition, it has enabled in [cache] and level in [logging].

Exit codes: 0 stopped by a signal, 1 serving failed, 2 invalid options or file.";

/// Serve static files over HTTP/1.1 and HTTP/2, inject faults on demand, or hold large numbers of connections.
///
/// An option takes precedence over its environment variable, and the variable over the file.
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100, after_help = PATHS)]
pub struct Options {
    /// Read settings from this TOML file, with the sections server, performance, cache and logging
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    #[command(flatten)]
    server: ServerSettings,
    #[command(flatten)]
    performance: Performance,
    #[command(flatten)]
    cache: Cache,
    #[command(flatten)]
    logging: Logging,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerSettings {
    /// Run this many threads per process, each with its own listener [default: the number of cores divided by
    /// --processes]
    #[arg(long, value_name = "NUMBER")]
    workers: Option<NonZeroUsize>,

    /// Run this many processes, each with its own limit of open files [default: 1]
    #[arg(long, value_name = "NUMBER")]
    processes: Option<NonZeroUsize>,

    /// Listen on this address [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,

    /// Serve HTTP/1.1, and HTTP/2 with prior knowledge, on this port; 0 takes a free one [default: 8080]
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,

    /// Serve HTTPS on this port, with HTTP/2 and HTTP/1.1 by ALPN [default: none]
    #[arg(long, value_name = "PORT")]
    https_port: Option<u16>,

    /// Serve /metrics and /healthz for all processes together on this port [default: none]
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,

    /// Also listen on a Unix socket at this path, with permissions 0660 [default: none]
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Use the certificate chain in this PEM file for HTTPS [default: a self-signed certificate]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// Use the private key in this PEM file for HTTPS
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Serve the files of this folder; if it is missing, it is created with files of 1, 10 and 100 KiB [default: www]
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,

    /// Send small packets at once (TCP_NODELAY) [default: true]
    #[arg(long, value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    tcp_nodelay: Option<bool>,

    /// Let the system probe silent peers (SO_KEEPALIVE) [default: true]
    #[arg(long, value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    tcp_keepalive: Option<bool>,

    /// Let this many connections wait to be accepted on each listener; the system limits it to net.core.somaxconn
    /// [default: 65535]
    #[arg(long, value_name = "NUMBER")]
    backlog: Option<NonZeroU32>,

    /// Hold connections and answer every request head with the same 200 response, without hyper [default: false]
    #[arg(long, value_name = "BOOL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    sink: Option<bool>,

    /// Set the length of the sink's response body in bytes [default: 1024]
    #[arg(long, value_name = "BYTES")]
    sink_body: Option<u32>,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Performance {
    /// Limit the open connections of all processes together; further ones are answered with 503 [default: as many as
    /// the limit of open files allows]
    #[arg(long, value_name = "NUMBER")]
    max_connections: Option<NonZeroU64>,

    /// Close a connection if the client takes more than this many seconds to send a request head or to read a response
    /// [default: 30]
    #[arg(long, value_name = "SECONDS")]
    connection_timeout: Option<NonZeroU32>,

    /// Close a connection that is idle for this many seconds [default: 60]
    #[arg(long, value_name = "SECONDS")]
    keep_alive_timeout: Option<NonZeroU32>,

    /// Let requests finish for up to this many seconds after SIGTERM or SIGINT; a second signal ends them [default: 10]
    #[arg(long, value_name = "SECONDS")]
    shutdown_grace: Option<u32>,

    /// Limit a request head to this many bytes, at least 8192; longer ones are answered with 431 [default: 8192]
    #[arg(long, value_name = "BYTES")]
    request_buffer_size: Option<usize>,

    /// Read and send a file in pieces of this many bytes [default: 65536]
    #[arg(long, value_name = "BYTES")]
    response_buffer_size: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cache {
    /// Keep files in memory once they were read, instead of reading them for each request [default: false]
    #[arg(id = "cache_enabled", long = "cache-enabled", value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    enabled: Option<bool>,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Logging {
    /// Log messages of this severity and above on stderr [default: error]
    #[arg(id = "logging_level", long = "logging-level", value_name = "LEVEL")]
    level: Option<Level>,
}

/// The severity of log messages on stderr; each level includes those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Errors that end the daemon.
    #[default]
    Error,
    /// Errors that cost a client its response: no descriptors left, for instance.
    Warn,
    /// Start and end of the daemon.
    Info,
    /// The reason why a connection failed.
    Debug,
}

impl From<Level> for tracing::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
        }
    }
}

impl DaemonOptions for Options {
    const VARIABLE_PREFIX: &'static str = "HTTP_DAEMON";
}

impl Options {
    /// Combines the options and the file into a configuration.
    ///
    /// # Errors
    /// An invalid value, with the key, the option or the file, and the remedy.
    pub fn config(&self) -> Result<Config, String> {
        let file = self.config.as_deref().map(read).transpose()?;
        self.settings
            .clone()
            .over(file.unwrap_or_default())
            .resolve()
    }
}

fn read(path: &Path) -> Result<Settings, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("--config (HTTP_DAEMON_CONFIG): reading {shown}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))
}

/// Takes each of these keys from the first, or else from the second.
macro_rules! first {
    ($first:ident, $second:ident, $kind:ident { $($key:ident),* $(,)? }) => {
        $kind { $($key: $first.$key.or($second.$key)),* }
    };
}

impl Settings {
    fn over(self, file: Self) -> Self {
        let (typed, written) = (self.server, file.server);
        let server = first!(
            typed,
            written,
            ServerSettings {
                workers,
                processes,
                bind,
                http_port,
                https_port,
                metrics_port,
                unix,
                tls_cert,
                tls_key,
                root,
                tcp_nodelay,
                tcp_keepalive,
                backlog,
                sink,
                sink_body,
            }
        );
        let (typed, written) = (self.performance, file.performance);
        let performance = first!(
            typed,
            written,
            Performance {
                max_connections,
                connection_timeout,
                keep_alive_timeout,
                shutdown_grace,
                request_buffer_size,
                response_buffer_size,
            }
        );
        let (typed, written) = (self.cache, file.cache);
        let cache = first!(typed, written, Cache { enabled });
        let (typed, written) = (self.logging, file.logging);
        let logging = first!(typed, written, Logging { level });
        Self {
            server,
            performance,
            cache,
            logging,
        }
    }

    fn resolve(self) -> Result<Config, String> {
        let Self {
            server,
            performance,
            cache,
            logging,
        } = self;
        let seconds = |given: Option<NonZeroU32>, default| {
            Duration::from_secs(given.map_or(default, NonZeroU32::get).into())
        };
        let processes = server.processes.map_or(1, NonZeroUsize::get);
        let sink = server.sink.unwrap_or(false);
        let request_buffer = performance.request_buffer_size.unwrap_or(MIN_BUFFER);
        if request_buffer < MIN_BUFFER {
            return Err(format!(
                "--request-buffer-size (request_buffer_size, HTTP_DAEMON_REQUEST_BUFFER_SIZE): {request_buffer} \
                bytes are too few; give at least {MIN_BUFFER}"
            ));
        }
        let sink_body = server.sink_body.unwrap_or(1024);
        if sink_body > MAX_SINK_BODY {
            return Err(format!(
                "--sink-body (sink_body, HTTP_DAEMON_SINK_BODY): {sink_body} bytes are too many, since each worker keeps \
                a response in memory; give at most {MAX_SINK_BODY}"
            ));
        }
        let certificate = match (server.tls_cert, server.tls_key) {
            (Some(chain), Some(key)) => Some(Certificate { chain, key }),
            (None, None) => None,
            _ => {
                return Err("--tls-cert and --tls-key (tls_cert, tls_key) belong together: give both, or neither \
                    for a self-signed certificate"
                    .to_owned());
            }
        };
        Ok(Config {
            processes,
            workers: server
                .workers
                .map_or_else(|| cores(processes), NonZeroUsize::get),
            bind: server.bind.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            http_port: server.http_port.unwrap_or(8080),
            https_port: server.https_port,
            metrics_port: server.metrics_port,
            unix: server.unix,
            certificate,
            root: server.root.unwrap_or_else(|| PathBuf::from("www")),
            tcp_nodelay: server.tcp_nodelay.unwrap_or(true),
            tcp_keepalive: server.tcp_keepalive.unwrap_or(true),
            backlog: server.backlog.map_or(65_535, NonZeroU32::get),
            sink_body: sink.then_some(sink_body as usize),
            max_connections: performance
                .max_connections
                .map_or(u64::MAX, NonZeroU64::get),
            connection_timeout: seconds(performance.connection_timeout, 30),
            keep_alive_timeout: seconds(performance.keep_alive_timeout, 60),
            shutdown_grace: Duration::from_secs(performance.shutdown_grace.unwrap_or(10).into()),
            request_buffer,
            response_buffer: performance
                .response_buffer_size
                .map_or(65_536, NonZeroUsize::get),
            caches: cache.enabled.unwrap_or(false),
            level: logging.level.unwrap_or_default(),
        })
    }
}

fn cores(processes: usize) -> usize {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    (cores / processes).max(1)
}
