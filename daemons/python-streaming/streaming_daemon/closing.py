"""Closing clients, so that none loses the end of its answer."""

import asyncio
import socket

_LINGER_S = 2
"""The time for a client to read the end of its answer and to close."""
_MAX_LINGERING = 32
"""The maximum number of clients that are closed with a delay: they use reserved descriptors."""


class Closing:
    """The clients that may still read the end of their answer."""

    def __init__(self) -> None:
        """Creates an empty set. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}

    @property
    def is_over(self) -> bool:
        """True if all clients are closed."""
        return not self._timers

    def close(self, client: socket.socket) -> None:
        """Closes a client. If it has sent data that nobody has read, a close would be a reset, so it lingers."""
        try:
            has_unread = client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except OSError:
            has_unread = False
        if has_unread:
            self.linger(client)
        else:
            client.close()

    def linger(self, client: socket.socket) -> None:
        """Shuts down the sending side, and closes when the client has closed or its time is over. Received data is
        dropped."""
        if len(self._timers) == _MAX_LINGERING:
            client.close()
            return
        try:
            client.shutdown(socket.SHUT_WR)
            self._loop.add_reader(client.fileno(), self._read, client)
        except OSError:
            client.close()
            return
        self._timers[client] = self._loop.call_later(_LINGER_S, self._end, client)

    def _read(self, client: socket.socket) -> None:
        try:
            is_end = client.recv(4096, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return
        except OSError:
            is_end = True
        if is_end:
            self._end(client)

    def _end(self, client: socket.socket) -> None:
        self._timers.pop(client).cancel()
        self._loop.remove_reader(client.fileno())
        client.close()

    def cancel(self) -> None:
        """Closes the clients that are still open."""
        for client in list(self._timers):
            self._end(client)
