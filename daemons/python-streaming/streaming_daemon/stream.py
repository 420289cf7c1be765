"""The open streams, each of which answers one client."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic_ns

from streaming_daemon.answer import Answer, Opening
from streaming_daemon.closing import Closing
from streaming_daemon.failure import StreamError, reason_of
from streaming_daemon.metrics import Metrics
from streaming_daemon.wheel import Wheel

# MSG_DONTWAIT instead of O_NONBLOCK, because O_NONBLOCK belongs to the open file, which the sender shares.
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
WRITES_PER_TURN = 256
"""The maximum number of writes before the loop accepts handoffs: about half a millisecond."""
_MS = 1_000_000


class Stream:
    """A stream between two writes. It costs only this object and the socket.

    A sleeping coroutine would take two kilobytes with its task and timer. The client's socket is not watched: as long
    as its buffer takes the writes, the stream only waits for the next due time. A client that disconnects is noticed
    at the next write.
    """

    __slots__ = ("client", "due_ns", "opening", "write")

    def __init__(self, client: socket.socket, opening: Opening, started_ns: int) -> None:
        self.client = client
        self.opening: Opening | None = opening
        """Released after the second event, so that an idle stream does not keep its prompt in memory."""
        self.due_ns = started_ns
        """The due time of the next write. Lateness does not move it."""
        self.write = 0
        """The number of the next write."""


class Streams:
    """All open streams of the daemon, served from one wheel on the loop."""

    def __init__(self, answer: Answer, delay_ns: int, write_timeout_s: float, metrics: Metrics) -> None:
        """Creates an empty set of streams. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._answer = answer
        self._delay_ns = delay_ns
        self._write_timeout_s = write_timeout_s
        self._metrics = metrics
        self.closing = Closing()
        self._wheel = Wheel(tick_ns(delay_ns))
        self._timer: asyncio.Handle | None = None
        self._timer_ns = 0
        self.writes_per_turn = WRITES_PER_TURN
        # Streams whose clients do not read, each with the task that waits until the socket is writable.
        self._blocked: dict[Stream, asyncio.Task[None]] = {}

    def begin(self, client: socket.socket, opening: Opening, started_ns: int) -> None:
        """Makes the first writes of a stream. Its due times count from `started_ns`, which may be in the past."""
        self._metrics.stream_started()
        self._write(Stream(client, opening, started_ns))
        self._arm()

    def _turn(self) -> None:
        """Makes up to `writes_per_turn` of the due writes. The loop accepts handoffs before the next turn."""
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
        """Sets the timer to the due time of the next stream."""
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
            # Rounded up to milliseconds: uvloop rounds to the nearest, and an early call would have to wait again.
            self._timer = self._loop.call_later(-(-wait_ns // _MS) / 1000, self._turn)
        else:
            self._timer = self._loop.call_soon(self._turn)

    def _write(self, stream: Stream) -> None:
        """Makes the next write of a stream, without blocking; after the head also the first event."""
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
        """Schedules the next write, or ends the stream."""
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
        """Sends without blocking, and returns the number of bytes sent."""
        try:
            sent = client.send(data, _FLAGS)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise StreamError(reason_of(error)) from error
        self._metrics.bytes_sent += sent
        return sent

    async def _unblock(self, stream: Stream, rest: bytes) -> None:
        """Writes the rest as the client reads. Writes that become due meanwhile follow at once."""
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
        """Waits until the socket is writable."""
        writable = self._loop.create_future()
        try:
            self._loop.add_writer(descriptor, _resolve, writable)
        except OSError as error:
            raise StreamError("other") from error
        try:
            await writable
        finally:
            self._loop.remove_writer(descriptor)

    def _complete(self, stream: Stream) -> None:
        events_after_first = max(self._answer.last_write - 1, 0)
        started_ns = stream.due_ns - events_after_first * self._delay_ns
        self._metrics.stream_completed(monotonic_ns() - started_ns)
        self.closing.close(stream.client)

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
        self.closing.cancel()


def tick_ns(delay_ns: int) -> int:
    """Returns the resolution of due times: 1/200 of the delay between two events, from 1 to 5 ms.

    A write may be up to one tick late. Lateness does not accumulate.
    """
    return min(max(delay_ns // 200, _MS), 5 * _MS)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
