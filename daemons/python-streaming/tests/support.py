"""Daemons to test, on a thread or as processes of their own, and senders for them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from streaming_daemon.daemon import Daemon
from streaming_daemon.options import Config, parse_options

FOLDER = Path(__file__).parent.parent
PAYLOAD = b'{"prompt":"benchmark test","user_id":1}'
ANSWER_BYTES = 1226
PATIENCE_S = 20
"""A generous limit for what takes milliseconds."""


def config(folder: Path, **changes: object) -> Config:
    """A configuration for tests: no delay, any free port."""
    arguments = ["--socket", str(folder / "handoff.sock"), "--metrics-addr", "127.0.0.1:0"]
    return replace(parse_options(arguments, {}, ""), **{"message_delay_ns": 0, **changes})


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Waits for a condition."""
    limit = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < limit, f"waited in vain until {what}"
        time.sleep(0.002)


def metric(page: str, sample: str) -> float:
    """The value of one sample, written as on the page."""
    return float(re.search(rf"^{re.escape(sample)} (.*)$", page, re.MULTILINE)[1])


class Senders:
    """What a sender does to the daemon that listens on `path`."""

    path: Path
    kind: socket.SocketKind = socket.SOCK_SEQPACKET

    def connect(self) -> socket.socket:
        """A handoff connection."""
        sender = socket.socket(socket.AF_UNIX, self.kind)
        try:
            sender.connect(str(self.path))
        except OSError:
            sender.close()
            raise
        sender.settimeout(PATIENCE_S)
        return sender

    def hand_over(self, payload: bytes = PAYLOAD) -> socket.socket:
        """Hands a client over; returns our end of it."""
        with self.connect() as sender:
            ours, theirs = client_pair()
            with theirs:
                pass_on(sender, payload, [theirs])
        return ours

    def answer(self, payload: bytes = PAYLOAD) -> bytes:
        """The whole answer to a payload."""
        return read_all(self.hand_over(payload))


def client_pair() -> tuple[socket.socket, socket.socket]:
    """Our end of a client, which does not wait for ever, and the end that is handed over."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    return ours, theirs


def pass_on(sender: socket.socket, payload: bytes, clients: Sequence[socket.socket]) -> None:
    """Sends one message with descriptors."""
    socket.send_fds(sender, [payload], [client.fileno() for client in clients])


def read_all(client: socket.socket) -> bytes:
    """What a client receives until the end."""
    with client:
        parts = []
        while part := client.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def is_closed_by_peer(client: socket.socket) -> bool:
    """Waits for the end of a connection on which nothing comes."""
    return client.recv(1) == b""


class DaemonThread(Senders):
    """A daemon in this process, on a loop and a thread of its own."""

    def __init__(self, wanted: Config, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        self.daemon = Daemon(wanted)
        self.path, self.kind = wanted.socket_path, wanted.socket_type
        self.stop, self.hurry = asyncio.Event(), asyncio.Event()
        self._factory = loop_factory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self.daemon.run(self.stop, self.hurry)

        try:
            with asyncio.Runner(loop_factory=self._factory) as runner:
                runner.run(serve())
        except BaseException as failure:  # Shown by the test, in __exit__.
            self._failure = failure

    def __enter__(self) -> DaemonThread:
        self._thread.start()
        wait_until("the loop runs", lambda: self._loop is not None)
        return self

    def set(self, event: asyncio.Event) -> None:
        """Sets one of the events of the daemon."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(event.set)

    def join(self) -> None:
        """Waits for its end."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the daemon did not end"
        if self._failure:
            raise self._failure

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if self._thread.is_alive():
            self.set(self.stop)
            self.set(self.hurry)
        self.join()

    def get(self, path: str = "/metrics") -> str:
        """A page."""
        host, port = self.daemon.metrics_address
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=PATIENCE_S) as response:
            return response.read().decode()

    def value(self, sample: str) -> float:
        """The value of a sample on the metrics page."""
        return metric(self.get(), sample)

    def wait_for(self, sample: str, value: float) -> None:
        """Waits until a sample has a value."""
        wait_until(f"{sample} is {value}", lambda: self.value(sample) == value)


class Process(Senders):
    """A daemon as people run it."""

    def __init__(self, folder: Path, *arguments: str, shell: str = "", uvloop: bool = True, **variables: str) -> None:
        self.path = folder / "handoff.sock"
        self.log = folder / "stderr"
        command = command_line("--socket", str(self.path), "--metrics-enabled", "false", *arguments, uvloop=uvloop)
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                ["sh", "-c", f'{shell} exec "$@"', "sh", *command],
                cwd=FOLDER,
                env={"PATH": os.environ["PATH"], **variables},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            wait_until("somebody listens", self._listens)
        except BaseException:
            self.child.kill()
            self.child.communicate()
            raise

    def _listens(self) -> bool:
        assert self.child.poll() is None, self.log.read_text()
        try:
            self.connect().close()
        except OSError:
            return False
        return True

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.child.kill()
        self.child.communicate()

    def terminate(self) -> None:
        """Asks it to end."""
        self.child.send_signal(signal.SIGTERM)

    def output(self) -> str:
        """Waits for its end with exit code 0; what it printed."""
        output, _ = self.child.communicate(timeout=PATIENCE_S)
        assert self.child.returncode == 0, self.log.read_text()
        return output.decode()


def command_line(*arguments: str, uvloop: bool = True) -> list[str]:
    """How the daemon is called; `uvloop=False`: as if that were not installed."""
    if uvloop:
        return [sys.executable, "-m", "streaming_daemon", *arguments]
    hidden = "import sys; sys.modules['uvloop'] = None; from streaming_daemon.main import main; sys.exit(main())"
    return [sys.executable, "-c", hidden, *arguments]
