//! What becomes of messages, by name.

/// The broker refused it (`basic.nack`).
pub(crate) const NACKED: &str = "nacked";
/// It was mandatory and no queue took it (`basic.return`).
pub(crate) const RETURNED: &str = "returned";
/// Its connection was lost before it was confirmed.
pub(crate) const CONNECTION_LOST: &str = "connection_lost";
/// The broker closed its channel before it was confirmed.
pub(crate) const CHANNEL_CLOSED: &str = "channel_closed";
/// It was not confirmed in time.
pub(crate) const CONFIRM_TIMEOUT: &str = "confirm_timeout";
/// Churn: the broker refused it, with a reply code.
pub(crate) const REFUSED: &str = "refused";
/// It never arrived, and lies in no queue.
pub(crate) const LOST: &str = "lost";

/// It arrived, and its body is not as it was sent: shorter, longer or with other bytes.
pub(crate) const DAMAGED: &str = "damaged";
/// Churn: this process may open no more descriptors. Connections that could not be made again are counted by this name.
pub(crate) const DESCRIPTORS: &str = "descriptors";
/// The same of ports to connect from.
pub(crate) const PORTS: &str = "ports";

/// Those of a driver that has nothing left to connect with.
pub(crate) const EXHAUSTED: &[&str] = &[DESCRIPTORS, PORTS];

/// All of them.
pub(crate) const ERRORS: &[&str] = &[
    NACKED,
    RETURNED,
    CONNECTION_LOST,
    CHANNEL_CLOSED,
    CONFIRM_TIMEOUT,
    LOST,
    DAMAGED,
    REFUSED,
    DESCRIPTORS,
    PORTS,
];
/// Those that a fault of a plan leads to.
pub(crate) const OF_A_FAULT: &[&str] = &[NACKED, CONNECTION_LOST, CHANNEL_CLOSED, CONFIRM_TIMEOUT];

/// What a connection is counted as that can't be used any more, where messages that it did not confirm end as `kind`.
pub(crate) fn end_of(kind: &str) -> &'static str {
    match kind {
        CHANNEL_CLOSED => count::CHANNELS_CLOSED,
        _ => count::DISCONNECTS,
    }
}

/// The same in words.
pub(crate) fn remark(number: u64, kind: &str, why: &str) -> String {
    match kind {
        CHANNEL_CLOSED => format!("connection {number} is made anew: {why}"),
        _ => format!("connection {number} was lost: {why}"),
    }
}

/// What is counted besides. Messages of the warm-up are consumed and acknowledged as all others, and are counted nowhere but
/// in `warmup`, and where something is wrong with them: in `lost`, `damaged`, `duplicated`, `redelivered_after_ack`, `out_of_order` and `protocol`.
pub mod count {
    /// Messages written.
    pub const PUBLISHED: &str = "published";
    /// Messages written, those of the warm-up too: what the broker counts.
    pub const WRITTEN: &str = "written";
    /// Messages that came from the broker, each time that they did, those of the warm-up and of others too: what the
    /// broker counts.
    pub const DELIVERED: &str = "delivered";
    /// Messages that the broker confirmed.
    pub const CONFIRMED: &str = "confirmed";
    /// Messages that it refused.
    pub const NACKED: &str = "nacked";
    /// Messages that it returned.
    pub const RETURNED: &str = "returned";
    /// Messages that consumers were given, each time that they were.
    pub const CONSUMED: &str = "consumed";
    /// Of them those that the broker marked as redelivered.
    pub const REDELIVERED: &str = "redelivered";
    /// Messages that never arrived and lie in no queue.
    pub const LOST: &str = "lost";
    /// Messages that came again without being marked.
    pub const DUPLICATED: &str = "duplicated";
    /// Messages that came again, marked as redelivered, though they had been acknowledged or needed no acknowledgement.
    pub const REDELIVERED_AFTER_ACK: &str = "redelivered_after_ack";
    /// Messages whose body was not as it was sent, those of the warm-up too.
    pub const DAMAGED: &str = "damaged";
    /// Messages that a consumer was given after a later one of the same producer.
    pub const OUT_OF_ORDER: &str = "out_of_order";
    /// Messages that arrived after their connection was lost or the broker had refused them.
    pub const ARRIVED_LATE: &str = "arrived_late";
    /// Messages of others.
    pub const FOREIGN: &str = "foreign";
    /// Messages written in the warm-up; with churn, its operations; without producers, messages that came while the run did
    /// not measure.
    pub const WARMUP: &str = "warmup";
    /// Messages whose connection was lost, or the run over, before they were confirmed, though they may have arrived.
    pub const UNCONFIRMED: &str = "unconfirmed";
    /// Churn: what was opened and closed again, declared and deleted, bound and unbound.
    pub const CHURNED: &str = "churned";
    /// Messages that consumers gave back (`basic.nack`).
    pub const GIVEN_BACK: &str = "given_back";
    /// Messages that arrived before they were sent, by the clocks of two machines: their latency is measured nowhere.
    pub const NEGATIVE_LATENCY: &str = "negative_latency";
    /// Questions (`basic.get`) of the measured time that found no message.
    pub const EMPTY_GETS: &str = "empty_gets";
    /// Times that the broker asked publishers to wait (`connection.blocked`).
    pub const BLOCKED: &str = "blocked";
    /// How long that was, milliseconds, summed over connections.
    pub const BLOCKED_MS: &str = "blocked_ms";
    /// Connections that were lost.
    pub const DISCONNECTS: &str = "disconnects";
    /// Connections that were made again.
    pub const RECONNECTS: &str = "reconnects";
    /// How long connections were gone, milliseconds, summed over them.
    pub const GAP_MS: &str = "gap_ms";
    /// Channels that the broker closed, for which a connection was made anew.
    pub const CHANNELS_CLOSED: &str = "channels_closed";
    /// What the broker said against the protocol: a confirm that came twice or of a message that was never published, a
    /// return after its confirm, a frame that can't be read or is larger than was negotiated.
    pub const PROTOCOL: &str = "protocol";
    /// Consumers that the broker cancelled (`basic.cancel`).
    pub const CANCELLED: &str = "cancelled";
}
