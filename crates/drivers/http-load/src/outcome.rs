//! Outcomes of requests, by the names that are counted. Outcomes are disjoint: each request has one.

use load::net::dial;
pub(crate) use load::net::dial::{CONNECT, CONNECT_TIMEOUT, DESCRIPTORS, PORTS, REFUSED};
use nix::errno::Errno;

pub(crate) use load::net::http1::EARLY_CLOSE;

/// Counters other than outcomes.
pub(crate) mod count {
    /// Complete responses of any status.
    pub(crate) const ANSWERS: &str = "answers";
    /// Complete responses including the warm-up's, as the server counts them.
    pub(crate) const SERVED: &str = "served";
    /// Bytes received, heads included.
    pub(crate) const BYTES: &str = "bytes";
    /// Bytes of response bodies received.
    pub(crate) const BODY_BYTES: &str = "body_bytes";
    /// Bytes of the bodies that were expected: for each response the length before the run.
    pub(crate) const EXPECTED_BODY_BYTES: &str = "expected_body_bytes";
    /// Bytes sent, heads included.
    pub(crate) const BYTES_SENT: &str = "bytes_sent";
    /// Redirects that were followed; the redirect responses count as answers too.
    pub(crate) const REDIRECTS: &str = "redirects";
    pub(crate) const OPENED: &str = "opened";
    /// Connections that were to be kept, and that the server closed after an answer or with a GOAWAY.
    pub(crate) const CLOSED: &str = "closed";
    /// Requests that were sent again, because the server had not taken them before a GOAWAY.
    pub(crate) const RETRIES: &str = "retries";
    /// Idle connections that the server closed.
    pub(crate) const LOST: &str = "lost";
    /// Failed connection attempts that were not made for a particular request.
    pub(crate) const UNCONNECTED: &str = "unconnected";
    /// Open connections, reported once a second by each worker.
    pub(crate) const HELD: &str = "held";
    /// Checks that passed, for all responses that count.
    pub(crate) const CHECKS_PASSED: &str = "checks_passed";
    pub(crate) const CHECKS_FAILED: &str = "checks_failed";
    /// Successful responses that failed a check.
    pub(crate) const FAILED_A_CHECK: &str = "failed_a_check";
    /// Bytes after the end of a response that belong to no response.
    pub(crate) const EXCESS: &str = "excess_bytes";
    /// Responses whose body was compared with the body of the responses before the run, or with the named one.
    pub(crate) const COMPARED: &str = "bodies_compared";
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
pub(crate) fn broken(errno: Errno) -> &'static str {
    match errno {
        Errno::ETIMEDOUT => TIMEOUT,
        _ => RESET,
    }
}
