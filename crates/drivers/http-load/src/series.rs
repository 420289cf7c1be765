//! The series. If redirects are followed, `sending`, `waiting` and `receiving` apply to each hop, as in k6, and the other
//! series to the whole chain. Those three then have more values than the response time.

use measure::spec::SeriesRole::{Detail, Headline, Main};
use measure::spec::SeriesSpec;

measure::series! {
    /// Response time: from the intended start to the last byte of the response.
    RESPONSE = SeriesSpec::with_note(
        "response",
        "response",
        Headline,
        "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.",
    );
    /// Service time: from the first byte sent to the last byte of the response.
    SERVICE = SeriesSpec::new("service", Main);
    /// Time from the intended start to the first byte sent: until a connection was free or opened.
    BLOCKED = SeriesSpec::new("blocked", Detail);
    /// Duration of the TCP handshake, for each connection that was opened.
    CONNECTING = SeriesSpec::new("connecting", Detail);
    /// Duration of the TLS handshake, for each connection that was opened.
    TLS = SeriesSpec::new("tls", Detail);
    /// Time to hand the request to the kernel. Not measured with HTTP/2, where requests share a connection.
    SENDING = SeriesSpec::new("sending", Detail);
    /// Time from the end of sending to the first byte of the response. With pipelining it starts at the end of the last
    /// request sent.
    WAITING = SeriesSpec::new("waiting", Detail);
    /// Time from the first byte of the response to its last. A response in one piece has both at once: 1 ns, the smallest
    /// value of a histogram, shown as 0 in k6's format.
    RECEIVING = SeriesSpec::new("receiving", Detail);
}
