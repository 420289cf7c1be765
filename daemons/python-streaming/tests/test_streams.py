"""The pacing and the end of streams."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import ANSWER_BYTES, PAYLOAD, DaemonThread, client_pair, is_closed_by_peer, pass_on, read_all

from streaming_daemon.answer import REFUSAL, Answer
from streaming_daemon.metrics import Metrics
from streaming_daemon.request import parse
from streaming_daemon.stream import Stream, Streams
from streaming_daemon.wheel import Wheel

MS = 1_000_000


class RecordingClient:
    """A client that records the writes and their times."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, bytes]] = []
        self.is_closed = False

    def send(self, data: bytes, flags: int) -> int:
        assert flags & socket.MSG_DONTWAIT, "a blocking client would delay all streams"
        self.writes.append((time.monotonic_ns(), data))
        return len(data)

    def recv(self, size: int, flags: int) -> bytes:
        raise BlockingIOError

    def close(self) -> None:
        self.is_closed = True


def run_to_the_end(delay_ns: int, clients: int, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> list:
    """Serves clients, and returns each with the start time of its stream."""

    async def serve() -> list[tuple[int, RecordingClient]]:
        answer = Answer(18)
        streams = Streams(answer, delay_ns, 30, Metrics())
        begun = []
        for _ in range(clients):
            client, now_ns = RecordingClient(), time.monotonic_ns()
            streams.begin(client, answer.opening(parse(PAYLOAD)), now_ns)
            begun.append((now_ns, client))
            await asyncio.sleep(0.003)
        while not all(client.is_closed for _, client in begun):
            await asyncio.sleep(0.001)
        return begun

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(asyncio.wait_for(serve(), 20))


def test_the_head_and_each_event_are_one_write_and_none_is_early(
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    delay_ns = 7 * MS
    for start_ns, client in run_to_the_end(delay_ns, 5, loop_factory):
        assert len(client.writes) == 19
        for write, (at_ns, data) in enumerate(client.writes):
            assert data.startswith(b"data: " if write else b"HTTP/1.1 200 OK\r\n")
            assert at_ns >= start_ns + max(write - 1, 0) * delay_ns, write


def test_lateness_does_not_move_later_due_times(monkeypatch: pytest.MonkeyPatch) -> None:
    added, dues = Wheel.add, []
    monkeypatch.setattr(Wheel, "add", lambda wheel, stream: (dues.append(stream.due_ns), added(wheel, stream)))

    async def serve() -> int:
        answer, client = Answer(18), RecordingClient()
        start_ns = time.monotonic_ns()
        Streams(answer, 2 * MS, 30, Metrics()).begin(client, answer.opening(parse(PAYLOAD)), start_ns)
        await asyncio.sleep(0)
        # Blocks the loop for half of the stream.
        time.sleep(0.017)
        while not client.is_closed:
            await asyncio.sleep(0.001)
        return start_ns

    start_ns = asyncio.run(asyncio.wait_for(serve(), 20))
    assert dues == [start_ns + event * 2 * MS for event in range(1, 18)]


def test_the_wheel_yields_nothing_early_and_the_earliest_first() -> None:
    wheel = Wheel(MS)
    streams = [Stream(None, (b"", b"", b""), due) for due in (3 * MS, MS + 1, 2 * MS + 5, MS)]
    for stream in streams:
        wheel.add(stream)
    assert wheel.pop(MS - 1) is None
    assert wheel.pop(MS) is streams[3]
    assert wheel.pop(MS) is None
    assert wheel.next_due_ns() == 2 * MS
    assert [wheel.pop(9 * MS) for _ in range(4)] == [streams[1], streams[0], streams[2], None]
    assert wheel.next_due_ns() is None


def test_at_the_limit_clients_are_answered_503_until_a_slot_is_free(start: Callable[..., DaemonThread]) -> None:
    daemon = start(max_connections=2, message_delay_ns=3600 * 10**9)
    with daemon.hand_over() as first, daemon.hand_over() as second:
        assert first.recv(1) == second.recv(1) == b"H"
        assert daemon.answer() == REFUSAL
        assert daemon.value("daemon_connections_rejected_total") == 1
        assert daemon.value("daemon_active_streams") == daemon.value("daemon_peak_streams") == 2
        assert daemon.value("daemon_handoffs_total") == 3


def test_the_end_of_a_stream_frees_its_slot(start: Callable[..., DaemonThread]) -> None:
    daemon = start(max_connections=1)
    for _ in range(5):
        assert len(daemon.answer()) == ANSWER_BYTES
    assert daemon.value("daemon_active_connections") == 0


def test_a_client_that_disconnected_is_counted_at_the_next_write(start: Callable[..., DaemonThread]) -> None:
    daemon = start(message_delay_ns=5 * MS)
    daemon.hand_over().close()
    daemon.wait_for('daemon_stream_errors_total{reason="client_disconnected"}', 1)
    assert daemon.value("daemon_active_streams") == 0
    assert len(daemon.answer()) == ANSWER_BYTES


def narrow_pair() -> tuple[socket.socket, socket.socket]:
    """Returns both ends of a client socket whose buffer is full until the first end reads."""
    ours, theirs = client_pair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    try:
        while True:
            theirs.send(b"x" * 64, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return ours, theirs


def test_a_client_that_does_not_read_delays_no_others_and_is_served_once_it_reads(
    start: Callable[..., DaemonThread],
) -> None:
    daemon = start()
    ours, theirs = narrow_pair()
    with theirs, daemon.connect() as sender:
        pass_on(sender, PAYLOAD, [theirs])
    for _ in range(20):
        assert len(daemon.answer()) == ANSWER_BYTES
    assert daemon.value("daemon_active_streams") == 1
    assert read_all(ours).lstrip(b"x")[:8] == b"HTTP/1.1"
    daemon.wait_for("daemon_stream_duration_seconds_count", 21)
    assert daemon.value("daemon_bytes_sent_total") == 21 * ANSWER_BYTES


def test_the_socket_of_the_client_stays_blocking(start: Callable[..., DaemonThread]) -> None:
    daemon = start(message_delay_ns=3600 * 10**9)
    ours, theirs = client_pair()
    with ours, theirs, daemon.connect() as sender:
        pass_on(sender, PAYLOAD, [theirs])
        assert ours.recv(1) == b"H"
        flags = Path(f"/proc/self/fdinfo/{theirs.fileno()}").read_text().split("flags:")[1].split()[0]
        assert not int(flags, 8) & socket.SOCK_NONBLOCK


def test_a_write_that_takes_too_long_ends_the_stream(start: Callable[..., DaemonThread]) -> None:
    daemon = start(write_timeout_ns=30 * MS)
    ours, theirs = narrow_pair()
    with ours, daemon.connect() as sender:
        with theirs:
            pass_on(sender, PAYLOAD, [theirs])
        daemon.wait_for('daemon_stream_errors_total{reason="timeout"}', 1)
        assert set(read_all(ours)) == {ord("x")}


def test_a_client_that_disconnects_during_a_blocked_write_is_counted(start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    ours, theirs = narrow_pair()
    with theirs, daemon.connect() as sender:
        pass_on(sender, PAYLOAD, [theirs])
        daemon.wait_for("daemon_active_streams", 1)
    ours.close()
    daemon.wait_for('daemon_stream_errors_total{reason="client_disconnected"}', 1)


def test_an_unexpected_error_ends_one_stream_and_not_the_daemon() -> None:
    class BrokenClient(RecordingClient):
        def send(self, data: bytes, flags: int) -> int:
            if self.writes:
                raise RuntimeError("a bug")
            return super().send(data, flags)

    async def serve() -> RecordingClient:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        answer, good = Answer(18), RecordingClient()
        streams = Streams(answer, MS, 30, Metrics())
        opening = answer.opening(parse(PAYLOAD))
        with pytest.raises(RuntimeError):
            streams.begin(BrokenClient(), opening, time.monotonic_ns())
        streams.begin(good, opening, time.monotonic_ns())
        while not good.is_closed:
            await asyncio.sleep(0.001)
        return good

    assert len(asyncio.run(asyncio.wait_for(serve(), 20)).writes) == 19


def test_an_unconnected_client_is_counted_as_disconnected(start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    unconnected = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with unconnected, daemon.connect() as sender:
        pass_on(sender, PAYLOAD, [unconnected])
        assert is_closed_by_peer(sender)
    # Linux returns EPIPE, as if the client had disconnected.
    daemon.wait_for('daemon_stream_errors_total{reason="client_disconnected"}', 1)
