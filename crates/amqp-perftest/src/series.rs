//! Indices of the series in the [specification](crate::spec).

use measure::tally::Series;

/// Time from the intended start to the write of the message. Measured only without confirms and consumers.
pub const PUBLISH: Series = Series(0);
/// Time from the intended start to the broker's `basic.ack`.
pub const CONFIRM: Series = Series(1);
/// Time from the intended start to the consumer's read of the message. A message counts once, at its first arrival,
/// even if the broker marks it as redelivered; a failed message does not count.
pub const END_TO_END: Series = Series(2);
/// Churn: time from the intended start to the answer to the second of the two requests, such as `queue.delete-ok`.
pub const CHURN: Series = Series(3);
/// Churn: time from sending the first request (the SYN, for a connection) to its answer, such as `queue.declare-ok`.
pub const OPEN: Series = Series(4);
