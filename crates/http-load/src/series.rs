//! What is measured. Where redirects are followed, `sending`, `waiting` and `receiving` are of each hop, as k6 has them, and
//! the rest is of the whole: times of phases have more values than the response time.

use measure::tally::Series;

/// The series, in the order of reports.
pub(crate) const NAMES: &[&str] = &[
    "response",
    "service",
    "blocked",
    "connecting",
    "tls",
    "sending",
    "waiting",
    "receiving",
];

/// From the intended start to the last byte of the answer: what a user waits.
pub(crate) const RESPONSE: Series = Series(0);
/// From the first byte sent to the last byte of the answer.
pub(crate) const SERVICE: Series = Series(1);
/// From the intended start until its first byte was sent: until a connection was free for it, or made.
pub(crate) const BLOCKED: Series = Series(2);
/// The TCP handshake, for each connection that was opened.
pub(crate) const CONNECTING: Series = Series(3);
/// The TLS handshake, for each connection that was opened.
pub(crate) const TLS: Series = Series(4);
/// Handing the request to the kernel; not with HTTP/2, where it goes out among others.
pub(crate) const SENDING: Series = Series(5);
/// From the end of sending to the first byte of the answer. Where requests are pipelined it counts from the end of the last
/// one that was sent.
pub(crate) const WAITING: Series = Series(6);
/// From the first byte of the answer to its last. One that comes in one piece has both at once: 1 ns, the least that a
/// histogram holds, and 0 in the block of k6.
pub(crate) const RECEIVING: Series = Series(7);
