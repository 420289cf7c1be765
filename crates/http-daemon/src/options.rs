//! The command line and the configuration file: the same keys, in both.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, ValueEnum};
use serde::Deserialize;

use crate::config::{Certificate, Config};

/// What hyper needs at least to read a request head.
const LEAST_BUFFER: usize = 8192;
/// Longest body of the sink: that of the faults.
const MOST_OF_SINK: u32 = 1 << 24;

const PATHS: &str = "Paths: the files of --root (/1kb.txt, /10kb.txt, /100kb.txt), /healthz, /metrics, and what fails on \
demand: /fault/delay?ms=100, /fault/slow?ms=100, /fault/stall, /fault/status/503, /fault/close, /fault/reset, \
/fault/truncated?bytes=100, /fault/chunked?chunks=4&size=256, /fault/garbage.

The file has the options' names with _ in place of -, in the sections [server] and [performance], such as \
http_port = 8080, and besides enabled in [cache] and level in [logging].

Exit codes: 0 ended by a signal, 1 it could not serve, 2 the call or the file is wrong.";

/// Serves static files over HTTP/1.1 and HTTP/2, fails on demand, or holds connections in masses.
///
/// An option goes before its variable, the variable before the file.
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100, after_help = PATHS)]
pub struct Options {
    /// A TOML file with the sections server, performance, cache and logging
    #[arg(long, env = "HTTP_DAEMON_CONFIG", value_name = "FILE")]
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
    /// Threads of a process, each with a listener of its own [default: the cores, shared by the processes]
    #[arg(long, env = "HTTP_DAEMON_WORKERS", value_name = "NUMBER")]
    workers: Option<NonZeroUsize>,

    /// Processes, each with its own limit of open files [default: 1]
    #[arg(long, env = "HTTP_DAEMON_PROCESSES", value_name = "NUMBER")]
    processes: Option<NonZeroUsize>,

    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, env = "HTTP_DAEMON_BIND", value_name = "ADDRESS")]
    bind: Option<IpAddr>,

    /// Port of HTTP/1.1, and of HTTP/2 with prior knowledge; 0 takes a free one [default: 8080]
    #[arg(long, env = "HTTP_DAEMON_HTTP_PORT", value_name = "PORT")]
    http_port: Option<u16>,

    /// Port of HTTPS, with HTTP/2 and HTTP/1.1 by ALPN [default: none]
    #[arg(long, env = "HTTP_DAEMON_HTTPS_PORT", value_name = "PORT")]
    https_port: Option<u16>,

    /// Port of /metrics and /healthz for all processes together [default: none]
    #[arg(long, env = "HTTP_DAEMON_METRICS_PORT", value_name = "PORT")]
    metrics_port: Option<u16>,

    /// Path of a Unix socket to listen on as well, with the permissions 0660 [default: none]
    #[arg(long, env = "HTTP_DAEMON_UNIX", value_name = "PATH")]
    unix: Option<PathBuf>,

    /// File of the certificates for HTTPS, in PEM [default: a self-signed one is made]
    #[arg(long, env = "HTTP_DAEMON_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// File of their key, in PEM
    #[arg(long, env = "HTTP_DAEMON_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Folder that is served; made, with files of 1, 10 and 100 KiB, if it is missing [default: www]
    #[arg(long, env = "HTTP_DAEMON_ROOT", value_name = "FOLDER")]
    root: Option<PathBuf>,

    /// Whether small packets go out at once [default: true]
    #[arg(long, env = "HTTP_DAEMON_TCP_NODELAY", value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    tcp_nodelay: Option<bool>,

    /// Whether the system looks after peers that are silent [default: true]
    #[arg(long, env = "HTTP_DAEMON_TCP_KEEPALIVE", value_name = "BOOL")]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    tcp_keepalive: Option<bool>,

    /// Connections that may wait to be accepted, for each listener; the system cuts it to
    /// net.core.somaxconn [default: 65535]
    #[arg(long, env = "HTTP_DAEMON_BACKLOG", value_name = "NUMBER")]
    backlog: Option<NonZeroU32>,

    /// Hold connections and answer every request head with one fixed 200, without hyper [default: false]
    #[arg(long, env = "HTTP_DAEMON_SINK", value_name = "BOOL")]
    #[arg(num_args = 0..=1, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    sink: Option<bool>,

    /// Bytes of the body that the sink answers with [default: 1024]
    #[arg(long, env = "HTTP_DAEMON_SINK_BODY", value_name = "BYTES")]
    sink_body: Option<u32>,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Performance {
    /// Connections that may be open at once, in all processes; more are answered with 503
    /// [default: as many as the limit of open files leaves room for]
    #[arg(long, env = "HTTP_DAEMON_MAX_CONNECTIONS", value_name = "NUMBER")]
    max_connections: Option<NonZeroU64>,

    /// Seconds that a client may take for a request head, or to read what it was sent [default: 30]
    #[arg(long, env = "HTTP_DAEMON_CONNECTION_TIMEOUT", value_name = "SECONDS")]
    connection_timeout: Option<NonZeroU32>,

    /// Seconds that a connection may be idle [default: 60]
    #[arg(long, env = "HTTP_DAEMON_KEEP_ALIVE_TIMEOUT", value_name = "SECONDS")]
    keep_alive_timeout: Option<NonZeroU32>,

    /// Seconds that requests may go on after SIGTERM or SIGINT; a second signal ends them [default: 10]
    #[arg(long, env = "HTTP_DAEMON_SHUTDOWN_GRACE", value_name = "SECONDS")]
    shutdown_grace: Option<u32>,

    /// Bytes that a request head may have, at least 8192; longer ones are answered with 431 [default: 8192]
    #[arg(long, env = "HTTP_DAEMON_REQUEST_BUFFER_SIZE", value_name = "BYTES")]
    request_buffer_size: Option<usize>,

    /// Bytes of a file that are read and sent at once [default: 65536]
    #[arg(long, env = "HTTP_DAEMON_RESPONSE_BUFFER_SIZE", value_name = "BYTES")]
    response_buffer_size: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cache {
    /// Whether files are kept in memory once they were read, or read for each request [default: false]
    #[arg(
        id = "cache_enabled",
        long = "cache-enabled",
        env = "HTTP_DAEMON_CACHE_ENABLED",
        value_name = "BOOL"
    )]
    #[arg(action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    enabled: Option<bool>,
}

