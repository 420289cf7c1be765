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
    /// Issues whose creation was acknowledged, including issues of batches.
    pub(crate) const CREATED: &str = "created";
    /// Requests sent.
    pub(crate) const REQUESTS: &str = "requests_sent";
    /// Connections opened.
    pub(crate) const CONNECTED: &str = "connected";
    /// Connections opened again after they were lost.
    pub(crate) const RECONNECTS: &str = "reconnects";
    /// Writes that were sent again with their idempotency key.
    pub(crate) const RETRIES: &str = "retries";
    /// Requests whose deadline had passed, or ended early, as the scenario asks.
    pub(crate) const EXPIRED: &str = "expired";
    /// Connections that were closed before an answer, as the scenario asks.
    pub(crate) const LEFT: &str = "left";
    /// Issues that are in the database at the end, or in an answer to `list` or `ready`, with another content than was
    /// sent.
    pub(crate) const ALTERED: &str = "altered";
    /// Issues of answers to `list` and `ready` that are not in the database at the end, or twice in an answer.
    pub(crate) const FOREIGN_LISTED: &str = "foreign_listed";
    /// Issues that were acknowledged before a `list` was sent, and are missing from its answer.
    pub(crate) const UNLISTED: &str = "unlisted";
    /// Answers to `list` and `ready` that were left out of the check, because they were too many.
    pub(crate) const UNCHECKED_LISTS: &str = "unchecked_lists";
    /// Issues that were acknowledged and are not in the database at the end.
    pub(crate) const LOST: &str = "lost";
    /// Issues that are in the database at the end although their creation was refused or never asked for.
    pub(crate) const PHANTOM: &str = "phantom";
    /// Issues that the database holds twice, or that were created twice by one idempotency key.
    pub(crate) const DUPLICATED: &str = "duplicated";
    /// Ids that were given to two issues.
    pub(crate) const DUPLICATE_IDS: &str = "duplicate_ids";
    /// Atomic batches that are in the database in part at the end.
    pub(crate) const PARTIAL_BATCHES: &str = "partial_batches";
    /// Issues with a counted state for which no order of the operations explains what was read.
    pub(crate) const NOT_LINEARIZABLE: &str = "not_linearizable";
    /// Histories that are too long or too concurrent to be decided.
    pub(crate) const UNDECIDED: &str = "undecided";
    /// Operations that were left out of the histories, because they were too many.
    pub(crate) const UNCHECKED: &str = "unchecked";
    /// Operations in the histories that were checked.
    pub(crate) const CHECKED: &str = "history_operations";
    /// Flushes of the disk during the load, whoever asked for them.
    pub(crate) const DISK_FLUSHES: &str = "disk_flushes";
    /// Counts of the daemon that differ from its rows at the end.
    pub(crate) const WRONG_COUNTS: &str = "wrong_counts";
}
