//! The options of a client.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::Error;
use crate::reconnect::Reconnect;

/// The options of a client, with defaults that suit most programs.
///
/// Clones share the TLS configuration: clients that use clones, or one `Arc<Options>`, load the system's root
/// certificates once.
///
/// ```
/// use std::time::Duration;
/// use presence_sdk::{Options, Reconnect};
///
/// let options = Options::new()
///     .heartbeat_interval(Duration::from_secs(5))
///     .reconnect(Reconnect::new(Duration::from_millis(100), Duration::from_secs(10)))
///     .query("token", "abc");
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) heartbeat_interval: Option<Duration>,
    ack_timeout: Option<Duration>,
    pub(crate) missed_heartbeats: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect: Reconnect,
    pub(crate) event_capacity: usize,
    pub(crate) queue_capacity: usize,
    pub(crate) read_buffer_bytes: usize,
    pub(crate) max_message_bytes: usize,
    pub(crate) tracks_members: bool,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) auth: Option<String>,
    pub(crate) tls: Arc<OnceLock<Arc<rustls::ClientConfig>>>,
}

/// The default limit of a message: above the largest answer to a join that the protocol page names.
const MAX_MESSAGE_BYTES: usize = 192 << 20;

/// The default interval of heartbeats. A server's default TTL is 30 s.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

impl Default for Options {
    fn default() -> Self {
        Self {
            heartbeat_interval: Some(HEARTBEAT_INTERVAL),
            ack_timeout: None,
            missed_heartbeats: 2,
            connect_timeout: Duration::from_secs(10),
            reconnect: Reconnect::default(),
            event_capacity: 256,
            queue_capacity: 1024,
            read_buffer_bytes: 1024,
            max_message_bytes: MAX_MESSAGE_BYTES,
            tracks_members: true,
            headers: Vec::new(),
            query: Vec::new(),
            auth: None,
            tls: Arc::default(),
        }
    }
}

impl Options {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the interval of automatic heartbeats; the default is 10 s. It must be below the TTL of the server.
    ///
    /// The interval begins with the last heartbeat or update that was sent, so a client that updates its state often
    /// sends no further heartbeats.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.heartbeat_interval = Some(interval);
        self
    }

    /// Turns automatic heartbeats off: the user calls [`RoomHandle::heartbeat`](crate::RoomHandle::heartbeat) often
    /// enough.
    #[must_use]
    pub fn without_heartbeats(mut self) -> Self {
        self.heartbeat_interval = None;
        self
    }

    /// Sets the time in which the server must answer a request. The default is 0.8 × the interval of heartbeats, and at
    /// least 1 s; without automatic heartbeats it is 8 s.
    #[must_use]
    pub fn ack_timeout(mut self, timeout: Duration) -> Self {
        self.ack_timeout = Some(timeout);
        self
    }

    /// Sets the number of heartbeats without an answer, one after the other, after which the connection is considered
    /// broken. The default is 2.
    #[must_use]
    pub fn missed_heartbeats(mut self, count: u32) -> Self {
        self.missed_heartbeats = count.max(1);
        self
    }

    /// Sets the time in which a connection must be open, from the lookup of the name to the answer of Socket.IO. The
    /// default is 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets when and how often a broken connection is opened again.
    #[must_use]
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// Sets the number of events that wait for a slow reader; the default is 256, the least is 1. When there are more,
    /// the oldest are dropped, and the reader gets [`Event::Lagged`](crate::Event::Lagged).
    #[must_use]
    pub fn event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = events.max(1);
        self
    }

    /// Sets the number of calls that may wait for an answer at a time. Further calls fail with
    /// [`Error::QueueFull`]. The default is 1,024.
    #[must_use]
    pub fn queue_capacity(mut self, calls: usize) -> Self {
        self.queue_capacity = calls.max(1);
        self
    }

    /// Sets the size of the read buffer that each connection has all the time. The default is 1,024 bytes; a larger
    /// buffer saves system calls in large rooms.
    #[must_use]
    pub fn read_buffer_bytes(mut self, bytes: usize) -> Self {
        self.read_buffer_bytes = bytes.max(64);
        self
    }

    /// Sets the largest message that is accepted from the server. A larger one ends the connection, and a join whose
    /// answer it is fails with [`Error::TooLarge`]. The default is 192 MiB: the answer to a join of the largest room that
    /// a server allows by default fits into it.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets if the client keeps a list of all members, for [`RoomHandle::members`](crate::RoomHandle::members). The
    /// default is true. Without it a client keeps only itself, which saves memory in large rooms.
    #[must_use]
    pub fn track_members(mut self, tracks: bool) -> Self {
        self.tracks_members = tracks;
        self
    }

    /// Adds a header to the HTTP request that opens a connection.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a parameter to the query of the URL.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Sets the `auth` object that Socket.IO sends when it connects.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the value does not serialize to a JSON object.
    pub fn auth(mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<Self, Error> {
        self.auth = Some(crate::object::to_text(value, "auth")?);
        Ok(self)
    }

    /// Sets the TLS configuration for `https` and `wss`. By default the system's root certificates are trusted.
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.tls = Arc::new(OnceLock::from(config));
        self
    }

    /// Returns the time in which the server must answer.
    pub(crate) fn timeout(&self) -> Duration {
        let derived = || {
            let interval = self.heartbeat_interval.unwrap_or(HEARTBEAT_INTERVAL);
            interval.mul_f64(0.8).max(Duration::from_secs(1))
        };
        self.ack_timeout.unwrap_or_else(derived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_answer_of_the_protocol_fits_the_default_limit() {
        let protocol = include_str!("../../../subjects/presence-daemon/PROTOCOL.md");
        let largest = protocol.split("an answer to a join has at most ").nth(1);
        let largest = largest.and_then(|rest| rest.split_once(" bytes"));
        let largest = largest.expect("the page names it").0.replace(',', "");
        assert!(largest.parse::<usize>().unwrap() <= Options::new().max_message_bytes);
    }

    #[test]
    fn the_ack_timeout_follows_the_interval() {
        let seconds = |options: Options| options.timeout().as_secs_f64();
        assert!((seconds(Options::new()) - 8.0).abs() < 1e-9);
        assert!((seconds(Options::new().without_heartbeats()) - 8.0).abs() < 1e-9);
        let short = Options::new().heartbeat_interval(Duration::from_millis(100));
        assert!((seconds(short.clone()) - 1.0).abs() < 1e-9);
        assert!((seconds(short.ack_timeout(Duration::from_millis(20))) - 0.02).abs() < 1e-9);
    }
}
