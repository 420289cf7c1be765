"""The daemon: its sockets, its streams, and its shutdown."""

import asyncio
import contextlib
import logging
import resource
import socket

from streaming_daemon.answer import Answer
from streaming_daemon.intake import Intake
from streaming_daemon.listener import Listener, StartError
from streaming_daemon.metrics import Metrics
from streaming_daemon.options import Config
from streaming_daemon.pages import Pages
from streaming_daemon.stream import Streams

_log = logging.getLogger(__name__)

# The descriptors reserved for everything but streams: the standard ones, the loop, the metrics page, and the handoffs
# being read.
_RESERVED_FILES = 64
_POLL_INTERVAL_S = 0.01


class Daemon:
    """A daemon that is already listening. A handoff that arrives before `run` waits in the accept queue."""

    def __init__(self, config: Config) -> None:
        """Creates the handoff socket and the listener of the metrics page. Raises StartError."""
        self.metrics = Metrics()
        self._config = config
        self._pages = _bind_pages(config.metrics_addr) if config.metrics_addr else None
        self._listener = Listener(config.socket_path, config.socket_mode, config.socket_type, config.backlog)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """The address of the metrics page, with the actual port if the configured port is 0."""
        return self._pages.getsockname()[:2] if self._pages else None

    async def run(self, stop: asyncio.Event, force_stop: asyncio.Event) -> None:
        """Serves until `stop`. Then refuses new handoffs, accepts those in the accept queue, and lets streams continue
        for the grace period or until `force_stop`."""
        asyncio.get_running_loop().set_exception_handler(_on_error)
        config = self._config
        answer = Answer(config.message_count)
        streams = Streams(answer, config.message_delay_ns, config.write_timeout_ns / 1e9, self.metrics)
        intake = Intake(self._listener.socket, answer, streams, self._capacity(), self.metrics)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._listener.close)
            if self._pages:
                await stack.enter_async_context(Pages(self.metrics, self._pages))
            intake.start()
            await stop.wait()
            self._listener.refuse_further()
            intake.stop()
            await self._drain(intake, streams, force_stop)
            intake.cancel()
            await streams.cancel()

    async def _drain(self, intake: Intake, streams: Streams, force_stop: asyncio.Event) -> None:
        """Waits until all connections have ended, for the grace period at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.shutdown_grace_ns / 1e9):
                while not force_stop.is_set() and not (
                    intake.is_over and self.metrics.active_connections == 0 and streams.closing.is_over
                ):
                    await asyncio.sleep(_POLL_INTERVAL_S)

    def _capacity(self) -> int:
        """Returns the limit of open streams: `max_connections`, or less if the limit of open files is lower."""
        room = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED_FILES, 1)
        if room < self._config.max_connections:
            _log.warning("the limit of open files allows only %d streams; for more, raise it (ulimit -Hn)", room)
        return min(self._config.max_connections, room)


def _on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Logs an exception that a callback did not handle. It is a bug, and affects one client only."""
    _log.warning("%s: %r", context.get("message"), context.get("exception"))


def raise_open_files() -> None:
    """Raises the soft limit of open files to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _bind_pages(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=128)
    except OSError as error:
        raise StartError(
            f"cannot listen on {address[0]}:{address[1]} for the metrics: {error.strerror} (choose another address "
            "with --metrics-addr or DAEMON_METRICS_ADDR, or disable the metrics with DAEMON_METRICS_ENABLED=false)"
        ) from error
