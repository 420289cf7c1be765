"""Taking handoffs, and beginning the stream of each."""

import asyncio
import errno
import socket
from collections import deque
from time import monotonic_ns

from streaming_daemon.answer import REFUSAL, Answer
from streaming_daemon.failure import HANDOFF_FAILURES, HandoffError
from streaming_daemon.handoff import Handoff
from streaming_daemon.log import Log
from streaming_daemon.metrics import Metrics
from streaming_daemon.request import DEFAULT, InvalidRequest, Request, parse
from streaming_daemon.stream import WRITES_WHEN_CALM, Streams

# So many handoffs are received before anything else gets a turn: about a millisecond.
_BATCH = 128
# Without a place for them, so many at once: each holds its client's descriptor until it is turned away, and only so
# many are kept free (see `_RESERVED_FILES`).
_BATCH_WITHOUT_PLACES = 16
# In a rush, so many streams begin in a turn, and so many writes are made.
_BEGINNINGS_IN_A_RUSH = 4
_WRITES_IN_A_RUSH = 16
# No rush while more bytes than this wait in payloads.
_MOST_WAITING_BYTES = 16 << 20
_RECEIVE_TIMEOUT_S = 5
# How long nothing is accepted after the process ran out of descriptors. Trying again at once would spin, for the
# connection stays in the queue.
_PAUSE_S = 0.01


