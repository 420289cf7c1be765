//! The settings of a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use issue_store::Durability;

/// The settings of a daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database, which is created if it is missing.
    pub database: PathBuf,
    /// The socket; without one it is beside the database.
    pub socket: Option<PathBuf>,
    /// The protection of acknowledged writes.
    pub durability: Durability,
    /// The beginning of new ids; without one, the database's.
    pub prefix: Option<String>,
    /// True if answers have the shapes of bd's daemon.
    pub is_compatible: bool,
    /// The address of `/metrics` and `/healthz`; `None` if they are not served.
    pub metrics_addr: Option<SocketAddr>,
    /// The time for answers after a request to stop.
    pub shutdown_grace: Duration,
    /// The limits.
    pub limits: Limits,
}

/// The limits that protect a daemon from its clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest line of a request, in bytes.
    pub line_bytes: usize,
    /// Open connections.
    pub connections: usize,
    /// Writes that wait, of all connections.
    pub queued: usize,
    /// Requests of a connection that were read and not answered. No more are read from it until then.
    pub in_flight: usize,
    /// The time in which a line must arrive, and in which a client must read some of its answers.
    pub stall_timeout: Duration,
    /// Bytes of answers that wait for all clients before no long one is made.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: issue_rpc::MAX_LINE,
            connections: 10_000,
            queued: 100_000,
            in_flight: 1_024,
            stall_timeout: Duration::from_secs(30),
            answer_bytes: 64 << 20,
        }
    }
}
