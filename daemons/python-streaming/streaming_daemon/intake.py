"""Accepting handoffs, and starting their streams."""

import asyncio
import errno
import logging
import socket
from collections import deque
from time import monotonic_ns

from streaming_daemon.answer import REFUSAL, Answer
from streaming_daemon.failure import HANDOFF_FAILURES, HandoffError
from streaming_daemon.handoff import Handoff
from streaming_daemon.metrics import Metrics
from streaming_daemon.request import DEFAULT, InvalidRequest, Request, parse
from streaming_daemon.stream import WRITES_PER_TURN, Streams

_log = logging.getLogger(__name__)

# The maximum number of handoffs received before the loop does anything else: about a millisecond.
_BATCH = 128
# The batch size when no stream slot is free. Each handoff holds its client's descriptor until the client is turned
# away, and only a few descriptors are reserved for that (see `_RESERVED_FILES`).
_BATCH_WITHOUT_SLOTS = 16
# The streams started and the writes made per turn while the accept queue has a backlog.
_STARTS_UNDER_BACKLOG = 4
_WRITES_UNDER_BACKLOG = 16
# Receiving has no priority while the waiting payloads have more bytes than this.
_MAX_WAITING_BYTES = 16 << 20
_RECEIVE_TIMEOUT_S = 5
# The pause in accepting after the process ran out of descriptors. Retrying at once would spin, because the connection
# stays in the queue.
_PAUSE_S = 0.01


