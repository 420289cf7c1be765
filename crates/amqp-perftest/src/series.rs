//! What is measured, in the order of reports.

use measure::tally::Series;

/// Names of the series.
pub const NAMES: &[&str] = &["publish", "confirm", "end_to_end", "churn", "open"];

/// From the intended start to the moment that the message was written. Measured where neither confirms nor consumers
/// say more.
pub const PUBLISH: Series = Series(0);
/// From the intended start to the broker's `basic.ack`.
pub const CONFIRM: Series = Series(1);
/// From the intended start to the moment that a consumer read the message. A message counts once, at its first
/// arrival, even where the broker marks that as redelivered; one that had failed before does not.
pub const END_TO_END: Series = Series(2);
/// Churn: from the intended start to the answer to the second of the two requests, such as `queue.delete-ok`.
pub const CHURN: Series = Series(3);
/// Churn: from sending the first request (the SYN, of a connection) to its answer, such as `queue.declare-ok`.
pub const OPEN: Series = Series(4);
