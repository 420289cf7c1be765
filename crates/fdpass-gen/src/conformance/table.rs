//! The cases in the order in which they run.

use crate::handoff::SocketType;

use super::case::{Case, Needs};
use super::{capacity, clients, counts, descriptors, drain, headers, payloads, senders};

const NOTHING: Needs = Needs::NOTHING;
const METRICS: Needs = Needs::METRICS;
const ON_STREAM: Needs = Needs {
    only_on: Some(SocketType::Stream),
    ..NOTHING
};
/// A fresh daemon.
const FRESH: Needs = Needs::launch(&[]);
const FRESH_WITH_METRICS: Needs = Needs {
    metrics: true,
    ..FRESH
};
/// Streams of 0.9 s, long enough for events while they are open.
const OPEN: Needs = Needs {
    settings: &[("DAEMON_MESSAGE_DELAY", "50ms")],
    ..NOTHING
};
const TWO_PLACES: Needs = Needs::launch(&[
    ("DAEMON_MAX_CONNECTIONS", "2"),
    ("DAEMON_MESSAGE_DELAY", "100ms"),
]);
const PEAK: Needs = Needs {
    metrics: true,
    ..Needs::launch(&[("DAEMON_MESSAGE_DELAY", "50ms")])
};
/// Streams larger than the buffers of a client.
const LONG: Needs = Needs::launch(&[
    ("DAEMON_MESSAGE_COUNT", "20000"),
    ("DAEMON_MESSAGE_DELAY", "0"),
    ("DAEMON_WRITE_TIMEOUT", "300ms"),
]);
/// Streams of 1.7 s, which end within any grace time.
const DRAIN: Needs = Needs {
    ends: true,
    seconds: 15,
    ..Needs::launch(&[("DAEMON_MESSAGE_DELAY", "100ms")])
};
const DRAIN_QUICKLY: Needs = Needs {
    ends: true,
    seconds: 15,
    ..Needs::launch(&[("DAEMON_MESSAGE_DELAY", "5ms")])
};

const fn case(
    name: &'static str,
    needs: Needs,
    run: fn(&super::daemon_under_test::Subject<'_>) -> anyhow::Result<()>,
) -> Case {
    Case { name, needs, run }
}

/// All cases.
pub(crate) const CASES: &[Case] = &[
    case(
        "metrics are there from the start",
        FRESH_WITH_METRICS,
        counts::from_the_start,
    ),
    case(
        "socket file is closed to others",
        FRESH,
        senders::socket_mode,
    ),
    case("default payload", NOTHING, payloads::default),
    case("payload of one NUL", NOTHING, payloads::one_nul),
    case("empty payload", NOTHING, payloads::empty),
    case("invalid JSON", NOTHING, payloads::invalid_json),
    case("payload of 10 KB", NOTHING, payloads::ten_kb),
    case("payload of 128 KiB", NOTHING, payloads::largest),
    case("oversized payload is refused", NOTHING, payloads::oversized),
    case("payload in two pieces", ON_STREAM, payloads::pieces),
    case(
        "prompt is cut between two characters",
        NOTHING,
        payloads::cut,
    ),
    case("response headers are added", NOTHING, headers::added),
    case("response headers are sorted", NOTHING, headers::sorted),
    case(
        "response headers that would break the head are dropped",
        NOTHING,
        headers::dropped,
    ),
    case("two descriptors", NOTHING, descriptors::two),
    case("64 descriptors", NOTHING, descriptors::sixty_four),
    case("250 descriptors", NOTHING, descriptors::two_hundred_fifty),
    case("pipe in place of a socket", NOTHING, descriptors::pipe),
    case("datagram socket", NOTHING, descriptors::datagram),
    case("no descriptor", NOTHING, descriptors::none),
    case(
        "handoff connection is closed at once",
        OPEN,
        senders::closed_at_once,
    ),
    case("close before send", NOTHING, senders::close_before_send),
    case(
        "close before send is counted quietly",
        FRESH_WITH_METRICS,
        senders::quiet,
    ),
    case(
        "silent sender",
        Needs {
            seconds: 15,
            ..NOTHING
        },
        senders::silent,
    ),
    case(
        "1,000 handoffs at once",
        Needs {
            seconds: 30,
            ..NOTHING
        },
        senders::many,
    ),
    case("client in blocking mode", NOTHING, clients::blocking),
    case("client in non-blocking mode", NOTHING, clients::nonblocking),
    case("TCP client", NOTHING, clients::tcp),
    case("client that leaves", OPEN, clients::leaves),
    case(
        "client that never reads holds up nobody",
        NOTHING,
        clients::never_reads,
    ),
    case(
        "client that never reads and is made blocking",
        NOTHING,
        clients::made_blocking,
    ),
    case(
        "client that never reads is given up",
        LONG,
        clients::given_up,
    ),
    case(
        "bytes and events are counted",
        METRICS,
        counts::bytes_and_events,
    ),
    case("peak of streams is counted", PEAK, counts::peak),
    case(
        "at capacity: one more client is refused",
        TWO_PLACES,
        capacity::refused,
    ),
    case(
        "at capacity: the refusal is 503 with Retry-After",
        TWO_PLACES,
        capacity::with_503,
    ),
    case(
        "at capacity: the refusal is counted",
        Needs {
            metrics: true,
            ..TWO_PLACES
        },
        capacity::counted,
    ),
    case(
        "at capacity: open streams go on",
        TWO_PLACES,
        capacity::others_go_on,
    ),
    case(
        "at capacity: a place that becomes free is used",
        TWO_PLACES,
        capacity::freed,
    ),
    case(
        "on SIGTERM: open streams finish",
        DRAIN,
        drain::streams_finish,
    ),
    case(
        "on SIGTERM: further handoffs are refused",
        DRAIN,
        drain::refuses,
    ),
    case(
        "on SIGTERM: no handoff is lost",
        DRAIN_QUICKLY,
        drain::nothing_lost,
    ),
    case("on SIGTERM: exit code 0", DRAIN, drain::exit_code),
    case(
        "on SIGTERM: the socket file is removed",
        DRAIN,
        drain::socket_file,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own_and_no_sign_that_tap_reads() {
        let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        assert!(names.iter().all(|name| !name.contains(['#', '\\', '\n'])));
    }

    #[test]
    fn what_a_case_needs_decides_where_it_is_passed_over() {
        let missing = |needs: Needs, launched, metrics| {
            needs
                .missing(SocketType::Seqpacket, launched, metrics)
                .is_some()
        };
        assert!(!missing(NOTHING, false, false) && !missing(OPEN, false, false));
        assert!(missing(ON_STREAM, true, true));
        assert!(missing(FRESH, false, true) && !missing(FRESH, true, false));
        assert!(missing(METRICS, true, false) && !missing(METRICS, false, true));
        assert!(missing(PEAK, true, false) && !missing(PEAK, true, true));
    }
}
