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
    /// The labels of the variants, in their order.
    pub(crate) const LABELS: [&'static str; 14] = [
        "empty",
        "timeout",
        "canceled",
        "client_disconnected",
        "peer_refused",
        "network",
        "other",
        "too_large",
        "truncated",
        "no_descriptor",
        "not_a_stream_socket",
        "out_of_descriptors",
        "invalid_json",
        "surplus_descriptors",
    ];
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
    /// The labels of the variants, in their order.
    pub(crate) const LABELS: [&'static str; 7] = [
        "timeout",
        "canceled",
        "client_disconnected",
        "network",
        "other",
        "backend",
        "backend_timeout",
    ];
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

    /// Asserts that the label of each variant is its name in snake case.
    fn are_named(labels: &[&str], variants: &[(usize, String)]) {
        assert_eq!(labels.len(), variants.len());
        for (index, variant) in variants {
            assert_eq!(labels[*index].replace('_', ""), variant.to_lowercase());
        }
    }

    #[test]
    fn each_reason_stands_at_its_own_index() {
        let handoff = [
            HandoffFailure::Empty,
            HandoffFailure::Timeout,
            HandoffFailure::Canceled,
            HandoffFailure::ClientDisconnected,
            HandoffFailure::PeerRefused,
            HandoffFailure::Network,
            HandoffFailure::Other,
            HandoffFailure::TooLarge,
            HandoffFailure::Truncated,
            HandoffFailure::NoDescriptor,
            HandoffFailure::NotAStreamSocket,
            HandoffFailure::OutOfDescriptors,
            HandoffFailure::InvalidJson,
            HandoffFailure::SurplusDescriptors,
        ];
        let handoff = handoff.map(|failure| (failure as usize, format!("{failure:?}")));
        are_named(&HandoffFailure::LABELS, &handoff);
        let stream = [
            StreamFailure::Timeout,
            StreamFailure::Canceled,
            StreamFailure::ClientDisconnected,
            StreamFailure::Network,
            StreamFailure::Other,
            StreamFailure::Backend,
            StreamFailure::BackendTimeout,
        ];
        let stream = stream.map(|failure| (failure as usize, format!("{failure:?}")));
        are_named(&StreamFailure::LABELS, &stream);
    }
}
