//! What the options mean.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a broker.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/healthz` are served, if anywhere.
    pub metrics_addr: Option<SocketAddr>,
    /// Names and passwords.
    pub users: Vec<(String, String)>,
    /// Virtual hosts; everybody may use each.
    pub vhosts: Vec<String>,
    /// The largest frame that is offered, in bytes.
    pub frame_max: u32,
    /// The highest channel number that is offered.
    pub channel_max: u16,
    /// The heartbeat interval that is offered, in seconds; 0 is none.
    pub heartbeat: u16,
    /// Bytes of messages from which on publishers have to wait.
    pub memory_limit: usize,
    /// Connections that may be open at once.
    pub max_connections: usize,
    /// Where durable things are kept; without it nothing is.
    pub data_dir: Option<PathBuf>,
    /// Whether queues that are declared as quorum queues run as durable classic ones; otherwise they are refused.
    pub quorum_as_classic: bool,
    /// Whether to start in spite of a damaged log, with what is readable.
    pub salvage: bool,
    /// How long clients may take to answer connection.close at the end.
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