#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Logging {
    /// What is said on stderr [default: error]
    #[arg(
        id = "logging_level",
        long = "logging-level",
        env = "HTTP_DAEMON_LOGGING_LEVEL",
        value_name = "LEVEL"
    )]
    level: Option<Level>,
}

/// What is worth a line on stderr; each level includes those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What ends the daemon.
    #[default]
    Error,
    /// What costs somebody an answer: no descriptors left, for instance.
    Warn,
    /// Start and end.
    Info,
    /// What ended each connection that did not end well.
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

impl Options {
    /// Turns what was typed, and what the file says, into what it means.
    ///
    /// # Errors
    /// What is wrong, with the key, the option or the file, and the remedy.
    pub fn config(&self) -> Result<Config, String> {
        let file = self.config.as_deref().map(read).transpose()?;
        self.settings.clone().over(file.unwrap_or_default()).mean()
    }
}

fn read(path: &Path) -> Result<Settings, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("--config (HTTP_DAEMON_CONFIG): reading {shown}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))
}

/// Each of these keys from the first, or else from the second.
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

    fn mean(self) -> Result<Config, String> {
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
        let request_buffer = performance.request_buffer_size.unwrap_or(LEAST_BUFFER);
        if request_buffer < LEAST_BUFFER {
            return Err(format!(
                "--request-buffer-size (request_buffer_size, HTTP_DAEMON_REQUEST_BUFFER_SIZE): {request_buffer} \
                bytes are too few; it takes {LEAST_BUFFER} at least"
            ));
        }
        let sink_body = server.sink_body.unwrap_or(1024);
        if sink_body > MOST_OF_SINK {
            return Err(format!(
                "--sink-body (sink_body, HTTP_DAEMON_SINK_BODY): {sink_body} bytes are too many, for each worker holds \
                an answer; it takes {MOST_OF_SINK} at most"
            ));
        }
        let certificate = match (server.tls_cert, server.tls_key) {
            (Some(chain), Some(key)) => Some(Certificate { chain, key }),
            (None, None) => None,
            _ => {
                return Err("--tls-cert and --tls-key (tls_cert, tls_key): one needs the other; give both, or none \
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
