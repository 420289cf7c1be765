"""Failures of handoffs and streams: the `reason` labels of the metrics."""

import errno

# Each reason with its text in the log. The last two do not prevent the stream.
HANDOFF_FAILURES = {
    # Typical of a probe: harmless, and not logged.
    "empty": "the sender closed the connection without sending anything",
    "timeout": "the payload did not arrive within the receive timeout",
    "canceled": "the daemon stopped before the payload arrived",
    "client_disconnected": "the sender disconnected before the payload was read",
    # Never counted here: all daemons have the same reasons, so that one query works for each.
    "peer_refused": "the sender may not hand over clients",
    "network": "reading the handoff connection failed",
    "other": "the handoff connection could not be watched",
    "too_large": "the payload is longer than 128 KiB",
    "truncated": "descriptors were lost in transit: is the limit of open files reached?",
    "no_descriptor": "the message contains no descriptor",
    "not_a_stream_socket": "the descriptor is not a stream socket",
    "out_of_descriptors": "no free descriptor: raise the limit of open files (ulimit -n)",
    "invalid_json": "the payload is not a JSON object with the known keys; defaults are used",
    "surplus_descriptors": "the message contains more than one descriptor; the first is used",
}

# The last two are never counted here.
STREAM_FAILURES = ("timeout", "canceled", "client_disconnected", "network", "other", "backend", "backend_timeout")


class HandoffError(Exception):
    """A handoff does not lead to a stream. `reason` is one of HANDOFF_FAILURES."""

    def __init__(self, reason: str) -> None:
        super().__init__(HANDOFF_FAILURES[reason])
        self.reason = reason


class StreamError(Exception):
    """A stream ends before its last byte. `reason` is one of STREAM_FAILURES."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def reason_of(error: OSError) -> str:
    """Returns the reason for a system error of a connection."""
    gone = error.errno in (errno.ECONNRESET, errno.EPIPE)
    return "client_disconnected" if gone else "network"
