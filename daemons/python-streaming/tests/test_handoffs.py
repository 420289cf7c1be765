"""Errors of handoffs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

import pytest
from support import ANSWER_BYTES, PAYLOAD, DaemonThread, client_pair, is_closed_by_peer, pass_on, read_all

import streaming_daemon.intake
from streaming_daemon.failure import HandoffError
from streaming_daemon.handoff import Handoff


def failures(reason: str) -> str:
    return f'daemon_handoff_errors_total{{reason="{reason}"}}'


def test_a_probe_is_counted_and_harmless(start: Callable[..., DaemonThread], kind: socket.SocketKind) -> None:
    daemon = start(socket_type=kind)
    daemon.connect().close()
    daemon.wait_for(failures("empty"), 1)
    assert len(daemon.answer()) == ANSWER_BYTES
    assert daemon.value("daemon_connections_total") == 2
    assert daemon.value("daemon_active_connections") == 0


def test_the_connection_is_closed_right_after_receiving(start: Callable[..., DaemonThread]) -> None:
    daemon = start(message_delay_ns=3600 * 10**9)
    ours, theirs = client_pair()
    with ours, theirs, daemon.connect() as sender:
        pass_on(sender, PAYLOAD, [theirs])
        assert is_closed_by_peer(sender)


def test_the_daemon_waits_for_a_slow_sender(start: Callable[..., DaemonThread], kind: socket.SocketKind) -> None:
    daemon = start(socket_type=kind)
    with daemon.connect() as slow:
        daemon.wait_for("daemon_active_connections", 1)
        assert len(daemon.answer()) == ANSWER_BYTES
        ours, theirs = client_pair()
        with theirs:
            pass_on(slow, PAYLOAD, [theirs])
        assert len(read_all(ours)) == ANSWER_BYTES


def test_a_silent_sender_times_out(
    start: Callable[..., DaemonThread], kind: socket.SocketKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_daemon.intake, "_RECEIVE_TIMEOUT_S", 0.05)
    daemon = start(socket_type=kind)
    with daemon.connect() as silent:
        assert is_closed_by_peer(silent)
    daemon.wait_for(failures("timeout"), 1)
    assert daemon.value("daemon_active_connections") == 0


def test_an_incomplete_payload_is_served_with_the_defaults_after_the_timeout(
    start: Callable[..., DaemonThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_daemon.intake, "_RECEIVE_TIMEOUT_S", 0.05)
    daemon = start(socket_type=socket.SOCK_STREAM)
    ours, theirs = client_pair()
    with daemon.connect() as sender:
        with theirs:
            pass_on(sender, b'{"user_id":1,', [theirs])
        assert b"User ID: 0" in read_all(ours)
    assert daemon.value(failures("invalid_json")) == 1


def test_a_payload_in_pieces_is_reassembled(start: Callable[..., DaemonThread]) -> None:
    daemon = start(socket_type=socket.SOCK_STREAM)
    ours, theirs = client_pair()
    with daemon.connect() as sender:
        with theirs:
            pass_on(sender, b'{"prompt":"}', [theirs])
        for piece in (b"{", b'}","user_id"', b":77", b"}"):
            sender.sendall(piece)
        # The sender keeps the connection open: the end of the object is the end of the payload.
        assert is_closed_by_peer(sender)
    answer = read_all(ours)
    assert b"Prompt: }{}" in answer and b"User ID: 77" in answer


@pytest.mark.parametrize(("length", "is_fine"), [(10_000, True), (128 * 1024, True), (128 * 1024 + 1, False)])
def test_payloads_have_up_to_128_kib(
    length: int, is_fine: bool, start: Callable[..., DaemonThread], kind: socket.SocketKind
) -> None:
    daemon = start(socket_type=kind)
    payload = b'{"user_id":5,"x":"' + b"a" * (length - 20) + b'"}'
    assert len(payload) == length
    ours, theirs = client_pair()
    # On a stream the daemon may hang up before everything is sent.
    with theirs, daemon.connect() as sender, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pass_on(sender, payload, [theirs])
    answer = read_all(ours)
    assert (b"User ID: 5" in answer) == is_fine
    assert daemon.value(failures("too_large")) == (not is_fine)


def test_a_message_without_descriptor_is_counted(start: Callable[..., DaemonThread], kind: socket.SocketKind) -> None:
    daemon = start(socket_type=kind)
    with daemon.connect() as sender:
        sender.send(PAYLOAD)
        assert is_closed_by_peer(sender)
    daemon.wait_for(failures("no_descriptor"), 1)


def test_of_several_descriptors_the_first_is_served_and_the_others_are_closed(
    start: Callable[..., DaemonThread], kind: socket.SocketKind
) -> None:
    daemon = start(socket_type=kind)
    pairs = [client_pair() for _ in range(3)]
    with daemon.connect() as sender:
        pass_on(sender, PAYLOAD, [theirs for _, theirs in pairs])
    for _, theirs in pairs:
        theirs.close()
    assert [len(read_all(ours)) for ours, _ in pairs] == [ANSWER_BYTES, 0, 0]
    assert daemon.value(failures("surplus_descriptors")) == 1


def test_a_descriptor_of_another_type_is_closed_and_counted(
    start: Callable[..., DaemonThread], kind: socket.SocketKind
) -> None:
    daemon = start(socket_type=kind)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        with os.fdopen(writing, "wb") as end, daemon.connect() as sender:
            pass_on(sender, PAYLOAD, [end])
        assert pipe.read() == b""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs, daemon.connect() as sender:
            pass_on(sender, PAYLOAD, [theirs])
        assert ours.recv(100) == b""
    daemon.wait_for(failures("not_a_stream_socket"), 2)


def test_a_handoff_that_lost_descriptors_is_dropped_with_those_that_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streaming_daemon.handoff._CONTROL_ROOM", socket.CMSG_LEN(2 * 4))
    sender, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = client_pair()
    with sender, ours:
        with theirs:
            pass_on(sender, PAYLOAD, [theirs] * 3)
        handoff = Handoff(connection, is_record=True)
        with pytest.raises(HandoffError) as error:
            handoff.read()
        assert error.value.reason == "truncated"
        handoff.close()
        assert ours.recv(1) == b""


def test_a_message_with_the_maximum_number_of_descriptors_leaves_none_open() -> None:
    sender, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = client_pair()
    with sender, ours:
        with theirs:
            pass_on(sender, PAYLOAD, [theirs] * 253)
        handoff = Handoff(connection, is_record=True)
        assert handoff.read() and handoff.payload == PAYLOAD
        client, surplus = handoff.take_client()
        assert surplus == 252 and not os.get_inheritable(client.fileno())
        client.close()
        assert ours.recv(1) == b""


class EndsFirst:
    """A connection whose first receive reports the end before the message, as the kernel sometimes does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ends = 1

    def recvmsg_into(self, *arguments: object) -> tuple[int, list, int, None]:
        self._ends -= 1
        return (0, [], 0, None) if self._ends == 0 else self._connection.recvmsg_into(*arguments)

    def close(self) -> None:
        self._connection.close()


def test_the_message_is_read_after_a_spurious_end_of_file() -> None:
    sender, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = client_pair()
    with sender, ours, theirs:
        pass_on(sender, PAYLOAD, [theirs])
        handoff = Handoff(EndsFirst(connection), is_record=True)
        assert handoff.read() and handoff.payload == PAYLOAD and handoff.has_client()
        handoff.close()


def test_a_burst_longer_than_a_batch_is_served_completely(
    start: Callable[..., DaemonThread], kind: socket.SocketKind
) -> None:
    daemon = start(socket_type=kind)
    clients = [daemon.hand_over() for _ in range(400)]
    assert {len(read_all(client)) for client in clients} == {ANSWER_BYTES}
    assert daemon.value("daemon_handoffs_total") == 400
    # The kernel's race: see Handoff.read.
    assert daemon.value(failures("empty")) == 0
    assert daemon.value("daemon_active_connections") == 0
