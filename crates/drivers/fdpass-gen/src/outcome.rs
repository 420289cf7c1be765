//! The outcomes of streams, by the names that are counted. Outcomes are disjoint: each stream has one.

use nix::errno::Errno;

/// Counters other than the outcomes.
pub(crate) mod count {
    use std::borrow::Cow;

    use measure::spec::CounterRole::{BytesReceived, Detail, Retries};
    use measure::spec::CounterSpec;

    measure::counters! {
        /// Handoffs sent, including the warm-up's, as the daemon counts them.
        HANDOFFS = CounterSpec::with_metrics(
            "handoffs", "handoffs", Detail,
            &[Cow::Borrowed("daemon_handoffs_total")],
        );
        BYTES = CounterSpec::new("bytes", "read", BytesReceived);
        RETRIES = CounterSpec::new("retries", "retries", Retries);
        EVENTS = CounterSpec::new("events", "events", Detail);
        /// Handoffs whose `take` was not measured: the connection was closed early to save descriptors, or the stream ended
        /// before the daemon closed it.
        UNTAKEN = CounterSpec::new("take_unmeasured", "take_unmeasured", Detail);
        /// Clients that read slowly or never while others read normally.
        SLOW = CounterSpec::new("slow", "slow", Detail);
        /// Streams that ended before their nominal duration.
        EARLY = CounterSpec::new("early", "early", Detail);
        /// Successful streams that were equal to the shared transcript.
        AS_TRANSCRIPT = CounterSpec::new("equal_to_transcript", "equal_to_transcript", Detail);
        /// Successful streams that were equal to the first one.
        AS_FIRST = CounterSpec::new("equal_to_first", "equal_to_first", Detail);
    }

    /// Prefix of a counter whose name describes the first difference of a content, once for each process of the driver.
    pub(crate) const DIFFERS: &str = "content differs: ";
    /// Prefix of a counter whose name describes the difference for which contents are not compared any more, once for
    /// each process of the driver.
    pub(crate) const VARIES: &str = "content varies: ";
}

/// The daemon refused at capacity: 503, or it closed a handoff without an answer.
pub(crate) const REJECTED: &str = "rejected";
/// The stream was handed over, and its daemon ended before it did.
pub(crate) const LOST: &str = "lost";
/// The stream ended after some bytes without the end marker, while its daemon is alive.
pub(crate) const INCOMPLETE: &str = "incomplete";
/// No byte came in time.
pub(crate) const TIMEOUT_FIRST_BYTE: &str = "timeout_first_byte";
/// The pause between two bytes was too long.
pub(crate) const TIMEOUT_IDLE: &str = "timeout_idle";
/// The stream did not end in time.
pub(crate) const TIMEOUT_TOTAL: &str = "timeout_total";
pub(crate) const RESET: &str = "reset";
/// The client disconnected as configured.
pub(crate) const ABORTED: &str = "aborted";
/// The client never read, as configured, and disconnected after the stream timeout.
pub(crate) const UNREAD: &str = "unread";
/// The message with the descriptor could not be sent.
pub(crate) const SEND: &str = "send";
/// The kernel cannot watch the connection.
pub(crate) const EPOLL: &str = "epoll";

/// Returns the kind of a failed connect or of a client that could not be created.
pub(crate) fn connect_error(errno: Errno) -> &'static str {
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

/// Returns true if a retry may help: the accept queue is full, or the daemon is restarting.
pub(crate) fn may_retry(errno: Errno) -> bool {
    matches!(errno, Errno::EAGAIN | Errno::ECONNREFUSED | Errno::ENOENT)
}

/// Returns the kind of a message that could not be sent: a daemon that closes the connection unread refuses it.
pub(crate) fn send_error(errno: Errno) -> &'static str {
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => REJECTED,
        _ => SEND,
    }
}
