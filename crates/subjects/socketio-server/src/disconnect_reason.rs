//! The reasons for which sessions and their sockets end.

/// The reason for the end of a session, a connection or a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The client left the namespace, or closed the connection as the protocol describes.
    Client,
    /// The connection ended without a close frame or packet.
    ConnectionLost,
    /// The client sent something that the protocol forbids.
    ProtocolError,
    /// The client did not answer a ping in time.
    PingTimeout,
    /// The client read too slowly: its queue exceeded the limit of bytes.
    SlowConsumer,
    /// The server stopped.
    Shutdown,
}

impl DisconnectReason {
    /// Lists all reasons, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::Client,
        Self::ConnectionLost,
        Self::ProtocolError,
        Self::PingTimeout,
        Self::SlowConsumer,
        Self::Shutdown,
    ];

    /// Returns the name of the reason in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::ConnectionLost => "connection_lost",
            Self::ProtocolError => "protocol_error",
            Self::PingTimeout => "ping_timeout",
            Self::SlowConsumer => "slow_consumer",
            Self::Shutdown => "shutdown",
        }
    }
}
