"""`/metrics` and `/healthz`, served on the loop that serves the streams.

A separate thread would block the streams with the interpreter's lock; README.md has the measurements.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming_daemon.metrics import Metrics

_HEAD_TIMEOUT_S = 5
_PLAIN = "text/plain; charset=utf-8"


class _Single(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class Pages:
    """Answers one request per connection. Use it with `async with`."""

    def __init__(self, metrics: Metrics, listener: socket.socket) -> None:
        self._metrics = metrics
        self._listener = listener
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def __aenter__(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._listener)

    async def __aexit__(self, *_: object) -> None:
        """Aborts the open connections, so that they do not delay the shutdown."""
        if self._server:
            self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*(task for task in self._open if task), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._open[task] = writer
        try:
            await self._answer(reader, writer)
        finally:
            del self._open[task]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Errors here are the client's: it disconnected, was too slow, or did not speak HTTP.
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_HEAD_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_HEAD_TIMEOUT_S):
                writer.write(await self._respond(head))
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _respond(self, head: bytes) -> bytes:
        method, target, *_ = [*head.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", extra="Allow: GET, HEAD\r\n")
        response = await self._page(target.split(b"?")[0])
        return response if method == b"GET" else response[: response.index(b"\r\n\r\n") + 4]

    async def _page(self, path: bytes) -> bytes:
        match path:
            case b"/metrics":
                return _response(HTTPStatus.OK, await self._render(), CONTENT_TYPE_PLAIN_0_0_4)
            case b"/healthz":
                return _response(HTTPStatus.OK, b"ok\n")
            case _:
                return _response(HTTPStatus.NOT_FOUND, b"there are /metrics and /healthz\n")

    async def _render(self) -> bytes:
        """Renders the page. All metrics are read at once, but rendered one by one, with streams served in between."""
        parts = []
        for family in list(self._metrics.registry.collect()):
            parts.append(generate_latest(_Single(family)))
            await asyncio.sleep(0)
        return b"".join(parts)


def _response(status: HTTPStatus, body: bytes, kind: str = _PLAIN, extra: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n{extra}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
