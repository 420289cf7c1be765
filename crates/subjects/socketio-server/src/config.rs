//! The settings of a server.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Threads that serve, each with its own listener.
    pub workers: NonZeroUsize,
    /// The path of Socket.IO, with a slash at both ends.
    pub path: String,
    /// Time between two pings, and before the first one.
    pub ping_interval: Duration,
    /// Time for a client to answer a ping.
    pub ping_timeout: Duration,
    /// Bytes that a message, or the body of a POST request, may have.
    pub max_payload: usize,
    /// Sessions that may be open; further handshakes are answered with 503.
    pub max_connections: u64,
    /// Time for a client to send the head of a request.
    pub head_timeout: Duration,
    /// Time for a client to connect to a namespace.
    pub connect_timeout: Duration,
    /// Time for a WebSocket to take over from long-polling.
    pub upgrade_timeout: Duration,
    /// Bytes that may wait for a client, without one answer of any length; a client that would need more is
    /// disconnected.
    pub outbound_limit: usize,
    /// The origin whose pages may use the server, or `*` for all.
    pub cors_origin: Option<String>,
    /// Time for clients to leave at a shutdown.
    pub shutdown_grace: Duration,
    /// Serves an echo of Engine.IO messages at `/engine.io/`.
    pub serves_engine_echo: bool,
}

impl ServerConfig {
    /// Returns the time after which a client that has shown no life is lost, as in clients of Engine.IO.
    pub(crate) fn silence_limit(&self) -> Duration {
        self.ping_interval.saturating_add(self.ping_timeout)
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            workers: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            path: "/socket.io/".to_owned(),
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(20),
            max_payload: 1_000_000,
            max_connections: u64::MAX,
            head_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(45),
            upgrade_timeout: Duration::from_secs(10),
            outbound_limit: 1 << 20,
            cors_origin: None,
            shutdown_grace: Duration::from_secs(10),
            serves_engine_echo: false,
        }
    }
}
