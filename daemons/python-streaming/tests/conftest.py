"""Fixtures of the tests."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import DaemonThread, config

try:
    import uvloop
except ImportError:
    uvloop = None


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Runs a test on each of the two loops."""
    if request.param == "asyncio":
        return None
    if uvloop is None:
        assert os.environ.get("DROVER_REQUIRE_ALL") != "1", "uvloop is not installed"
        pytest.skip("uvloop is not installed")
    return uvloop.new_event_loop


@pytest.fixture(params=[socket.SOCK_SEQPACKET, socket.SOCK_STREAM], ids=["seqpacket", "stream"])
def kind(request: pytest.FixtureRequest) -> socket.SocketKind:
    """Runs a test on each type of the handoff socket."""
    return request.param


@pytest.fixture
def start(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> Iterator[Callable[..., DaemonThread]]:
    """Starts daemons with changes to the configuration, and stops them after the test."""
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(DaemonThread(config(tmp_path, **changes), loop_factory))
