//! What becomes of a request, by the names that are counted. Outcomes are disjoint: each request has one.

use nix::errno::Errno;

use crate::answer::KINDS;

/// Counts beside the outcomes.
pub(crate) mod count {
    /// Requests that began in the warm-up and count nowhere else.
    pub(crate) const WARMUP: &str = "warmup";
    /// Answers that came whole, whatever they said.
    pub(crate) const ANSWERS: &str = "answers";
    /// Answers that came whole, those to requests of the warm-up included, as the server counts them.
    pub(crate) const SERVED: &str = "served";
    /// Bytes received, heads included.
    pub(crate) const BYTES: &str = "bytes";
    /// Bytes of content received.
    pub(crate) const BODY_BYTES: &str = "body_bytes";
    /// Bytes sent, heads included.
    pub(crate) const BYTES_SENT: &str = "bytes_sent";
    /// Redirects that were followed; the answers that said them count as answers too.
    pub(crate) const REDIRECTS: &str = "redirects";
    /// Connections opened.
    pub(crate) const OPENED: &str = "opened";
    /// Connections that the server ended while they were held open for later requests.
    pub(crate) const LOST: &str = "lost";
    /// Attempts to connect for no particular request that failed.
    pub(crate) const UNCONNECTED: &str = "unconnected";
    /// Connections held, told once a second by each worker.
    pub(crate) const HELD: &str = "held";
    /// Checks that passed, of all answers that count. What `measure::threshold` makes its figures of.
    pub(crate) const CHECKS_PASSED: &str = "checks_passed";
    /// Checks that failed.
    pub(crate) const CHECKS_FAILED: &str = "checks_failed";
    /// Answers that were as they should be but for a check.
    pub(crate) const FAILED_A_CHECK: &str = "failed_a_check";
    /// Bytes that came after an answer was complete, and belong to none.
    pub(crate) const EXCESS: &str = measure::audit::count::EXCESS_BYTES;
    /// Answers whose content was compared with that of the answers before the run, or with the one that was named.
    pub(crate) const COMPARED: &str = "bodies_compared";
}

/// Nobody listens.
pub(crate) const REFUSED: &str = "refused";
/// No connection in time.
pub(crate) const CONNECT_TIMEOUT: &str = "connect_timeout";
/// No connection, for another reason.
pub(crate) const CONNECT: &str = "connect";
/// This process may open no more descriptors.
pub(crate) const DESCRIPTORS: &str = "descriptors";
/// There is no port left to connect from.
pub(crate) const PORTS: &str = "ports";
/// No whole answer in time.
pub(crate) const TIMEOUT: &str = "timeout";
/// The connection was reset.
pub(crate) const RESET: &str = "reset";
/// The connection was closed before the answer was whole.
pub(crate) const EARLY_CLOSE: &str = "early_close";
/// The status is none of those that were expected.
pub(crate) const STATUS: &str = "status";
/// The content is not as long as that of the other answers.
pub(crate) const LENGTH: &str = "length";
/// The content is as long as it should be, and another one.
pub(crate) const BODY: &str = "body";

/// A redirect, where they are followed, to another scheme, host or port than those that were asked.
pub(crate) const REDIRECT_ELSEWHERE: &str = "redirect_elsewhere";
/// One redirect more than are followed.
pub(crate) const TOO_MANY_REDIRECTS: &str = "too_many_redirects";
/// A redirect, where they are followed, without a `Location`, or with one that is no reference: empty, with spaces or bytes
/// that are no UTF-8, with a host that is none, or leading to a path of more than 32 KiB.
pub(crate) const REDIRECT_WITHOUT_LOCATION: &str = "redirect_without_location";
/// TLS could not be agreed upon, or was broken.
pub(crate) const TLS: &str = "tls";
/// A frame of HTTP/2 that none may be (RFC 9113), or the answer is not as long as its head says.
pub(crate) const HTTP2: &str = "protocol_http2";

/// Those that are no fault of an answer.
const OTHERS: [&str; 15] = [
    REFUSED,
    CONNECT_TIMEOUT,
    CONNECT,
    DESCRIPTORS,
    PORTS,
    TIMEOUT,
    RESET,
    STATUS,
    LENGTH,
    BODY,
    REDIRECT_ELSEWHERE,
    TOO_MANY_REDIRECTS,
    REDIRECT_WITHOUT_LOCATION,
    TLS,
    HTTP2,
];
/// All outcomes but that all is well.
pub(crate) const ALL: &[&str] = &all();

const fn all() -> [&'static str; OTHERS.len() + KINDS.len()] {
    let mut all = [""; OTHERS.len() + KINDS.len()];
    let mut place = 0;
    while place < all.len() {
        all[place] = match place.checked_sub(OTHERS.len()) {
            None => OTHERS[place],
            Some(place) => KINDS[place],
        };
        place += 1;
    }
    all
}

/// Those that a daemon's end or stand-still leads to.
pub(crate) const OF_A_FAULT: &[&str] = &[
    REFUSED,
    CONNECT_TIMEOUT,
    CONNECT,
    TIMEOUT,
    RESET,
    EARLY_CLOSE,
];

/// Those of a driver that has nothing left to connect with; connections for no particular request are counted by the same
/// names.
pub(crate) const EXHAUSTED: &[&str] = &[DESCRIPTORS, PORTS];

/// The outcome of a connection that could not be made.
pub(crate) fn connect_error(errno: Errno) -> &'static str {
    match errno {
        Errno::ECONNREFUSED | Errno::ENOENT => REFUSED,
        Errno::ETIMEDOUT => CONNECT_TIMEOUT,
        Errno::EMFILE | Errno::ENFILE => DESCRIPTORS,
        Errno::EADDRNOTAVAIL | Errno::EADDRINUSE => PORTS,
        Errno::ECONNRESET => RESET,
        _ => CONNECT,
    }
}

/// The outcome of a connection that broke.
pub(crate) fn broken(errno: Errno) -> &'static str {
    match errno {
        Errno::ETIMEDOUT => TIMEOUT,
        _ => RESET,
    }
}
