"""The bytes of the answer: the head, the events of the mock backend, and the refusal.

`daemons/README.md` lists the texts. All streaming daemons send the same bytes, so that they can be compared.
"""

import json
import re
from collections.abc import Mapping

from streaming_daemon.request import Request

HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Content-Type: text/event-stream\r\n"
    b"Cache-Control: no-cache\r\n"
    b"Connection: close\r\n"
    b"X-Accel-Buffering: no\r\n"
    b"\r\n"
)
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_DONE = b"data: [DONE]\n\n"
_GREETING = "Hello from the streaming daemon. Prompt: "
_PROMPT_EXCERPT = 50
"""The number of bytes of the prompt that the greeting repeats."""

_LINES = (
    "This answer comes from the mock backend.",
    "It computes nothing: waiting is its only work.",
    "Your socket was accepted by another process.",
    "It travelled here as a control message.",
    "From now on this daemon alone writes to it.",
    "Each line that you read is one event.",
    "Each event is one write to your socket.",
    "Between two events passes one fixed delay.",
    "Nobody is asked for a token while you wait.",
    "An idle stream should cost a few bytes.",
    "A thousand of them should cost no more each.",
    "If you stop reading, only you will wait.",
    "If you go away, your place becomes free.",
    "The next event is the last one with text.",
    "After it comes the mark that ends it all.",
)

_RESERVED = frozenset(
    (
        "content-type",
        "cache-control",
        "connection",
        "x-accel-buffering",
        "transfer-encoding",
        "content-length",
        "content-encoding",
    )
)
# RFC 9110 §5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

Opening = tuple[bytes, bytes, bytes]
"""The writes that depend on the request: the head and the first two events, even if they are not sent."""


class Answer:
    """The data that all streams share. A stream is `messages + 1` writes: the head is write 0, event k is write k."""

    def __init__(self, messages: int) -> None:
        self.last_write = messages
        """The number of the last write."""
        self._last = _event("[DONE-CONTENT]") + _DONE
        # Rotated, so that write % 15 is the index: write 3 is the first line.
        lines = _LINES[-3:] + _LINES[:-3]
        self._lines = tuple(_event(line) for line in lines)

    def opening(self, request: Request) -> Opening:
        """Renders the writes that depend on the request."""
        head = _head(request.response_headers) if request.response_headers else HEAD
        if self.last_write == 0:
            head += _DONE
        return head, _event(_GREETING + _excerpt(request.prompt)), _event(f"User ID: {request.user_id}")

    def bytes_of(self, write: int, opening: Opening | None) -> bytes:
        """Returns the bytes of write number `write`. Writes below 3 need the opening."""
        if write == self.last_write and write > 0:
            return self._last
        if opening is not None:
            return opening[write]
        return self._lines[write % len(_LINES)]


def _event(content: str) -> bytes:
    quoted = json.dumps(content, ensure_ascii=False)
    return f'data: {{"content":{quoted}}}\n\n'.encode()


def _excerpt(prompt: str) -> str:
    """Returns the longest prefix of whole characters of at most 50 bytes, with dots if the prompt is longer."""
    text = prompt[: _PROMPT_EXCERPT + 1].encode()
    if len(text) <= _PROMPT_EXCERPT:
        return prompt
    # Only the last character can be cut and thus be invalid.
    return text[:_PROMPT_EXCERPT].decode("utf-8", "ignore") + "..."


def _head(headers: Mapping[str, str]) -> bytes:
    """Returns the head with the permitted headers added before the empty line."""
    lines = "".join(f"{name}: {headers[name]}\r\n" for name in sorted(headers) if _is_allowed(name, headers[name]))
    return HEAD[:-2] + lines.encode() + b"\r\n"


def _is_allowed(name: str, value: str) -> bool:
    is_token = _TOKEN.fullmatch(name) is not None
    return is_token and name.lower() not in _RESERVED and _CONTROL.search(value) is None
