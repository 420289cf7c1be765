"""Daemons under test, on a thread or as separate processes, and senders for them."""

from __future__ import annotations

import asyncio
import contextlib
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
TIMEOUT_S = 20
"""A generous limit for operations that take milliseconds."""


def config(folder: Path, **changes: object) -> Config:
    """Returns a configuration for tests: no delay, any free port."""
    arguments = ["--socket", str(folder / "handoff.sock"), "--metrics-addr", "127.0.0.1:0"]
    return replace(parse_options(arguments, {}, ""), **{"message_delay_ns": 0, **changes})


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Waits for a condition."""
    limit = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < limit, f"timed out waiting until {what}"
        time.sleep(0.002)


def metric(page: str, sample: str) -> float:
    """Returns the value of one sample, whose name is written as on the page."""
    return float(re.search(rf"^{re.escape(sample)} (.*)$", page, re.MULTILINE)[1])


class Senders:
    """The operations of a sender on the daemon that listens on `path`."""

    path: Path
    kind: socket.SocketKind = socket.SOCK_SEQPACKET

    def connect(self) -> socket.socket:
        """Opens a handoff connection."""
        sender = socket.socket(socket.AF_UNIX, self.kind)
        try:
            sender.connect(str(self.path))
        except OSError:
            sender.close()
            raise
        sender.settimeout(TIMEOUT_S)
        return sender

    def hand_over(self, payload: bytes = PAYLOAD) -> socket.socket:
        """Hands over a client and returns the other end of its socket."""
        with self.connect() as sender:
            ours, theirs = client_pair()
            with theirs:
                pass_on(sender, payload, [theirs])
        return ours

    def answer(self, payload: bytes = PAYLOAD) -> bytes:
        """Returns the whole answer to a payload."""
        return read_all(self.hand_over(payload))


def client_pair() -> tuple[socket.socket, socket.socket]:
    """Returns both ends of a client socket: the test's end, which has a timeout, and the end to hand over."""
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
    return ours, theirs


def pass_on(sender: socket.socket, payload: bytes, clients: Sequence[socket.socket]) -> None:
    """Sends one message with descriptors."""
    socket.send_fds(sender, [payload], [client.fileno() for client in clients])


def read_all(client: socket.socket) -> bytes:
    """Returns everything that a client receives until the end."""
    with client:
        parts = []
        while part := client.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def is_closed_by_peer(client: socket.socket) -> bool:
    """Waits for the end of a connection, and returns whether nothing arrived before it."""
    return client.recv(1) == b""


class DaemonThread(Senders):
    """A daemon in this process, on its own loop and thread."""

    def __init__(self, wanted: Config, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        self.daemon = Daemon(wanted)
        self.path, self.kind = wanted.socket_path, wanted.socket_type
        self.stop, self.force_stop = asyncio.Event(), asyncio.Event()
        self._factory = loop_factory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self.daemon.run(self.stop, self.force_stop)

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
        """Waits until the daemon ends."""
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the daemon did not end"
        if self._failure:
            raise self._failure

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        # The loop of a daemon that has ended is closed.
        with contextlib.suppress(RuntimeError):
            self.set(self.stop)
            self.set(self.force_stop)
        self.join()

    def get(self, path: str = "/metrics") -> str:
        """Returns a page."""
        host, port = self.daemon.metrics_address
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=TIMEOUT_S) as response:
            return response.read().decode()

    def value(self, sample: str) -> float:
        """Returns the value of a sample on the metrics page."""
        return metric(self.get(), sample)

    def wait_for(self, sample: str, value: float) -> None:
        """Waits until a sample has a value."""
        wait_until(f"{sample} is {value}", lambda: self.value(sample) == value)


class Process(Senders):
    """A daemon in its own process, as users run it."""

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
            wait_until("the daemon listens", self._listens)
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
        """Sends SIGTERM."""
        self.child.send_signal(signal.SIGTERM)

    def output(self) -> str:
        """Waits until the process exits with code 0, and returns its output."""
        output, _ = self.child.communicate(timeout=TIMEOUT_S)
        assert self.child.returncode == 0, self.log.read_text()
        return output.decode()


def command_line(*arguments: str, uvloop: bool = True) -> list[str]:
    """Returns the command line of the daemon. `uvloop=False` hides that package from it."""
    if uvloop:
        return [sys.executable, "-m", "streaming_daemon", *arguments]
    hidden = "import sys; sys.modules['uvloop'] = None; from streaming_daemon.main import main; sys.exit(main())"
    return [sys.executable, "-c", hidden, *arguments]
