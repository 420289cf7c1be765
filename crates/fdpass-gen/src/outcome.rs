//! What becomes of a stream, by the names that are counted. Outcomes are disjoint: each stream has one.

use nix::errno::Errno;

/// Counts beside the outcomes.
pub mod count {
    /// Streams that began in the warm-up and count nowhere else.
    pub const WARMUP: &str = "warmup";
    /// Handoffs sent, those of the warm-up included, as the daemon counts them.
    pub const HANDOFFS: &str = "handoffs";
    /// Bytes received.
    pub const BYTES: &str = "bytes";
    /// Records received.
    pub const EVENTS: &str = "events";
    /// Connects tried again.
    pub const RETRIES: &str = "retries";
    /// Handoffs whose `take` was not measured: the connection was closed early to save descriptors, or the stream ended
    /// before the daemon closed it.
    pub const UNTAKEN: &str = "take_unmeasured";
    /// Clients that read slowly or never while others read as they should.
    pub const SLOW: &str = "slow";
    /// Streams that ended before their nominal duration.
    pub const EARLY: &str = "early";
    /// Streams that ended as they should and said what the shared transcript has.
    pub const AS_TRANSCRIPT: &str = "equal_to_transcript";
    /// Streams that ended as they should and said what the first one did.
    pub const AS_FIRST: &str = "equal_to_first";
    /// Begins the name of a count that tells where a content first differed, once for each process of the driver.
    pub const DIFFERS: &str = "content differs: ";
}

/// The daemon refused at capacity: 503, or it closed a handoff with no answer at all.
pub const REJECTED: &str = "rejected";
/// Handed over, and gone with the daemon, which ended before the stream did.
pub const LOST: &str = "lost";
/// Some bytes and then the end, without the end marker, of a daemon that lives.
pub const INCOMPLETE: &str = "incomplete";
/// No byte in time.
pub const TIMEOUT_FIRST_BYTE: &str = "timeout_first_byte";
/// No byte for too long between two.
pub const TIMEOUT_IDLE: &str = "timeout_idle";
/// Not over in time.
pub const TIMEOUT_TOTAL: &str = "timeout_total";
/// The connection was reset.
pub const RESET: &str = "reset";
/// We hung up, as asked.
pub const ABORTED: &str = "aborted";
/// We never read, as asked, and hung up when the time was over.
pub const UNREAD: &str = "unread";
/// The message with the descriptor could not be sent.
pub const SEND: &str = "send";

/// The kind of a failed connect or of a client that could not be made.
#[must_use]
pub fn connect_error(errno: Errno) -> &'static str {
    match errno {
        Errno::EAGAIN => "connect_EAGAIN",
        Errno::EMFILE => "connect_EMFILE",
        Errno::ENFILE => "connect_ENFILE",
        Errno::ENOENT => "connect_ENOENT",
        Errno::ECONNREFUSED => "connect_ECONNREFUSED",
        Errno::EPROTOTYPE => "connect_EPROTOTYPE",
        Errno::EACCES | Errno::EPERM => "connect_EACCES",
        Errno::EADDRNOTAVAIL => "connect_EADDRNOTAVAIL",
        _ => "connect_other",
    }
}

/// All kinds of failures. Those of the protocol are named by [`crate::sse::Fault`].
pub const ERRORS: &[&str] = &[
    REJECTED,
    LOST,
    INCOMPLETE,
    TIMEOUT_FIRST_BYTE,
    TIMEOUT_IDLE,
    TIMEOUT_TOTAL,
    RESET,
    "protocol_head",
    "protocol_sse",
    "protocol_json",
    "protocol_order",
    "protocol_trailing",
    "protocol_content",
    SEND,
    "connect_EAGAIN",
    "connect_EMFILE",
    "connect_ENFILE",
    "connect_ENOENT",
    "connect_ECONNREFUSED",
    "connect_EPROTOTYPE",
    "connect_EACCES",
    "connect_EADDRNOTAVAIL",
    "connect_other",
    ABORTED,
    UNREAD,
];

/// What a fault of the plan leads to: streams that end with their daemon, and connects that nobody takes.
pub const OF_A_FAULT: &[&str] = &[
    LOST,
    "connect_EAGAIN",
    "connect_ECONNREFUSED",
    "connect_ENOENT",
];

/// Those of a driver that has no descriptor or port left for a client or a connection of its own.
pub const EXHAUSTED: &[&str] = &["connect_EMFILE", "connect_ENFILE", "connect_EADDRNOTAVAIL"];

/// Whether another attempt may help: the accept queue is full, or the daemon is being started again.
#[must_use]
pub fn may_retry(errno: Errno) -> bool {
    matches!(errno, Errno::EAGAIN | Errno::ECONNREFUSED | Errno::ENOENT)
}

/// The kind of a message that could not be sent: a daemon that closes the connection unread refuses.
#[must_use]
pub fn send_error(errno: Errno) -> &'static str {
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => REJECTED,
        _ => SEND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::Fault;

    #[test]
    fn every_kind_that_is_counted_is_in_the_list_of_failures() {
        let errnos = (1..=133).map(|errno| connect_error(Errno::from_raw(errno)));
        let faults = [
            Fault::Head,
            Fault::Sse,
            Fault::Json,
            Fault::Order,
            Fault::Trailing,
            Fault::Content,
        ];
        let kinds = errnos.chain(faults.map(Fault::kind));
        for kind in kinds.chain(OF_A_FAULT.iter().copied()) {
            assert!(ERRORS.contains(&kind), "{kind}");
        }
    }
}
