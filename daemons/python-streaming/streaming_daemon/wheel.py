"""The due times of the streams."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streaming_daemon.stream import Stream


class Wheel:
    """Streams by the tick in which they are due.

    Streams that are due within the same tick share one wake-up of the loop. Adding a stream appends it to a list, and
    the heap holds one number per tick, so the cost does not depend on the number of streams. No stream is returned
    before it is due.
    """

    def __init__(self, tick_ns: int) -> None:
        self._tick_ns = tick_ns
        self._ticks: list[int] = []
        self._buckets: dict[int, list[Stream]] = {}
        self._ready: deque[Stream] = deque()

    def add(self, stream: Stream) -> None:
        """Adds a stream, due at `stream.due_ns`."""
        tick = -(-stream.due_ns // self._tick_ns)
        bucket = self._buckets.get(tick)
        if bucket is None:
            self._buckets[tick] = [stream]
            heappush(self._ticks, tick)
        else:
            bucket.append(stream)

    def pop(self, now_ns: int) -> Stream | None:
        """Removes and returns a due stream, the earliest tick first, or None."""
        while not self._ready:
            if not self._ticks or self._ticks[0] * self._tick_ns > now_ns:
                return None
            self._ready.extend(self._buckets.pop(heappop(self._ticks)))
        return self._ready.popleft()

    def next_due_ns(self) -> int | None:
        """Returns the time when `pop` returns the next stream; 0 if one is ready now, None without streams."""
        if self._ready:
            return 0
        return self._ticks[0] * self._tick_ns if self._ticks else None

    def clear(self) -> list[Stream]:
        """Removes and returns all streams."""
        streams = [*self._ready, *(stream for bucket in self._buckets.values() for stream in bucket)]
        self._ready.clear()
        self._buckets.clear()
        self._ticks.clear()
        return streams
