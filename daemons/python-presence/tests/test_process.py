"""The program: options, signals, exit codes."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support import connected

from presence_daemon.options import Config, parse_options


@contextmanager
def launched() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "presence_daemon", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            line = daemon.stderr.readline().split()
            assert line[:2] == ["listening", "on"], line
            yield daemon, line[2]
        finally:
            daemon.kill()


def test_sigterm_disconnects_clients_and_ends_with_0() -> None:
    async def check(daemon: subprocess.Popen[str], url: str) -> None:
        async with connected(url) as (web,), connected(url, 1, ["polling"]) as (polling,):
            await web.join("r", "u")
            await polling.join("r", "v")
            daemon.send_signal(signal.SIGTERM)
            for client in (web, polling):
                await asyncio.wait_for(client.disconnected.wait(), 20)

    with launched() as (daemon, url):
        half = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
        half.sendall(b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n")
        asyncio.run(check(daemon, url))
        assert daemon.wait(20) == 0
        assert daemon.stderr.read() == ""
        half.close()


def test_a_port_in_use_ends_with_1() -> None:
    with launched() as (_, url):
        command = [sys.executable, "-m", "presence_daemon", "--port", url.rpartition(":")[2]]
        second = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert second.returncode == 1
    assert "the daemon failed" in second.stderr


def test_a_flag_overrides_a_variable_and_a_variable_the_default() -> None:
    config = parse_options(["--port", "1"], {"PORT": "2", "PRESENCE_TTL_MS": "500"}, "")
    assert config == Config(host="127.0.0.1", port=1, ttl_ms=500, reaper_interval_ms=3_000)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--port", "65536"], "`65536` is not a whole number from 0 to 65535. The environment variable is PORT."),
        (["--ttl-ms", "0"], "PRESENCE_TTL_MS"),
        (["--reaper-interval-ms", "1e3"], "`1e3` is not a whole number"),
    ],
)
def test_a_wrong_option_ends_with_2_and_the_remedy(
    arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        parse_options(arguments, {}, "")
    assert error.value.code == 2
    assert part in capsys.readouterr().err