class Intake:
    """Accepts from the handoff socket.

    Receiving needs no thread: the message has usually arrived with the connection, so it is read at once without
    blocking. The loop watches the remaining connections.

    The accept queue is short (4,096) and refuses handoffs when it is full. When a batch does not empty the queue,
    receiving therefore gets priority (14 µs per handoff), and most starts of streams (15 µs and two writes) wait.
    """

    def __init__(
        self, listener: socket.socket, answer: Answer, streams: Streams, capacity: int, metrics: Metrics
    ) -> None:
        """Creates the intake. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._is_record = listener.type == socket.SOCK_SEQPACKET
        self._answer = answer
        self._streams = streams
        self._capacity = capacity
        self._metrics = metrics
        # Handoffs whose message is incomplete, each with its timeout.
        self._waiting: dict[Handoff, asyncio.TimerHandle] = {}
        # Received handoffs whose streams have not started, and the bytes of their payloads.
        self._received: deque[Handoff] = deque()
        self._received_bytes = 0
        self._has_backlog = False
        self._is_paused = False
        self._turn: asyncio.Handle | None = None
        self._is_stopping = False
        self.is_over = False
        """True once the socket is shut down and its accept queue is empty."""

    def start(self) -> None:
        """Starts or resumes accepting."""
        self._is_paused = False
        if not self.is_over:
            self._loop.add_reader(self._listener.fileno(), self._on_readable)

    def stop(self) -> None:
        """Accepts only what is still in the queue. The socket must be shut down; it stays readable."""
        self._is_stopping = True

    def _on_readable(self) -> None:
        is_queue_empty = self._accept_batch()
        self._has_backlog = not is_queue_empty and not self._is_near_capacity()
        self._start_streams()

    def _is_near_capacity(self) -> bool:
        """Returns whether streams must end before more of them start. Then senders are left in the accept queue,
        which is better than turning clients away."""
        open_now = self._metrics.active_connections
        return open_now > self._capacity - self._capacity // 32 or self._received_bytes > _MAX_WAITING_BYTES

    def _accept_batch(self) -> bool:
        """Receives a batch of handoffs. Returns whether there is nothing more to accept now."""
        for _ in range(self._batch_size()):
            if self._is_paused:
                return True
            try:
                connection, _ = self._listener.accept()
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._accept_failed(error)
                return True
            self._metrics.connection_opened()
            self._read(Handoff(connection, self._is_record))
        return False

    def _batch_size(self) -> int:
        """Returns the number of handoffs to receive. Each has a free stream slot or a reserved descriptor."""
        slots = self._capacity - self._metrics.active_streams - len(self._received)
        return min(_BATCH, max(slots + _BATCH_WITHOUT_SLOTS, 0))

    def _start_streams(self) -> None:
        """Starts streams of received handoffs: a few under backlog, else up to a batch. The rest is scheduled."""
        has_backlog = self._has_backlog
        self._streams.writes_per_turn = _WRITES_UNDER_BACKLOG if has_backlog else WRITES_PER_TURN
        try:
            for _ in range(min(len(self._received), _STARTS_UNDER_BACKLOG if has_backlog else _BATCH)):
                handoff = self._received.popleft()
                self._received_bytes -= len(handoff.payload)
                self._start_stream(handoff)
        finally:
            if self._received and self._turn is None:
                self._turn = self._loop.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._turn = None
        self._start_streams()

    def _accept_failed(self, error: OSError) -> None:
        # EINVAL: the socket is shut down.
        if error.errno not in (errno.EAGAIN, errno.EINVAL):
            self._metrics.handoff_errors["out_of_descriptors"] += 1
            _log.warning("accepting: %s (%s)", HANDOFF_FAILURES["out_of_descriptors"], error.strerror)
            self._pause()
        elif self._is_stopping:
            # The queue is empty.
            self._loop.remove_reader(self._listener.fileno())
            self.is_over = True

    def _pause(self) -> None:
        if self._is_paused:
            return
        self._is_paused = True
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(_PAUSE_S, self.start)

    def _read(self, handoff: Handoff) -> None:
        """Reads the available data of a handoff, and proceeds if it is complete."""
        try:
            if handoff.read():
                self._receive(handoff)
            else:
                self._wait(handoff)
        except HandoffError as error:
            self._refuse(handoff, error)

    def _on_sender_readable(self, handoff: Handoff) -> None:
        """Reads more data of a handoff that was incomplete."""
        self._read(handoff)
        self._start_streams()

    def _wait(self, handoff: Handoff) -> None:
        if handoff in self._waiting:
            return
        try:
            self._loop.add_reader(handoff.fileno(), self._on_sender_readable, handoff)
        except OSError as error:
            raise HandoffError("other") from error
        self._waiting[handoff] = self._loop.call_later(_RECEIVE_TIMEOUT_S, self._give_up, handoff)

    def _give_up(self, handoff: Handoff) -> None:
        """Handles the timeout of a handoff. A client whose payload is incomplete is served with the defaults."""
        if handoff.has_client():
            self._receive(handoff)
            self._start_streams()
        else:
            self._refuse(handoff, HandoffError("timeout"))

    def _unwatch(self, handoff: Handoff) -> None:
        timer = self._waiting.pop(handoff, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(handoff.fileno())

    def _receive(self, handoff: Handoff) -> None:
        """Closes the connection of the sender, and queues the handoff for the start of its stream."""
        self._unwatch(handoff)
        handoff.hang_up()
        handoff.received_ns = monotonic_ns()
        self._received.append(handoff)
        self._received_bytes += len(handoff.payload)

    def _start_stream(self, handoff: Handoff) -> None:
        """Starts the stream of a handoff if it is valid and a slot is free."""
        try:
            client, surplus = handoff.take_client()
        except HandoffError as error:
            self._refuse(handoff, error)
            return
        if surplus:
            self._anomaly("surplus_descriptors", f"{surplus} too many")
        request = self._request(handoff.payload)
        self._metrics.handoff_done(handoff.received_ns - handoff.accepted_ns)
        if self._metrics.active_streams < self._capacity:
            self._streams.begin(client, self._answer.opening(request), handoff.received_ns)
        else:
            self._metrics.stream_rejected()
            self._turn_away(client)

    def _turn_away(self, client: socket.socket) -> None:
        """Answers 503. A fresh socket takes the answer at once; if it does not, the client only sees the close. More
        may be on its way from a client that has just connected."""
        try:
            client.send(REFUSAL, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass
        self._streams.closing.linger(client)

    def _request(self, payload: bytes) -> Request:
        try:
            return parse(payload)
        except InvalidRequest as error:
            self._anomaly("invalid_json", str(error))
            return DEFAULT

    def _anomaly(self, reason: str, detail: str) -> None:
        """Counts and logs an irregularity of a handoff that leads to a stream nevertheless."""
        self._metrics.handoff_errors[reason] += 1
        _log.warning("%s: %s", HANDOFF_FAILURES[reason], detail)

    def _refuse(self, handoff: Handoff, error: HandoffError) -> None:
        self._unwatch(handoff)
        handoff.close()
        self._metrics.handoff_failed(error.reason)
        if error.reason != "empty":
            _log.warning("handoff refused: %s", error)
        if error.reason == "truncated" and not self.is_over:
            self._pause()

    def cancel(self) -> None:
        """Drops the handoffs whose streams have not started, and stops accepting."""
        self._loop.remove_reader(self._listener.fileno())
        self.is_over = True
        for handoff in [*self._waiting, *self._received]:
            self._unwatch(handoff)
            handoff.close()
            self._metrics.handoff_failed("canceled")
        self._received.clear()
