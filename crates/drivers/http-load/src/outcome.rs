//! Outcomes of requests, by the names that are counted. Outcomes are disjoint: each request has one.

use std::io;

use load::net::dial;
pub(crate) use load::net::dial::{CONNECT, CONNECT_TIMEOUT, DESCRIPTORS, PORTS, REFUSED};
use nix::errno::Errno;
use tls_client::tls_error;

pub(crate) use load::net::http1::EARLY_CLOSE;

/// Counters other than outcomes.
pub(crate) mod count {
    use std::borrow::Cow;

    use measure::spec::CounterRole::{
        Answers, BodyBytes, BytesReceived, BytesSent, ChecksFailed, ChecksPassed, Closed, Detail,
        ExcessBytes, ExpectedBodyBytes, Held, Lost, Opened, OperationsFailingChecks, Retries,
    };
    use measure::spec::CounterSpec;

    measure::counters! {
        /// Complete responses of any status.
        ANSWERS = CounterSpec::new("answers", "answers", Answers);
        /// Complete responses including the warm-up's, as the server counts them.
        SERVED = CounterSpec::with_metrics(
            "served", "served", Detail,
            &[Cow::Borrowed("http_requests_total")],
        );
        /// Bytes received, heads included.
        BYTES = CounterSpec::new("bytes", "read", BytesReceived);
        /// Bytes sent, heads included.
        BYTES_SENT = CounterSpec::new("bytes_sent", "sent", BytesSent);
        /// Bytes of response bodies received.
        BODY_BYTES = CounterSpec::new("body_bytes", "body bytes", BodyBytes);
        /// Bytes of the bodies that were expected: for each response the length before the run.
        EXPECTED_BODY_BYTES = CounterSpec::new("expected_body_bytes", "expected body bytes", ExpectedBodyBytes);
        /// Bytes after the end of a response that belong to no response.
        EXCESS = CounterSpec::new("excess_bytes", "excess bytes", ExcessBytes);
        OPENED = CounterSpec::new("opened", "opened", Opened);
        /// Connections that were to be kept, and that the server closed after an answer or with a GOAWAY.
        CLOSED = CounterSpec::new("closed", "closed", Closed);
        /// Requests that were sent again, because the server had not taken them before a GOAWAY, or had refused them.
        RETRIES = CounterSpec::new("retries", "retries", Retries);
        /// Requests of a rate that found all connections busy, and waited for one.
        WAITED = CounterSpec::new("waited", "waited", Detail);
        /// Open connections, reported once a second by each worker.
        HELD = CounterSpec::new("held", "held", Held);
        /// Idle connections that the server closed.
        LOST = CounterSpec::new("lost", "lost", Lost);
        /// Checks that passed, for all responses that count.
        CHECKS_PASSED = CounterSpec::new("checks_passed", "checks passed", ChecksPassed);
        CHECKS_FAILED = CounterSpec::new("checks_failed", "checks failed", ChecksFailed);
        /// Successful responses that failed a check.
        FAILED_A_CHECK = CounterSpec::new("failed_a_check", "failed a check", OperationsFailingChecks);
        /// Redirects that were followed; the redirect responses count as answers too.
        REDIRECTS = CounterSpec::new("redirects", "redirects", Detail);
        /// Failed connection attempts that were not made for a particular request.
        UNCONNECTED = CounterSpec::new("unconnected", "unconnected", Detail);
        /// Records of event streams, but for the end marker `[DONE]`.
        EVENTS = CounterSpec::new("events", "events", Detail);
        /// Reads in which records of a stream came: several in one read have one time.
        EVENT_READS = CounterSpec::new("event_reads", "event reads", Detail);
        /// Tokens of successful streams, as their servers report them: the last `usage.completion_tokens` of each stream.
        TOKENS = CounterSpec::new("tokens", "tokens", Detail);
        /// Successful streams whose server reports its tokens.
        STREAMS_WITH_USAGE = CounterSpec::new("streams_with_usage", "streams with usage", Detail);
        /// Successful streams that ended with the record `[DONE]`.
        ENDED_DONE = CounterSpec::new("ended_done", "ended by [DONE]", Detail);
        /// Successful streams without `[DONE]` whose body ended as its framing says.
        ENDED_BODY = CounterSpec::new("ended_body", "ended with the body", Detail);
        /// Successful streams without `[DONE]` that ended when the server closed the connection: nothing tells a whole one
        /// from one that was cut.
        ENDED_CLOSE = CounterSpec::new("ended_close", "ended by close", Detail);
        /// Time that responses, including the warm-up's, waited to be read together, all added up; estimated as half of each
        /// sleep before a poll.
        BATCHED_MS = CounterSpec::in_milliseconds("batched_ms", "batched ms", Detail);
        /// Addresses that the connections go to in turn, if a name has several.
        ADDRESSES = CounterSpec::new("addresses", "addresses", Detail);
        /// Responses whose body was compared with the body of the responses before the run, or with the named one.
        COMPARED = CounterSpec::new("bodies_compared", "bodies_compared", Detail);
    }
}

