"""The command line."""

from __future__ import annotations

import logging
import re
import socket
import time
from pathlib import Path

import pytest

from streaming_daemon.duration import parse_duration
from streaming_daemon.log import RateLimit
from streaming_daemon.options import Config, parse_options


def parse(*arguments: str, **variables: str) -> Config:
    return parse_options(arguments, variables, "version")


def test_the_defaults() -> None:
    config = parse()
    assert (config.socket_path, config.socket_mode) == (Path("/var/run/streaming-daemon.sock"), 0o660)
    assert (config.socket_type, config.metrics_addr) == (socket.SOCK_SEQPACKET, ("127.0.0.1", 9090))
    assert (config.max_connections, config.message_count, config.message_delay_ns) == (100_000, 18, 50_000_000)
    assert (config.write_timeout_ns, config.shutdown_grace_ns) == (30 * 10**9, 30 * 10**9)
    assert config.backlog >= 4096 and not config.is_benchmark


def test_the_documented_flags() -> None:
    config = parse("-s", "/a", "-m", "666", "-w", "7", "-d", "12.5", "-b", "9")
    assert (config.socket_path, config.socket_mode, config.workers) == (Path("/a"), 0o666, 7)
    assert (config.message_delay_ns, config.backlog) == (12_500_000, 9)
    assert parse("--delay", "0").message_delay_ns == 0


def test_flags_take_precedence_over_variables() -> None:
    config = parse(DAEMON_SOCKET_TYPE="stream", DAEMON_MESSAGE_DELAY="1ns", DAEMON_BENCHMARK="yes")
    assert (config.socket_type, config.message_delay_ns) == (socket.SOCK_STREAM, 1)
    assert config.is_benchmark and config.metrics_addr is None
    assert parse("--message-delay", "5ms", DAEMON_MESSAGE_DELAY="1ns").message_delay_ns == 5_000_000
    assert parse("-d", "5", DAEMON_MESSAGE_DELAY="nonsense").message_delay_ns == 5_000_000
    assert parse("--socket-path", "/b", DAEMON_SOCKET_PATH="/a").socket_path == Path("/b")
    assert parse(DAEMON_METRICS_ENABLED="false").metrics_addr is None


@pytest.mark.parametrize(
    ("flag", "variable", "value", "remedy"),
    [
        ("--socket", "DAEMON_SOCKET_PATH", "", "name a path"),
        ("--socket-mode", "DAEMON_SOCKET_MODE", "rw", "0660"),
        ("--socket-mode", "DAEMON_SOCKET_MODE", "7777", "0660"),
        ("--socket-type", "DAEMON_SOCKET_TYPE", "dgram", "seqpacket"),
        ("--backlog", "DAEMON_BACKLOG", "0", "from 1"),
        ("--max-connections", "DAEMON_MAX_CONNECTIONS", "many", "from 1"),
        ("--max-connections", "DAEMON_MAX_CONNECTIONS", "1_000", "from 1"),
        ("--backend-provider", "DAEMON_BACKEND_PROVIDER", "openai", "mock"),
        ("--metrics-addr", "DAEMON_METRICS_ADDR", "9090", "127.0.0.1:9090"),
        ("--socket", "DAEMON_SOCKET_PATH", "@a", "abstract sockets"),
        ("--metrics-addr", "DAEMON_METRICS_ADDR", "127.0.0.1:99999", "127.0.0.1:9090"),
        ("--metrics-enabled", "DAEMON_METRICS_ENABLED", "5", "true or false"),
        ("--message-count", "DAEMON_MESSAGE_COUNT", "-1", "from 0"),
        ("--message-delay", "DAEMON_MESSAGE_DELAY", "5", "50ms"),
        ("--write-timeout", "DAEMON_WRITE_TIMEOUT", "0", "30s"),
        ("--shutdown-grace", "DAEMON_SHUTDOWN_GRACE", "soon", "50ms"),
        ("--workers", "DAEMON_WORKERS", "0", "from 1"),
        ("--benchmark", "DAEMON_BENCHMARK", "maybe", "true or false"),
        ("--message-delay", "DAEMON_MESSAGE_DELAY", "2562047h", "lower"),
    ],
)
def test_an_invalid_value_is_reported_with_option_variable_and_remedy(
    flag: str, variable: str, value: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, variables in (((f"{flag}={value}",), {}), ((), {variable: value})):
        with pytest.raises(SystemExit) as exit_:
            parse(*arguments, **variables)
        complaint = " ".join(capsys.readouterr().err.split("error:")[1].split())
        assert exit_.value.code == 2
        assert all(word in complaint for word in (flag, variable, remedy)), complaint


def test_every_option_has_its_variable_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    help_text = " ".join(capsys.readouterr().out.split())
    assert len(set(re.findall(r"\[(DAEMON_[A-Z_]+)", help_text))) == 14
    assert "No effect" in help_text


def test_durations_are_parsed_as_in_go() -> None:
    for text, nanos in {
        "0": 0,
        "0s": 0,
        "1ns": 1,
        "5625ms": 5_625_000_000,
        "1m30s": 90_000_000_000,
        "1.5s": 1_500_000_000,
        ".5s": 500_000_000,
        "1h2m3s4ms5us6ns": 3_723_004_005_006,
        "7µs": 7_000,
        "7μs": 7_000,
    }.items():
        assert parse_duration(text) == nanos


@pytest.mark.parametrize("text", ["", "5", "ms", "-1s", "1s ", "1 s", "1.2.3s", "1d", "1e3s", "s1", ".s", "٣s"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="50ms"):
        parse_duration(text)


def test_a_flood_of_warnings_is_limited_and_the_suppressed_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = RateLimit()

    def log(second: float, level: int = logging.WARNING) -> str | None:
        """Returns the line that is written, if any."""
        monkeypatch.setattr(time, "monotonic", lambda: second)
        record = logging.LogRecord("", level, "", 1, "%d", (9,), None)
        return record.getMessage() if limit.filter(record) else None

    assert [log(7.5) for _ in range(100)] == ["9"] * 5 + [None] * 95
    assert log(7.5, logging.ERROR) == "9"
    assert [log(8.0), log(8.0)] == ["9 (95 earlier lines were left out)", "9"]
