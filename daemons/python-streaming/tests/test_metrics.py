"""The metrics page."""

from __future__ import annotations

import socket
import time
import urllib.error
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import ANSWER_BYTES, DaemonThread

from streaming_daemon.failure import HANDOFF_FAILURES, STREAM_FAILURES
from streaming_daemon.metrics import Histogram

GAUGES = ("active_connections", "active_streams", "peak_streams")
COUNTERS = (
    *("connections", "connections_rejected", "handoffs", "handoff_errors", "stream_errors", "bytes_sent"),
    *("chunks_sent", "backend_requests", "backend_errors"),
)
HISTOGRAMS = ("handoff_duration", "stream_duration", "backend_duration", "backend_ttfb")
LABELS = {"handoff_errors": "reason", "stream_errors": "reason"} | dict.fromkeys(
    ("backend_requests", "backend_errors", "backend_duration_seconds", "backend_ttfb_seconds"), "backend"
)


def test_every_metric_is_there_from_the_start_with_its_labels(start: Callable[..., DaemonThread]) -> None:
    found = {family.name: family for family in text_string_to_metric_families(start().get())}
    wanted = {f"daemon_{name}": "gauge" for name in GAUGES}
    wanted |= {f"daemon_{name}": "counter" for name in COUNTERS}
    wanted |= {f"daemon_{name}_seconds": "histogram" for name in HISTOGRAMS}
    assert {name: family.type for name, family in found.items()} == wanted
    for name, family in found.items():
        assert family.samples and all(sample.value == 0 for sample in family.samples)
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == ({LABELS[name.removeprefix("daemon_")]} if name.removeprefix("daemon_") in LABELS else set())
    reasons = {sample.labels["reason"] for sample in found["daemon_handoff_errors"].samples}
    assert reasons == set(HANDOFF_FAILURES)
    reasons = {sample.labels["reason"] for sample in found["daemon_stream_errors"].samples}
    assert reasons == set(STREAM_FAILURES)


def test_counters_have_the_documented_names(start: Callable[..., DaemonThread]) -> None:
    page = start().get()
    for name in COUNTERS:
        assert f"# TYPE daemon_{name}_total counter\n" in page


def test_the_page_includes_each_stream_whose_end_the_client_has_seen(start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    for count in range(1, 30):
        assert len(daemon.answer()) == ANSWER_BYTES
        assert daemon.value("daemon_bytes_sent_total") == count * ANSWER_BYTES
    assert daemon.value("daemon_chunks_sent_total") == 29 * 18
    assert daemon.value('daemon_backend_requests_total{backend="mock"}') == 29
    for name in ("daemon_handoff_duration_seconds", "daemon_stream_duration_seconds"):
        assert daemon.value(f"{name}_count") == 29
    for name in ("daemon_backend_duration_seconds", "daemon_backend_ttfb_seconds"):
        assert daemon.value(f'{name}_count{{backend="mock"}}') == 29


def test_the_histograms_contain_the_durations_of_the_streams(start: Callable[..., DaemonThread]) -> None:
    daemon = start(message_delay_ns=2_000_000)
    assert len(daemon.answer()) == ANSWER_BYTES
    assert 0.034 <= daemon.value("daemon_stream_duration_seconds_sum") < 10
    assert daemon.value("daemon_backend_ttfb_seconds_sum" + '{backend="mock"}') < 0.034


def test_the_other_pages(start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    assert daemon.get("/healthz") == "ok\n"
    with pytest.raises(urllib.error.HTTPError) as error:
        daemon.get("/nothing")
    with error.value as answer:
        assert answer.code == 404


def test_an_idle_connection_to_the_pages_does_not_delay_the_shutdown(start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    with socket.create_connection(daemon.daemon.metrics_address):
        assert daemon.get("/healthz") == "ok\n"
        before = time.monotonic()
        daemon.set(daemon.stop)
        daemon.join()
        # It would be given up after 5 s.
        assert time.monotonic() - before < 4


@pytest.mark.parametrize(
    ("request_head", "answer"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 405 "),
        (b"HEAD /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "),
        (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "),
        (b"x" * 100_000 + b"\r\n\r\n", b""),
    ],
)
def test_odd_requests_are_answered(request_head: bytes, answer: bytes, start: Callable[..., DaemonThread]) -> None:
    daemon = start()
    with socket.create_connection(daemon.daemon.metrics_address, timeout=20) as client:
        client.sendall(request_head)
        client.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while part := client.recv(1 << 16):
                got += part
        except ConnectionResetError:
            assert not answer
    assert got.startswith(answer)
    if request_head.startswith(b"HEAD"):
        assert got.endswith(b"\r\n\r\n") and b"Content-Length: 3\r\n" in got
    assert len(daemon.answer()) == ANSWER_BYTES


def test_buckets_are_cumulative_and_include_their_upper_bounds() -> None:
    histogram = Histogram()
    for nanos in (10_000, 10_001, 3_600_000_000_000):
        histogram.record(nanos)
    samples = histogram.family("x", "help", {}).samples
    values = {sample.labels.get("le", sample.name): sample.value for sample in samples}
    assert [values["1e-05"], values["2.5e-05"], values["600.0"], values["+Inf"]] == [1, 2, 2, 3]
    assert values["x_sum"] == 3600.000020001 and values["x_count"] == 3
