//! The part of transports that one worker shares.

use std::io::Write as _;

use super::side::Side;
use crate::protocol::websocket::Masks;

/// The server that transports connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The value of the `Host` field: the host, with the port unless it is the scheme's.
    pub host: String,
    /// The path, such as `/socket.io/`.
    pub path: String,
    /// The part of the query besides `EIO`, `transport` and `sid`, such as `token=1`; usually empty.
    pub query: String,
    /// Maximum number of bytes of a message that is received.
    pub max_message: usize,
    /// The credentials of clients.
    pub access: Access,
}

/// The part of requests that a server may ask for before it admits a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Header fields of every HTTP request: lines, each with its line break.
    pub fields: String,
    /// The subprotocols that a WebSocket offers, separated by commas; empty for none.
    pub subprotocols: String,
    /// The namespace, such as `/admin`; empty for the main one.
    pub namespace: String,
    /// The JSON object that goes with the connection to the namespace; empty for none.
    pub auth: String,
}

impl Endpoint {
    /// Appends the path and the query of a session of Engine.IO 4, or of a WebSocket without it if there is no transport. A
    /// new session has no id.
    pub(super) fn append_target(&self, out: &mut Vec<u8>, transport: Option<&str>, sid: &str) {
        let Self { path, query, .. } = self;
        out.extend_from_slice(path.as_bytes());
        let Some(transport) = transport else {
            if !query.is_empty() {
                let _ = write!(out, "?{query}");
            }
            return;
        };
        let separator = if path.contains('?') { '&' } else { '?' };
        // Writing to memory does not fail.
        let _ = write!(out, "{separator}EIO=4&transport={transport}");
        for (key, value) in [("&sid=", sid), ("&", query)] {
            if !value.is_empty() {
                let _ = write!(out, "{key}{value}");
            }
        }
    }
}

/// The actions that the caller must perform after a call.
#[derive(Debug, Default)]
pub struct Actions {
    /// Bytes to be written to each side.
    pub output: [Vec<u8>; 3],
    /// Sides that must be connected, then reported by [`Transport::connected`](super::Transport::connected).
    pub open: [bool; 3],
    /// Sides that must be closed: after their output was written, or before they are opened again.
    pub close: [bool; 3],
}

impl Actions {
    /// Returns true if nothing is to be done on any side but to write to `Side::Main`.
    #[must_use]
    pub fn is_main_output_only(&self) -> bool {
        self.open == [false; 3]
            && self.close == [false; 3]
            && self.output[1].is_empty()
            && self.output[2].is_empty()
    }

    /// Empties the actions, and keeps the memory.
    pub fn clear(&mut self) {
        self.output.iter_mut().for_each(Vec::clear);
        (self.open, self.close) = Default::default();
    }

    pub(super) fn output(&mut self, side: Side) -> &mut Vec<u8> {
        &mut self.output[side as usize]
    }

    pub(super) fn open(&mut self, side: Side) {
        self.open[side as usize] = true;
    }

    pub(super) fn close(&mut self, side: Side) {
        self.close[side as usize] = true;
    }
}

/// The part of its transports that a worker shares.
#[derive(Debug)]
pub struct TransportContext {
    /// The server.
    pub endpoint: Endpoint,
    /// The keys of frames and handshakes.
    pub masks: Masks,
    /// The actions that the last calls ask for.
    pub actions: Actions,
    /// The longest time between two pings of the server, nanoseconds, as its last handshake has it.
    pub longest_pause_ns: u64,
    /// The message that is being written.
    pub(super) scratch: Vec<u8>,
}

impl TransportContext {
    /// Creates the context of a worker, with a seed for its keys.
    #[must_use]
    pub fn new(endpoint: Endpoint, seed: u64) -> Self {
        Self {
            endpoint,
            masks: Masks::new(seed),
            actions: Actions::default(),
            longest_pause_ns: u64::MAX,
            scratch: Vec::new(),
        }
    }
}
