"""Reading a handoff connection: one message with a payload and the client's socket."""

import array
import os
import socket
from time import monotonic_ns

from streaming_daemon.failure import HandoffError, reason_of
from streaming_daemon.request import PAYLOAD_LIMIT, IncompleteRequest, InvalidRequest, parse

# Space for 253 descriptors, the maximum in one message on Linux (SCM_MAX_FD).
_CONTROL_ROOM = socket.CMSG_SPACE(253 * 4)
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC

# One byte longer than the limit, to detect a payload that is too long. All handoffs share it: its content is copied.
_buffer = memoryview(bytearray(PAYLOAD_LIMIT + 1))


class Handoff:
    """An accepted handoff connection, and the data received from it."""

    __slots__ = ("_connection", "_descriptors", "_is_record", "_saw_end", "accepted_ns", "payload", "received_ns")

    def __init__(self, connection: socket.socket, is_record: bool) -> None:
        """Wraps a connection. `is_record`: it is a SOCK_SEQPACKET, on which one record is one handoff."""
        self._connection = connection
        self._is_record = is_record
        self._descriptors = array.array("i")
        self._saw_end = False
        self.accepted_ns = monotonic_ns()
        self.payload = b""
        """The part of the payload received so far."""
        self.received_ns = 0
        """The time when the payload was complete and the connection closed. Due times of the stream count from here."""

    def fileno(self) -> int:
        """Returns the descriptor of the connection, for the event loop."""
        return self._connection.fileno()

    def has_client(self) -> bool:
        """Returns whether a descriptor has been received."""
        return len(self._descriptors) > 0

    def read(self) -> bool:
        """Reads the available data. Returns whether the payload is complete.

        On `SOCK_STREAM` nothing marks the end of the payload, because the sender may keep the connection open until
        the daemon closes it. There a payload is complete unless it is the beginning of a JSON object.
        """
        while True:
            try:
                length, ancillary, flags, _ = self._connection.recvmsg_into([_buffer], _CONTROL_ROOM, _FLAGS)
            except BlockingIOError:
                return False
            except OSError as error:
                raise HandoffError(reason_of(error)) from error
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self._descriptors.frombytes(data[: len(data) & ~3])
            self._add(length, flags)
            is_end = length == 0 and not ancillary
            if is_end and not self._saw_end:
                # On a SEQPACKET socket the first end of file may be spurious: the kernel looks for a message and
                # finds none, then the sender sends and closes, and then the kernel sees that the sender has closed.
                # The second attempt returns the message.
                self._saw_end = True
            elif is_end and not self.payload and not self._descriptors:
                raise HandoffError("empty")
            elif is_end or self._is_record or _is_complete(self.payload):
                return True

    def _add(self, length: int, flags: int) -> None:
        if flags & socket.MSG_CTRUNC:
            raise HandoffError("truncated")
        if flags & socket.MSG_TRUNC or len(self.payload) + length > PAYLOAD_LIMIT:
            raise HandoffError("too_large")
        self.payload += _buffer[:length]

    def hang_up(self) -> None:
        """Closes the connection. The sender gets no other reply."""
        self._connection.close()

    def take_client(self) -> tuple[socket.socket, int]:
        """Returns the client's socket and the number of surplus descriptors, which are closed."""
        if not self._descriptors:
            raise HandoffError("no_descriptor")
        client = _stream_socket(self._descriptors.pop(0))
        surplus = len(self._descriptors)
        self.close()
        return client, surplus

    def close(self) -> None:
        """Closes the connection and the received descriptors that were not taken."""
        self._connection.close()
        while self._descriptors:
            os.close(self._descriptors.pop())


def _is_complete(payload: bytes) -> bool:
    try:
        parse(payload)
    except IncompleteRequest:
        return False
    except InvalidRequest:
        return True
    return True


def _stream_socket(descriptor: int) -> socket.socket:
    try:
        client = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise HandoffError("not_a_stream_socket") from None
    if client.type != socket.SOCK_STREAM:
        client.close()
        raise HandoffError("not_a_stream_socket")
    if client.family != socket.AF_UNIX:
        _send_at_once(client)
    return client


def _send_at_once(client: socket.socket) -> None:
    """Disables Nagle's algorithm, which would hold the second event until the first is acknowledged, up to 40 ms."""
    try:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        pass  # Other kinds of sockets refuse the option and do not need it.
