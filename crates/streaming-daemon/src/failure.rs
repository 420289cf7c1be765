//! Failures of handoffs and streams: the `reason` labels of the metrics.

use nix::errno::Errno;

/// The reason why a handoff led to no stream. The last two are flaws of a handoff that led to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandoffFailure {
    /// Typical of a probe: harmless, and not logged.
    #[error("the sender closed the connection without sending anything")]
    Empty,
    #[error("the payload did not arrive within the receive timeout")]
    Timeout,
    #[error("the daemon stopped before the payload arrived")]
    Canceled,
    #[error("the sender disconnected before the payload was read")]
    ClientDisconnected,
    #[error("the sender matches neither --allow-uid nor --allow-gid")]
    PeerRefused,
    #[error("reading the handoff connection failed")]
    Network,
    #[error("the handoff connection could not be watched")]
    Other,
    #[error("the payload is longer than 128 KiB")]
    TooLarge,
    #[error("descriptors were lost in transit: is the limit of open files reached?")]
    Truncated,
    #[error("the message contains no descriptor")]
    NoDescriptor,
    #[error("the descriptor is not a stream socket")]
    NotAStreamSocket,
    #[error("no free descriptor: raise the limit of open files (ulimit -n)")]
    OutOfDescriptors,
    #[error("the payload is not a JSON object with the known keys; defaults are used")]
    InvalidJson,
    #[error("the message contains more than one descriptor; the first is used")]
    SurplusDescriptors,
}

impl HandoffFailure {
    pub(crate) const ALL: [Self; 14] = [
        Self::Empty,
        Self::Timeout,
        Self::Canceled,
        Self::ClientDisconnected,
        Self::PeerRefused,
        Self::Network,
        Self::Other,
        Self::TooLarge,
        Self::Truncated,
        Self::NoDescriptor,
        Self::NotAStreamSocket,
        Self::OutOfDescriptors,
        Self::InvalidJson,
        Self::SurplusDescriptors,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::ClientDisconnected => "client_disconnected",
            Self::PeerRefused => "peer_refused",
            Self::Network => "network",
            Self::Other => "other",
            Self::TooLarge => "too_large",
            Self::Truncated => "truncated",
            Self::NoDescriptor => "no_descriptor",
            Self::NotAStreamSocket => "not_a_stream_socket",
            Self::OutOfDescriptors => "out_of_descriptors",
            Self::InvalidJson => "invalid_json",
            Self::SurplusDescriptors => "surplus_descriptors",
        }
    }
}

impl From<Errno> for HandoffFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ECONNRESET | Errno::EPIPE => Self::ClientDisconnected,
            _ => Self::Network,
        }
    }
}

/// The reason why a stream ended before its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFailure {
    /// A write took longer than the write timeout.
    Timeout,
    /// The daemon stopped, and the grace period was over.
    Canceled,
    ClientDisconnected,
    Network,
    /// The client socket could not be watched.
    Other,
    /// The backend failed: before the head, which is a 502, or after it.
    Backend,
    /// The backend was silent for too long: before the head, which is a 504, or after it.
    BackendTimeout,
}

impl StreamFailure {
    pub(crate) const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Canceled,
        Self::ClientDisconnected,
        Self::Network,
        Self::Other,
        Self::Backend,
        Self::BackendTimeout,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::ClientDisconnected => "client_disconnected",
            Self::Network => "network",
            Self::Other => "other",
            Self::Backend => "backend",
            Self::BackendTimeout => "backend_timeout",
        }
    }
}

impl From<Errno> for StreamFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ECONNRESET | Errno::EPIPE => Self::ClientDisconnected,
            _ => Self::Network,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_stands_at_its_own_index() {
        for (index, failure) in HandoffFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
        }
        for (index, failure) in StreamFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
        }
    }
}
