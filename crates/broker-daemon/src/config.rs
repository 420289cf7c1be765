//! The configuration that results from the options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a broker.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address for clients.
    pub listen: SocketAddr,
    /// The address of `/metrics` and `/healthz`; `None` if they are not served.
    pub metrics_addr: Option<SocketAddr>,
    /// Names and passwords.
    pub users: Vec<(String, String)>,
    /// Virtual hosts; every user may access each of them.
    pub vhosts: Vec<String>,
    /// The largest frame size offered, in bytes.
    pub frame_max: u32,
    /// The highest channel number offered.
    pub channel_max: u16,
    /// The heartbeat interval offered, in seconds; 0 means none.
    pub heartbeat: u16,
    /// Bytes of messages above which publishers must wait.
    pub memory_limit: usize,
    /// Maximum open connections.
    pub max_connections: usize,
    /// The folder for durable state; `None` if nothing is stored.
    pub data_dir: Option<PathBuf>,
    /// Runs declared quorum queues as durable classic ones; otherwise they are refused.
    pub quorum_as_classic: bool,
    /// Starts despite a damaged log, with its readable part.
    pub salvage: bool,
    /// Time that clients have to answer connection.close at shutdown.
    pub shutdown_grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 5672)),
            metrics_addr: None,
            users: vec![("guest".to_owned(), "guest".to_owned())],
            vhosts: vec!["/".to_owned()],
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat: 60,
            memory_limit: usize::MAX,
            max_connections: 65_536,
            data_dir: None,
            quorum_as_classic: false,
            salvage: false,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
