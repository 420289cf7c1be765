//! The settings of the daemon: flags and their variables.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use daemon_kit::cli::{CommonOptions, DaemonOptions, socket_path};
use issue_store::Durability;

use crate::config::{Config, Limits};

const VARIABLES: &str = "Each option has an environment variable: for --db it is ISSUE_DAEMON_DB.

Exit codes: 0 stopped by a signal or a client, 1 serving failed, 2 invalid options.";

/// Keep issues in one SQLite database for many agents, over a Unix socket
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100, after_help = VARIABLES)]
#[command(mut_arg("metrics_addr", |address| {
    address.help("Serve /metrics and /healthz on this address [default: not served]")
}))]
pub struct Options {
    /// Keep the issues in this file, which is created if it is missing
    #[arg(long, value_name = "PATH")]
    db: PathBuf,

    /// Listen on this socket [default: issues.sock beside the database]
    #[arg(long, value_name = "PATH", value_parser = socket_path())]
    socket: Option<PathBuf>,

    /// Answer a write when it is on the disk (fsync), with the operating system (os: survives the death of the process
    /// and not a loss of power), or with no guarantee at all (none: for tests)
    #[arg(long, value_name = "MODE", default_value_t = Durability::Fsync)]
    durability: Durability,

    /// Begin new ids with this [default: what the database was created with, or issue]
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Answer `list` and `ready` with an array and name the counts of `stats` as bd's daemon does, for its clients
    #[arg(long)]
    compat: bool,

    /// Limit a request to this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().line_bytes)]
    max_line_bytes: usize,

    /// Limit the open connections to this number; further ones are answered busy
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().connections)]
    max_connections: usize,

    /// Limit the writes that wait to this number; further ones are answered busy
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().queued)]
    max_queued: usize,

    /// Limit the requests of a connection that are read before they are answered; further ones stay unread
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().in_flight)]
    max_in_flight: usize,

    /// Close a connection that sends no end of a line, or reads none of its answers, for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().stall_timeout.as_secs())]
    stall_timeout: u64,

    #[command(flatten)]
    common: CommonOptions,
}

impl DaemonOptions for Options {
    const VARIABLE_PREFIX: &'static str = "ISSUE_DAEMON";
}

impl Options {
    /// Returns the settings.
    #[must_use]
    pub fn config(self) -> Config {
        Config {
            database: self.db,
            socket: self.socket,
            durability: self.durability,
            prefix: self.prefix,
            is_compatible: self.compat,
            metrics_addr: self.common.metrics_addr,
            shutdown_grace: self.common.shutdown_grace,
            limits: Limits {
                line_bytes: self.max_line_bytes,
                connections: self.max_connections,
                queued: self.max_queued,
                in_flight: self.max_in_flight.max(1),
                stall_timeout: Duration::from_secs(self.stall_timeout),
                ..Limits::default()
            },
        }
    }
}
