"""The transcript that all streaming daemons share."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from support import FOLDER, DaemonThread, pass_on, read_all

from streaming_daemon.answer import Answer
from streaming_daemon.request import DEFAULT, InvalidRequest, parse

CASES = json.loads((FOLDER.parent / "fdpass.golden.json").read_text())["cases"]
BY_MESSAGES = [(count, list(cases)) for count, cases in groupby(CASES, lambda case: case["messages"])]


def payload_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["payload_hex"]) if "payload_hex" in case else case["payload"].encode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_each_write_has_the_bytes_of_the_transcript(case: dict[str, Any]) -> None:
    try:
        request, is_invalid = parse(payload_of(case)), False
    except InvalidRequest:
        request, is_invalid = DEFAULT, True
    answer = Answer(case["messages"])
    opening = answer.opening(request)
    writes = [answer.bytes_of(write, opening if write < 3 else None) for write in range(answer.last_write + 1)]
    assert is_invalid == case["invalid"]
    assert [write.decode() for write in writes] == case["answer"]


@pytest.mark.parametrize(("messages", "cases"), BY_MESSAGES, ids=lambda value: value if isinstance(value, int) else "")
def test_the_daemon_answers_as_the_transcript_says(
    messages: int, cases: list[dict[str, Any]], start: Callable[..., DaemonThread], kind: socket.SocketKind
) -> None:
    daemon = start(socket_type=kind, message_count=messages)
    invalid = 0
    for case in cases:
        assert daemon.answer(payload_of(case)).decode() == "".join(case["answer"]), case["name"]
        invalid += case["invalid"]
        assert daemon.daemon.metrics.handoff_errors["invalid_json"] == invalid, case["name"]
    assert daemon.value('daemon_handoff_errors_total{reason="invalid_json"}') == invalid
    assert daemon.value("daemon_bytes_sent_total") == sum(len("".join(case["answer"]).encode()) for case in cases)
    assert daemon.value("daemon_chunks_sent_total") == messages * len(cases)


def test_tcp_clients_are_served_too(start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    with socket.create_server(("127.0.0.1", 0)) as server, daemon.connect() as sender:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with theirs:
            pass_on(sender, payload_of(CASES[0]), [theirs])
        assert read_all(ours).decode() == "".join(CASES[0]["answer"])
