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

/// The other counters. Metrics are named as by this project's broker, and by RabbitMQ's plugin `rabbitmq_prometheus`.
///
/// Messages of the warm-up are consumed and acknowledged like all others, but counted only
/// in `warmup` and in the counters of defects: `lost`, `damaged`, `duplicated`, `redelivered_after_ack`, `out_of_order`
/// and `protocol`.
pub(crate) mod count {
    use std::borrow::Cow;

    use measure::counters::Counter;
    use measure::spec::CounterRole::{
        DeliveryError, DeliveryEvent, DependentRate, Detail, Rate, Reconnects,
    };
    use measure::spec::CounterSpec;

    measure::counters! {
        /// Messages written.
        PUBLISHED = CounterSpec::new("published", "published", Rate);
        /// Messages that the broker confirmed.
        CONFIRMED = CounterSpec::new("confirmed", "confirmed", DependentRate);
        /// Deliveries to consumers, including repeated ones.
        CONSUMED = CounterSpec::new("consumed", "consumed", Rate);
        /// Churn: operations done, each with its opposite: opened and closed, declared and deleted, or bound and unbound.
        CHURNED = CounterSpec::new("churned", "churned", Rate);
        /// Messages written, including the warm-up's: comparable with the broker's count.
        WRITTEN = CounterSpec::with_metrics(
            "written", "written", Detail,
            &[
                Cow::Borrowed("broker_messages_published_total"),
                Cow::Borrowed("rabbitmq_global_messages_received_total"),
            ],
        );
        /// Deliveries of any message, including repeated ones, the warm-up's and foreign ones: comparable with the broker's
        /// count.
        DELIVERED = CounterSpec::with_metrics(
            "delivered", "delivered", Detail,
            &[
                Cow::Borrowed("broker_messages_delivered_total"),
                Cow::Borrowed("rabbitmq_global_messages_delivered_total"),
            ],
        );
        /// Messages that never arrived and are in no queue.
        LOST = CounterSpec::new("lost", "lost", DeliveryError);
        /// Messages delivered again without the redelivered flag.
        DUPLICATED = CounterSpec::new("duplicated", "duplicated", DeliveryError);
        /// Messages that a consumer received after a later one of the same producer.
        OUT_OF_ORDER = CounterSpec::new("out_of_order", "out of order", DeliveryError);
        /// Messages that never arrived and are in no queue, where the plan permits the queues to drop them.
        DROPPED = CounterSpec::new(super::DROPPED, "dropped", DeliveryEvent);
        /// Deliveries that the broker marked as redelivered.
        REDELIVERED = CounterSpec::new("redelivered", "redelivered", DeliveryEvent);
        /// Messages that the broker refused.
        NACKED = CounterSpec::new("nacked", "nacked", DeliveryEvent);
        /// Messages that the broker returned.
        RETURNED = CounterSpec::new("returned", "returned", DeliveryEvent);
        /// Messages whose connection was lost, or whose run was over, before the confirm. They may have arrived.
        UNCONFIRMED = CounterSpec::new("unconfirmed", "unconfirmed", DeliveryEvent);
        /// Messages that arrived after their connection was lost or the broker had refused them.
        ARRIVED_LATE = CounterSpec::new("arrived_late", "arrived late", DeliveryEvent);
        /// Messages that consumers requeued (`basic.nack`).
        GIVEN_BACK = CounterSpec::new("given_back", "given back", DeliveryEvent);
        /// Messages of other senders.
        FOREIGN = CounterSpec::new("foreign", "foreign", DeliveryEvent);
        /// Consumers that the broker cancelled (`basic.cancel`).
        CANCELLED = CounterSpec::new("cancelled", "cancelled", DeliveryEvent);
        /// Times that the broker asked publishers to wait (`connection.blocked`).
        BLOCKED = CounterSpec::new("blocked", "blocked", DeliveryEvent);
        /// Duration of these waits, milliseconds, summed over connections.
        BLOCKED_MS = CounterSpec::in_milliseconds("blocked_ms", "blocked ms", DeliveryEvent);
        /// Connections that were lost.
        DISCONNECTS = CounterSpec::new("disconnects", "disconnects", DeliveryEvent);
        /// Connections that were reestablished.
        RECONNECTS = CounterSpec::new("reconnects", "reconnects", Reconnects);
        /// Downtime of connections, milliseconds, summed over them.
        GAP_MS = CounterSpec::in_milliseconds("gap_ms", "gap ms", DeliveryEvent);
        /// Messages redelivered although they had been acknowledged or needed no acknowledgement.
        REDELIVERED_AFTER_ACK = CounterSpec::new("redelivered_after_ack", "redelivered_after_ack", Detail);
        /// Messages with a corrupted body, including the warm-up's.
        DAMAGED = CounterSpec::new("damaged", "damaged", Detail);
        /// Messages that arrived before they were sent, by the clocks of two machines. They have no latency.
        NEGATIVE_LATENCY = CounterSpec::new("negative_latency", "negative_latency", Detail);
        /// `basic.get` requests of the measured time that found no message.
        EMPTY_GETS = CounterSpec::new("empty_gets", "empty_gets", Detail);
        /// Channels that the broker closed, whose connection was then reopened.
        CHANNELS_CLOSED = CounterSpec::new("channels_closed", "channels_closed", Detail);
        /// Protocol violations of the broker: a confirm that came twice or for an unpublished message, a return after its
        /// confirm, an unreadable frame, or one larger than negotiated.
        PROTOCOL = CounterSpec::new("protocol", "protocol", Detail);
    }

    /// Messages written in the warm-up; with churn, its operations; without producers, messages that came outside the
    /// measured time.
    pub(crate) const WARMUP: Counter = Counter::WARMUP;
}
