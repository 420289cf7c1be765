//! Indices of the series in the [specification](crate::spec).

use measure::tally::Series;

/// Time of `socket` and `connect` to the daemon, until its accept queue holds the connection.
pub const CONNECT: Series = Series(0);
/// Time of `sendmsg` and the close of our copy of the client's socket. The reference's handoff also includes the close
/// of the handoff connection, which here stays open for `take`.
pub const HANDOFF: Series = Series(1);
/// Time from `sendmsg` to the daemon closing the handoff connection: its accept and receive.
pub const TAKE: Series = Series(2);
/// Time from the end of the handoff to the first byte: the reference's `ttfb`.
pub const FIRST_BYTE: Series = Series(3);
/// Time from the intended start to the first record: the response time, including retried connects and all delays of
/// the driver.
pub const FIRST_EVENT: Series = Series(4);
/// Time between two records. Records that arrive in one read are 1 ns apart.
pub const GAP: Series = Series(5);
/// Time from the end of the handoff to the end of the stream.
pub const STREAM: Series = Series(6);
/// Time by which a stream exceeds its nominal duration.
pub const DRIFT: Series = Series(7);
