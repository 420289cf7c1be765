//! Failures of handoffs and streams: the `reason` labels of the metrics.

use nix::errno::Errno;

/// Defines an enum of failures, each with its label.
macro_rules! failures {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident $label:literal,)* }) => {
        $(#[$meta])*
        pub(crate) enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            /// The labels of the variants, in their order.
            pub(crate) const LABELS: &[&'static str] = &[$($label),*];
        }

        impl From<Errno> for $name {
            fn from(errno: Errno) -> Self {
                match errno {
                    Errno::ECONNRESET | Errno::EPIPE => Self::ClientDisconnected,
                    _ => Self::Network,
                }
            }
        }
    };
}

failures! {
    /// The reason why a handoff led to no stream. The last two are flaws of a handoff that led to one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
    HandoffFailure {
        /// Typical of a probe: harmless, and not logged.
        #[error("the sender closed the connection without sending anything")]
        Empty "empty",
        #[error("the payload did not arrive within the receive timeout")]
        Timeout "timeout",
        #[error("the daemon stopped before the payload arrived")]
        Canceled "canceled",
        #[error("the sender disconnected before the payload was read")]
        ClientDisconnected "client_disconnected",
        #[error("the sender matches neither --allow-uid nor --allow-gid")]
        PeerRefused "peer_refused",
        #[error("reading the handoff connection failed")]
        Network "network",
        #[error("the handoff connection could not be watched")]
        Other "other",
        #[error("the payload is longer than 128 KiB")]
        TooLarge "too_large",
        #[error("descriptors were lost in transit: is the limit of open files reached?")]
        Truncated "truncated",
        #[error("the message contains no descriptor")]
        NoDescriptor "no_descriptor",
        #[error("the descriptor is not a stream socket")]
        NotAStreamSocket "not_a_stream_socket",
        #[error("no free descriptor: raise the limit of open files (ulimit -n)")]
        OutOfDescriptors "out_of_descriptors",
        #[error("the payload is not a JSON object with the known keys; defaults are used")]
        InvalidJson "invalid_json",
        #[error("the message contains more than one descriptor; the first is used")]
        SurplusDescriptors "surplus_descriptors",
    }
}

failures! {
    /// The reason why a stream ended before its last byte.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    StreamFailure {
        /// A write took longer than the write timeout.
        Timeout "timeout",
        /// The daemon stopped, and the grace period was over.
        Canceled "canceled",
        ClientDisconnected "client_disconnected",
        Network "network",
        /// The client socket could not be watched.
        Other "other",
        /// The backend failed: before the head, which is a 502, or after it.
        Backend "backend",
        /// The backend was silent for too long: before the head, which is a 504, or after it.
        BackendTimeout "backend_timeout",
    }
}