class Intake:
    """Accepts from the handoff socket.

    Receiving takes no thread: the message is mostly there when the connection is, so it is read at once without
    waiting; the loop watches the others.

    The accept queue is short (4,096) and a full one refuses handoffs. So a batch that leaves some begins a rush: they
    are received first (14 µs each), while most of what a stream begins with (15 µs and two writes) waits.
    """

    def __init__(
        self, listener: socket.socket, answer: Answer, streams: Streams, capacity: int, metrics: Metrics, log: Log
    ) -> None:
        """Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._is_record = listener.type == socket.SOCK_SEQPACKET
        self._answer = answer
        self._streams = streams
        self._capacity = capacity
        self._metrics = metrics
        self._log = log
        # Handoffs whose senders have not sent everything, each with the timer that gives it up.
        self._waiting: dict[Handoff, asyncio.TimerHandle] = {}
        # Handoffs that are received and whose streams have not begun, and the bytes of their payloads.
        self._received: deque[Handoff] = deque()
        self._received_bytes = 0
        self._is_rushing = False
        self._is_paused = False
        self._turn: asyncio.Handle | None = None
        self._is_stopping = False
        self.is_over = False
        """The socket was shut down, and its accept queue is empty."""

    def start(self) -> None:
        """Begins to accept, or goes on."""
        self._is_paused = False
        if not self.is_over:
            self._loop.add_reader(self._listener.fileno(), self._on_readable)

    def stop(self) -> None:
        """The socket is shut down: accepts what still waits. (A socket that is shut down stays readable.)"""
        self._is_stopping = True

    def _on_readable(self) -> None:
        left_some = not self._accept_batch()
        self._is_rushing = left_some and not self._is_crowded()
        self._begin_some()

    def _is_crowded(self) -> bool:
        """Whether streams have to end before more of them begin. Then the accept queue is left to hold back senders,
        which beats turning clients away."""
        open_now = self._metrics.active_connections
        return open_now > self._capacity - self._capacity // 32 or self._received_bytes > _MOST_WAITING_BYTES

    def _accept_batch(self) -> bool:
        """Receives a batch of handoffs. Returns whether that was all there is to accept now."""
        for _ in range(self._batch()):
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

    def _batch(self) -> int:
        """How many handoffs to receive: for each there is a place, or one of the descriptors that are kept free."""
        places = self._capacity - self._metrics.active_streams - len(self._received)
        return min(_BATCH, max(places + _BATCH_WITHOUT_PLACES, 0))

    def _begin_some(self) -> None:
        """Begins streams of what was received: a few in a rush, else as many as a batch. The rest has its turn."""
        rushing = self._is_rushing
        self._streams.writes_per_turn = _WRITES_IN_A_RUSH if rushing else WRITES_WHEN_CALM
        try:
            for _ in range(min(len(self._received), _BEGINNINGS_IN_A_RUSH if rushing else _BATCH)):
                handoff = self._received.popleft()
                self._received_bytes -= len(handoff.payload)
                self._begin(handoff)
        finally:
            if self._received and self._turn is None:
                self._turn = self._loop.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._turn = None
        self._begin_some()

    def _accept_failed(self, error: OSError) -> None:
        # EINVAL: the socket is shut down.
        if error.errno not in (errno.EAGAIN, errno.EINVAL):
            self._metrics.handoff_errors["out_of_descriptors"] += 1
            self._log.warn(f"accepting: {HANDOFF_FAILURES['out_of_descriptors']} ({error.strerror})")
            self._pause()
        elif self._is_stopping:
            # Nothing waits any more.
            self._loop.remove_reader(self._listener.fileno())
            self.is_over = True

    def _pause(self) -> None:
        if self._is_paused:
            return
        self._is_paused = True
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(_PAUSE_S, self.start)

    def _read(self, handoff: Handoff) -> None:
        """Reads what is there of a handoff, and goes on with it if that is everything."""
        try:
            if handoff.read():
                self._receive(handoff)
            else:
                self._wait(handoff)
        except HandoffError as error:
            self._refuse(handoff, error)

    def _hear(self, handoff: Handoff) -> None:
        """More has come of a handoff that was waited for."""
        self._read(handoff)
        self._begin_some()

    def _wait(self, handoff: Handoff) -> None:
        if handoff in self._waiting:
            return
        try:
            self._loop.add_reader(handoff.fileno(), self._hear, handoff)
        except OSError as error:
            raise HandoffError("other") from error
        self._waiting[handoff] = self._loop.call_later(_RECEIVE_TIMEOUT_S, self._give_up, handoff)

    def _give_up(self, handoff: Handoff) -> None:
        """Its time is over. Half a payload is one that does not parse: the client is served with the defaults."""
        if handoff.has_client():
            self._receive(handoff)
            self._begin_some()
        else:
            self._refuse(handoff, HandoffError("timeout"))

    def _unwatch(self, handoff: Handoff) -> None:
        timer = self._waiting.pop(handoff, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(handoff.fileno())

    def _receive(self, handoff: Handoff) -> None:
        """Hangs up on the sender; the stream begins when its turn comes."""
        self._unwatch(handoff)
        handoff.hang_up()
        handoff.received_ns = monotonic_ns()
        self._received.append(handoff)
        self._received_bytes += len(handoff.payload)

    def _begin(self, handoff: Handoff) -> None:
        """Begins the stream of a handoff, if it is in order and there is a place for it."""
        try:
            client, surplus = handoff.take_client()
        except HandoffError as error:
            self._refuse(handoff, error)
            return
        if surplus:
            self._flaw("surplus_descriptors", f"{surplus} too many")
        request = self._request(handoff.payload)
        self._metrics.handoff_done(handoff.received_ns - handoff.accepted_ns)
        if self._metrics.active_streams < self._capacity:
            self._streams.begin(client, self._answer.opening(request), handoff.received_ns)
        else:
            self._metrics.stream_rejected()
            _turn_away(client)

    def _request(self, payload: bytes) -> Request:
        try:
            return parse(payload)
        except InvalidRequest as error:
            self._flaw("invalid_json", str(error))
            return DEFAULT

    def _flaw(self, reason: str, detail: str) -> None:
        self._metrics.handoff_errors[reason] += 1
        self._log.warn(f"{HANDOFF_FAILURES[reason]}: {detail}")

    def _refuse(self, handoff: Handoff, error: HandoffError) -> None:
        self._unwatch(handoff)
        handoff.close()
        self._metrics.handoff_failed(error.reason)
        if error.reason != "empty":
            self._log.warn(f"handoff refused: {error}")
        if error.reason == "truncated" and not self.is_over:
            self._pause()

    def cancel(self) -> None:
        """Gives up the handoffs whose streams have not begun, and accepts no more."""
        self._loop.remove_reader(self._listener.fileno())
        self.is_over = True
        for handoff in [*self._waiting, *self._received]:
            self._unwatch(handoff)
            handoff.close()
            self._metrics.handoff_failed("canceled")
        self._received.clear()


def _turn_away(client: socket.socket) -> None:
    """Answers 503. A fresh socket takes it at once; to one that does not, the close has to say it."""
    with client:
        try:
            client.send(REFUSAL, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass
