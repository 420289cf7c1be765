"""Taking handoffs, and beginning the stream of each."""

import asyncio
import errno
import socket
from time import monotonic_ns

from streaming_daemon.answer import REFUSAL, Answer
from streaming_daemon.failure import HANDOFF_FAILURES, HandoffError
from streaming_daemon.handoff import Handoff
from streaming_daemon.log import Log
from streaming_daemon.metrics import Metrics
from streaming_daemon.request import DEFAULT, InvalidRequest, Request, parse
from streaming_daemon.stream import Streams

# So many handoffs are taken before writes get a turn: one to two milliseconds.
_BATCH = 64
_RECEIVE_TIMEOUT_S = 5
# How long nothing is accepted after the process ran out of descriptors. Trying again at once would spin, for the
# connection stays in the queue.
_PAUSE_S = 0.01


class Intake:
    """Accepts from the handoff socket.

    Receiving takes no thread: the message is mostly there when the connection is, so it is read at once without
    waiting; the loop watches the others.
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
        self.is_over = False
        """The socket was shut down, and its accept queue is empty."""

    def start(self) -> None:
        """Begins to accept."""
        if not self.is_over:
            self._loop.add_reader(self._listener.fileno(), self._accept_batch)

    def _accept_batch(self) -> None:
        for _ in range(_BATCH):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._stop_accepting(error)
                return
            self._metrics.connection_opened()
            self._read(Handoff(connection, self._is_record))

    def _stop_accepting(self, error: OSError) -> None:
        if error.errno == errno.EINVAL:
            # The socket is shut down, and nothing waits any more.
            self._loop.remove_reader(self._listener.fileno())
            self.is_over = True
            return
        self._metrics.handoff_errors["out_of_descriptors"] += 1
        self._log.warn(f"accepting: {HANDOFF_FAILURES['out_of_descriptors']} ({error.strerror})")
        self._pause()

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(_PAUSE_S, self.start)

    def _read(self, handoff: Handoff) -> None:
        """Reads what is there of a handoff, and goes on with it if that is everything."""
        try:
            payload = handoff.read()
            if payload is None:
                self._wait(handoff)
            else:
                self._finish(handoff, payload)
        except HandoffError as error:
            self._refuse(handoff, error)

    def _wait(self, handoff: Handoff) -> None:
        if handoff in self._waiting:
            return
        try:
            self._loop.add_reader(handoff.fileno(), self._read, handoff)
        except OSError as error:
            raise HandoffError("other") from error
        self._waiting[handoff] = self._loop.call_later(_RECEIVE_TIMEOUT_S, self._give_up, handoff)

    def _give_up(self, handoff: Handoff) -> None:
        """Its time is over. Half a payload is one that does not parse: the client is served with the defaults."""
        try:
            self._finish(handoff, handoff.unfinished())
        except HandoffError as error:
            self._refuse(handoff, error)

    def _unwatch(self, handoff: Handoff) -> None:
        timer = self._waiting.pop(handoff, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(handoff.fileno())

    def _finish(self, handoff: Handoff, payload: bytes) -> None:
        """Begins the stream of a whole handoff, if it is in order and there is a place for it."""
        self._unwatch(handoff)
        client, surplus = handoff.take_client()
        if surplus:
            self._flaw("surplus_descriptors", f"{surplus} too many")
        request = self._request(payload)
        now_ns = monotonic_ns()
        self._metrics.handoff_done(now_ns - handoff.accepted_ns)
        if self._metrics.active_streams < self._capacity:
            self._streams.begin(client, self._answer.opening(request), now_ns)
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
        """Gives up the handoffs that are still waited for, and accepts no more."""
        self._loop.remove_reader(self._listener.fileno())
        self.is_over = True
        for handoff in list(self._waiting):
            self._unwatch(handoff)
            handoff.close()
            self._metrics.handoff_failed("canceled")


def _turn_away(client: socket.socket) -> None:
    """Answers 503. A fresh socket takes it at once; to one that does not, the close has to say it."""
    with client:
        try:
            client.send(REFUSAL, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass
