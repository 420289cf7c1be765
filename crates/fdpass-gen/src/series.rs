//! What is measured, in the order of reports.

use measure::tally::Series;

/// Names of the series.
pub const NAMES: &[&str] = &[
    "connect",
    "handoff",
    "take",
    "first_byte",
    "first_event",
    "gap",
    "stream",
    "drift",
];

/// `socket` and `connect` to the daemon: its accept queue took us.
pub const CONNECT: Series = Series(0);
/// `sendmsg` and the close of our copy of the client's socket: what the reference calls handoff, less the close of the
/// handoff connection, which stays open for `take`.
pub const HANDOFF: Series = Series(1);
/// From `sendmsg` to the daemon closing the handoff connection: its accept and receive.
pub const TAKE: Series = Series(2);
/// From the end of the handoff to the first byte: the reference's `ttfb`.
pub const FIRST_BYTE: Series = Series(3);
/// From the intended start to the first record: the response time, with connecting again and all delays of the driver.
pub const FIRST_EVENT: Series = Series(4);
/// Between two records. Those that arrive in one read are 1 ns apart.
pub const GAP: Series = Series(5);
/// From the end of the handoff to the end of the stream.
pub const STREAM: Series = Series(6);
/// What a stream took longer than its nominal duration.
pub const DRIFT: Series = Series(7);
