"""What can go wrong with a handoff and with a stream: the `reason` labels of the metrics."""

import errno

# Each with what the log says. The last two come with a stream all the same.
HANDOFF_FAILURES = {
    # The usual trace of a probe: harmless, and not logged.
    "empty": "the sender closed the connection without sending anything",
    "timeout": "the payload did not arrive within the receive timeout",
    "canceled": "the daemon stopped before the payload arrived",
    "client_disconnected": "the sender was gone before the payload was read",
    "network": "reading the handoff connection failed",
    "other": "the handoff connection could not be watched",
    "too_large": "the payload is longer than 128 KiB",
    "truncated": "descriptors were lost on the way: is the limit of open files reached?",
    "no_descriptor": "the message brought no descriptor",
    "not_a_stream_socket": "the descriptor is no stream socket",
    "out_of_descriptors": "no free descriptor: raise the limit of open files (ulimit -n)",
    "invalid_json": "the payload is no JSON object with the known keys; defaults are used",
    "surplus_descriptors": "the message brought more than one descriptor; the first is used",
}

STREAM_FAILURES = ("timeout", "canceled", "client_disconnected", "network", "other")


class HandoffError(Exception):
    """A handoff that brings no stream. `reason` is one of HANDOFF_FAILURES."""

    def __init__(self, reason: str) -> None:
        super().__init__(HANDOFF_FAILURES[reason])
        self.reason = reason


class StreamError(Exception):
    """A stream ends before its last byte. `reason` is one of STREAM_FAILURES."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def reason_of(error: OSError) -> str:
    """The reason that stands for what the system said about a connection."""
    gone = error.errno in (errno.ECONNRESET, errno.EPIPE)
    return "client_disconnected" if gone else "network"
