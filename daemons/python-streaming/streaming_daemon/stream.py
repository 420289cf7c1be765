"""One client that is being answered, and all of them."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic_ns

from streaming_daemon.answer import Answer, Opening
from streaming_daemon.failure import StreamError, reason_of
from streaming_daemon.metrics import Metrics
from streaming_daemon.wheel import Wheel

# MSG_DONTWAIT and not O_NONBLOCK, because that flag belongs to the open file, which the sender shares.
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
WRITES_WHEN_CALM = 256
"""Writes before handoffs get a turn: about half a millisecond."""
_MS = 1_000_000


class Stream:
    """A stream between two writes: this object and the socket are all that it costs.

    A coroutine that sleeps would take two kilobytes with its task and timer. The client's socket is not watched: as
    long as its buffer takes what is written there is nothing to wait for but the time. A client that goes away is
    noticed at the next write.
    """

    __slots__ = ("client", "due_ns", "opening", "write")

    def __init__(self, client: socket.socket, opening: Opening, started_ns: int) -> None:
        self.client = client
        self.opening: Opening | None = opening
        """Let go after the second event, so that a held stream does not pay for its prompt."""
        self.due_ns = started_ns
        """When the next write is due. Never moved by lateness."""
        self.write = 0
        """The number of the next write."""


class Streams:
    """All open streams of the daemon, served from one wheel on the loop."""

    def __init__(self, answer: Answer, delay_ns: int, write_timeout_s: float, metrics: Metrics) -> None:
        """Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._answer = answer
        self._delay_ns = delay_ns
        self._write_timeout_s = write_timeout_s
        self._metrics = metrics
        self._wheel = Wheel(tick_ns(delay_ns))
        self._timer: asyncio.Handle | None = None
        self._timer_ns = 0
        self.writes_per_turn = WRITES_WHEN_CALM
        # Streams whose clients do not read, each with the task that waits for room.
        self._blocked: dict[Stream, asyncio.Task[None]] = {}

    def begin(self, client: socket.socket, opening: Opening, started_ns: int) -> None:
        """Makes the first writes of a stream. Its due times are reckoned from `started_ns`, which may be past."""
        self._metrics.stream_started()
        self._write(Stream(client, opening, started_ns))
        self._arm()

    def _turn(self) -> None:
        """Makes a slice of the writes that are due. The loop takes handoffs before the next slice."""
        self._timer = None
        now_ns = monotonic_ns()
        try:
            for _ in range(self.writes_per_turn):
                stream = self._wheel.pop(now_ns)
                if stream is None:
                    break
                self._write(stream)
        finally:
            self._arm()

    def _arm(self) -> None:
        """Has the loop call when the next stream is due."""
        due_ns = self._wheel.next_due_ns()
        if due_ns is None:
            return
        if self._timer is not None:
            if self._timer_ns <= due_ns:
                return
            self._timer.cancel()
        self._timer_ns = due_ns
        wait_ns = due_ns - monotonic_ns()
        if wait_ns > 0:
            # Whole milliseconds, since uvloop rounds to the nearest, and what is early would have to wait again.
            self._timer = self._loop.call_later(-(-wait_ns // _MS) / 1000, self._turn)
        else:
            self._timer = self._loop.call_soon(self._turn)

    def _write(self, stream: Stream) -> None:
        """Makes the next write of a stream, without waiting; after the head the first event too."""
        data = self._answer.bytes_of(stream.write, stream.opening)
        try:
            sent = self._send(stream.client, data)
        except StreamError as error:
            self._fail(stream, error.reason)
            return
        if sent == len(data):
            self._written(stream)
        else:
            self._blocked[stream] = self._loop.create_task(self._unblock(stream, data[sent:]))

    def _written(self, stream: Stream) -> None:
        """Goes on to the next write, or ends the stream."""
        done, stream.write = stream.write, stream.write + 1
        if done > 0:
            self._metrics.chunks_sent += 1
        if done == 1:
            self._metrics.backend_ttfb.record(monotonic_ns() - stream.due_ns)
        if done == self._answer.last_write:
            self._complete(stream)
        elif done == 0:
            self._write(stream)  # The first event is due with the head.
        else:
            if done == 2:
                stream.opening = None
            stream.due_ns += self._delay_ns
            self._wheel.add(stream)

    def _send(self, client: socket.socket, data: bytes) -> int:
        """Sends what the socket takes at once."""
        try:
            sent = client.send(data, _FLAGS)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise StreamError(reason_of(error)) from error
        self._metrics.bytes_sent += sent
        return sent

    async def _unblock(self, stream: Stream, rest: bytes) -> None:
        """Writes the rest as the client makes room for it. What falls due meanwhile is written after it at once."""
        try:
            async with asyncio.timeout(self._write_timeout_s):
                while rest:
                    await self._writable(stream.client.fileno())
                    rest = rest[self._send(stream.client, rest) :]
        except TimeoutError:
            self._fail(stream, "timeout")
        except StreamError as error:
            self._fail(stream, error.reason)
        else:
            self._written(stream)
            self._arm()
        finally:
            del self._blocked[stream]

    async def _writable(self, descriptor: int) -> None:
        """Waits until the client may have made room."""
        room = self._loop.create_future()
        try:
            self._loop.add_writer(descriptor, _resolve, room)
        except OSError as error:
            raise StreamError("other") from error
        try:
            await room
        finally:
            self._loop.remove_writer(descriptor)

    def _complete(self, stream: Stream) -> None:
        events_after_first = max(self._answer.last_write - 1, 0)
        started_ns = stream.due_ns - events_after_first * self._delay_ns
        self._metrics.stream_completed(monotonic_ns() - started_ns)
        stream.client.close()

    def _fail(self, stream: Stream, reason: str) -> None:
        self._metrics.stream_failed(reason)
        stream.client.close()

    async def cancel(self) -> None:
        """Closes the streams that are still open."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._blocked.values())
        for task in tasks:
            task.cancel()
        for stream in [*self._wheel.clear(), *self._blocked]:
            self._fail(stream, "canceled")
        await asyncio.gather(*tasks, return_exceptions=True)


def tick_ns(delay_ns: int) -> int:
    """How finely due times are told apart: 1/200 of the delay between two events, from 1 to 5 ms.

    What falls due within a tick is written up to a tick late, and lateness never adds up.
    """
    return min(max(delay_ns // 200, _MS), 5 * _MS)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