/// The response was not complete in time.
pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const RESET: &str = "reset";
/// The status is not an expected one.
pub(crate) const STATUS: &str = "status";
/// The body has another length than expected.
pub(crate) const LENGTH: &str = "length";
/// The body has the expected length but another content.
pub(crate) const BODY: &str = "body";

/// The response is a success and not an event stream.
pub(crate) const CONTENT_TYPE: &str = "content_type";
/// The server reports an error: an event named `error`, or a record with a field `error` that is not null.
pub(crate) const EVENT_ERROR: &str = "event_error";
/// The event stream ended without a record.
pub(crate) const NO_EVENT: &str = "no_event";
/// The event stream ended within a record.
pub(crate) const INCOMPLETE: &str = "incomplete";
/// A record follows the end marker `[DONE]`.
pub(crate) const TRAILING: &str = "protocol_trailing";
/// A record is longer than 16 MiB.
pub(crate) const SSE: &str = "protocol_sse";
/// The pause after a record of an event stream was too long.
pub(crate) const TIMEOUT_IDLE: &str = "timeout_idle";
/// Failures of event streams alone.
pub(crate) const OF_STREAMS: [&str; 7] = [
    CONTENT_TYPE,
    EVENT_ERROR,
    NO_EVENT,
    INCOMPLETE,
    TRAILING,
    SSE,
    TIMEOUT_IDLE,
];
/// The response has no value for a capture of the plan.
pub(crate) const CAPTURE: &str = "capture";

/// A redirect to another scheme, host or port; only if redirects are followed.
pub(crate) const REDIRECT_ELSEWHERE: &str = "redirect_elsewhere";
/// More redirects than the limit.
pub(crate) const TOO_MANY_REDIRECTS: &str = "too_many_redirects";
/// A redirect without a valid `Location`, if redirects are followed: the field is missing, empty, has spaces or bytes
/// that are not UTF-8, an invalid host, or a path of more than 32 KiB.
pub(crate) const REDIRECT_WITHOUT_LOCATION: &str = "redirect_without_location";
/// The TLS handshake failed, or the TLS connection broke.
pub(crate) const TLS: &str = "tls";
/// An invalid HTTP/2 frame (RFC 9113), or a body whose length differs from the one in its head.
pub(crate) const HTTP2: &str = "protocol_http2";

/// Outcomes of a driver that has no resources left to connect; attempts for no particular request are counted by the
/// same names.
pub(crate) const EXHAUSTED: &[&str] = &[DESCRIPTORS, PORTS];

/// Returns the outcome of a failed connection attempt.
pub(crate) fn connect_error(errno: Errno) -> &'static str {
    match errno {
        Errno::ECONNRESET => RESET,
        errno => dial::connect_error(errno),
    }
}

/// Returns the outcome of a broken connection.
pub(crate) fn broken(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if tls_error(error).is_some() => TLS,
        io::ErrorKind::TimedOut => TIMEOUT,
        _ => RESET,
    }
}
