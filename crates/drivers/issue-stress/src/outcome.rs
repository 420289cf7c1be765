//! Outcomes of operations and counters, by the names in results. Outcomes are disjoint: each operation has one.

/// The daemon answered a valid request with a failure.
pub(crate) const REFUSED: &str = "refused";
/// The daemon answered `busy`: one of its limits was reached.
pub(crate) const BUSY: &str = "busy";
/// No answer arrived in time, or the daemon answered that the deadline had passed.
pub(crate) const TIMEOUT: &str = "timeout";
/// No connection was accepted.
pub(crate) const CONNECT: &str = "connect";
/// The connection ended before the answer.
pub(crate) const CONNECTION_LOST: &str = "connection_lost";
/// The answer is not of the protocol.
pub(crate) const MALFORMED: &str = "malformed";
/// The answer belongs to another request.
pub(crate) const FOREIGN_ANSWER: &str = "foreign_answer";
/// The answer's content is not what the request asks for.
pub(crate) const WRONG_ANSWER: &str = "wrong_answer";
/// The driver had no descriptor left.
pub(crate) const DESCRIPTORS: &str = "descriptors";

/// All outcomes but success.
#[cfg(test)]
pub(crate) const ALL: [&str; 9] = [
    REFUSED,
    BUSY,
    TIMEOUT,
    CONNECT,
    CONNECTION_LOST,
    MALFORMED,
    FOREIGN_ANSWER,
    WRONG_ANSWER,
    DESCRIPTORS,
];

/// Counters other than outcomes.
pub(crate) mod count {
    use measure::spec::CounterRole::{
        DeliveryError, DeliveryEvent, Detail, Opened, Rate, Reconnects, Retries,
    };
    use measure::spec::CounterSpec;

    measure::counters! {
        /// Issues whose creation was acknowledged, including issues of batches.
        CREATED = CounterSpec::new("created", "created", Rate);
        /// Requests sent.
        REQUESTS = CounterSpec::new("requests_sent", "requests sent", Detail);
        /// Flushes of the disk during the load, whoever asked for them.
        DISK_FLUSHES = CounterSpec::new("disk_flushes", "disk flushes", Detail);
        /// Connections opened.
        CONNECTED = CounterSpec::new("connected", "opened", Opened);
        /// Issues that were acknowledged and are not in the database at the end.
        LOST = CounterSpec::new("lost", "lost", DeliveryError);
        /// Issues that are in the database at the end although their creation was refused or never asked for.
        PHANTOM = CounterSpec::new("phantom", "phantom", DeliveryError);
        /// Issues that are in the database at the end, or in an answer to `list` or `ready`, with another content than was
        /// sent.
        ALTERED = CounterSpec::new("altered", "altered", DeliveryError);
        /// Issues that the database holds twice, or that were created twice by one idempotency key.
        DUPLICATED = CounterSpec::new("duplicated", "duplicated", DeliveryError);
        /// Ids that were given to two issues.
        DUPLICATE_IDS = CounterSpec::new("duplicate_ids", "duplicate ids", DeliveryError);
        /// Atomic batches that are in the database in part at the end.
        PARTIAL_BATCHES = CounterSpec::new("partial_batches", "partial batches", DeliveryError);
        /// Issues with a counted state for which no order of the operations explains what was read.
        NOT_LINEARIZABLE = CounterSpec::new("not_linearizable", "not linearizable", DeliveryError);
        /// Issues of answers to `list` and `ready` that are not in the database at the end, or twice in an answer.
        FOREIGN_LISTED = CounterSpec::new("foreign_listed", "foreign in lists", DeliveryError);
        /// Issues that were acknowledged before a `list` was sent, and are missing from its answer.
        UNLISTED = CounterSpec::new("unlisted", "missing in lists", DeliveryError);
        /// Counts of the daemon that differ from its rows at the end.
        WRONG_COUNTS = CounterSpec::new("wrong_counts", "wrong counts", DeliveryError);
        /// Histories that are too long or too concurrent to be decided.
        UNDECIDED = CounterSpec::new("undecided", "undecided", DeliveryEvent);
        /// Operations that were left out of the histories, because they were too many.
        UNCHECKED = CounterSpec::new("unchecked", "unchecked", DeliveryEvent);
        /// Answers to `list` and `ready` that were left out of the check, because they were too many.
        UNCHECKED_LISTS = CounterSpec::new("unchecked_lists", "unchecked lists", DeliveryEvent);
        /// Connections that were closed before an answer, as the scenario asks.
        LEFT = CounterSpec::new("left", "left", DeliveryEvent);
        /// Requests whose deadline had passed, or ended early, as the scenario asks.
        EXPIRED = CounterSpec::new("expired", "expired", DeliveryEvent);
        /// Connections opened again after they were lost.
        RECONNECTS = CounterSpec::new("reconnects", "reconnects", Reconnects);
        /// Writes that were sent again with their idempotency key.
        RETRIES = CounterSpec::new("retries", "retries", Retries);
        /// Operations in the histories that were checked.
        CHECKED = CounterSpec::new("history_operations", "history_operations", Detail);
    }
}
