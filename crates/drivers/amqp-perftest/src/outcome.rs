//! Names of the outcomes of messages.

use amqp_client::SessionError;
use nix::errno::Errno;

/// The broker refused the message (`basic.nack`).
pub(crate) const NACKED: &str = "nacked";
/// The message was mandatory and unroutable (`basic.return`).
pub(crate) const RETURNED: &str = "returned";
/// The connection was lost before the confirm.
pub(crate) const CONNECTION_LOST: &str = "connection_lost";
/// The broker closed the channel before the confirm.
pub(crate) const CHANNEL_CLOSED: &str = "channel_closed";
/// No confirm came in time.
pub(crate) const CONFIRM_TIMEOUT: &str = "confirm_timeout";
/// The broker refused the operation with a reply code. For messages without confirms: it closed their channel or
/// connection, and they are in no queue.
pub(crate) const REFUSED: &str = "refused";
/// The message never arrived, and is in no queue.
pub(crate) const LOST: &str = "lost";
/// The message never arrived, and an argument of the plan permits its queue to drop it.
pub(crate) const DROPPED: &str = "dropped";

/// Returns the outcome of a message that never arrived and is in no queue, which is also the name of its counter.
/// `may_drop` is set if the plan permits the queues to drop messages.
pub(crate) fn of_missing(may_drop: bool) -> &'static str {
    if may_drop { DROPPED } else { LOST }
}

/// The message arrived with a corrupted body: shorter, longer or with other bytes.
pub(crate) const DAMAGED: &str = "damaged";
/// Churn: this process has no descriptors left. Failed reconnects are also counted by this name.
pub(crate) const DESCRIPTORS: &str = "descriptors";
/// Churn: no local ports are left. Failed reconnects are also counted by this name.
pub(crate) const PORTS: &str = "ports";

/// Returns the kind of an attempt that failed because this process has no descriptor or port left.
pub(crate) fn exhausted(error: &SessionError) -> Option<&'static str> {
    match error.errno()? {
        Errno::EMFILE | Errno::ENFILE => Some(DESCRIPTORS),
        Errno::EADDRNOTAVAIL => Some(PORTS),
        _ => None,
    }
}

/// Names of the other counters. Messages of the warm-up are consumed and acknowledged like all others, but counted only
/// in `warmup` and in the counters of defects: `lost`, `damaged`, `duplicated`, `redelivered_after_ack`, `out_of_order`
/// and `protocol`.
pub(crate) mod count {
    /// Messages written.
    pub(crate) const PUBLISHED: &str = "published";
    /// Messages written, including the warm-up's: comparable with the broker's count.
    pub(crate) const WRITTEN: &str = "written";
    /// Deliveries of any message, including repeated ones, the warm-up's and foreign ones: comparable with the broker's
    /// count.
    pub(crate) const DELIVERED: &str = "delivered";
    /// Messages that the broker confirmed.
    pub(crate) const CONFIRMED: &str = "confirmed";
    /// Messages that the broker refused.
    pub(crate) const NACKED: &str = "nacked";
    /// Messages that the broker returned.
    pub(crate) const RETURNED: &str = "returned";
    /// Deliveries to consumers, including repeated ones.
    pub(crate) const CONSUMED: &str = "consumed";
    /// Deliveries that the broker marked as redelivered.
    pub(crate) const REDELIVERED: &str = "redelivered";
    /// Messages that never arrived and are in no queue.
    pub(crate) const LOST: &str = "lost";
    /// Messages that never arrived and are in no queue, where the plan permits the queues to drop them.
    pub(crate) const DROPPED: &str = super::DROPPED;
    /// Messages delivered again without the redelivered flag.
    pub(crate) const DUPLICATED: &str = "duplicated";
    /// Messages redelivered although they had been acknowledged or needed no acknowledgement.
    pub(crate) const REDELIVERED_AFTER_ACK: &str = "redelivered_after_ack";
    /// Messages with a corrupted body, including the warm-up's.
    pub(crate) const DAMAGED: &str = "damaged";
    /// Messages that a consumer received after a later one of the same producer.
    pub(crate) const OUT_OF_ORDER: &str = "out_of_order";
    /// Messages that arrived after their connection was lost or the broker had refused them.
    pub(crate) const ARRIVED_LATE: &str = "arrived_late";
    /// Messages of other senders.
    pub(crate) const FOREIGN: &str = "foreign";
    /// Messages written in the warm-up; with churn, its operations; without producers, messages that came outside the
    /// measured time.
    pub(crate) const WARMUP: &str = load::recorder::WARMUP;
    /// Messages whose connection was lost, or whose run was over, before the confirm. They may have arrived.
    pub(crate) const UNCONFIRMED: &str = "unconfirmed";
    /// Churn: operations done, each with its opposite: opened and closed, declared and deleted, or bound and unbound.
    pub(crate) const CHURNED: &str = "churned";
    /// Messages that consumers requeued (`basic.nack`).
    pub(crate) const GIVEN_BACK: &str = "given_back";
    /// Messages that arrived before they were sent, by the clocks of two machines. They have no latency.
    pub(crate) const NEGATIVE_LATENCY: &str = "negative_latency";
    /// `basic.get` requests of the measured time that found no message.
    pub(crate) const EMPTY_GETS: &str = "empty_gets";
    /// Times that the broker asked publishers to wait (`connection.blocked`).
    pub(crate) const BLOCKED: &str = "blocked";
    /// Duration of these waits, milliseconds, summed over connections.
    pub(crate) const BLOCKED_MS: &str = "blocked_ms";
    /// Connections that were lost.
    pub(crate) const DISCONNECTS: &str = "disconnects";
    /// Connections that were reestablished.
    pub(crate) const RECONNECTS: &str = "reconnects";
    /// Downtime of connections, milliseconds, summed over them.
    pub(crate) const GAP_MS: &str = "gap_ms";
    /// Channels that the broker closed, whose connection was then reopened.
    pub(crate) const CHANNELS_CLOSED: &str = "channels_closed";
    /// Protocol violations of the broker: a confirm that came twice or for an unpublished message, a return after its
    /// confirm, an unreadable frame, or one larger than negotiated.
    pub(crate) const PROTOCOL: &str = "protocol";
    /// Consumers that the broker cancelled (`basic.cancel`).
    pub(crate) const CANCELLED: &str = "cancelled";
}
