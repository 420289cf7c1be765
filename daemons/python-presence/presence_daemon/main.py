"""The command: options, signals, exit codes."""

import asyncio
import importlib.metadata
import logging
import os
import platform
import signal
import sys
from collections.abc import Callable

from presence_daemon import __version__
from presence_daemon.options import Config, parse_options
from presence_daemon.server import running

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)


def main() -> int:
    """Runs the daemon and returns the exit code. argparse exits with 2 after a usage error."""
    config = parse_options(sys.argv[1:], os.environ, _version())
    logging.basicConfig(format="presence-daemon: %(levelname)s: %(message)s", level=logging.INFO)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(config))
    except OSError as error:
        _log.error("the daemon failed: %s", error)
        return 1
    return 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the loop of uvloop if it is installed, else None for the loop of the standard library."""
    return uvloop.new_event_loop if uvloop else None


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Under nohup the daemon continues without its terminal.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    async with running(config) as port:
        print(f"listening on http://{config.host}:{port}", file=sys.stderr, flush=True)
        await stop.wait()


def _version() -> str:
    loop = f"uvloop {uvloop.__version__}" if uvloop else "asyncio"  # type: ignore[attr-defined]
    socket_io = importlib.metadata.version("python-socketio")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"python-presence {__version__} (python-socketio {socket_io}, {python}, {loop})"
