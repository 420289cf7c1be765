//! Indices of the series in the [specification](crate::spec). If redirects are followed, `sending`, `waiting` and `receiving` apply to each hop, as in k6,
//! and the other series to the whole chain. Those three then have more values than the response time.

use measure::tally::Series;

/// Response time: from the intended start to the last byte of the response.
pub(crate) const RESPONSE: Series = Series(0);
/// Service time: from the first byte sent to the last byte of the response.
pub(crate) const SERVICE: Series = Series(1);
/// Time from the intended start to the first byte sent: until a connection was free or opened.
pub(crate) const BLOCKED: Series = Series(2);
/// Duration of the TCP handshake, for each connection that was opened.
pub(crate) const CONNECTING: Series = Series(3);
/// Duration of the TLS handshake, for each connection that was opened.
pub(crate) const TLS: Series = Series(4);
/// Time to hand the request to the kernel. Not measured with HTTP/2, where requests share a connection.
pub(crate) const SENDING: Series = Series(5);
/// Time from the end of sending to the first byte of the response. With pipelining it starts at the end of the last
/// request sent.
pub(crate) const WAITING: Series = Series(6);
/// Time from the first byte of the response to its last. A response in one piece has both at once: 1 ns, the smallest
/// value of a histogram, shown as 0 in k6's format.
pub(crate) const RECEIVING: Series = Series(7);
