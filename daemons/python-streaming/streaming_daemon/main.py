"""The command: options, signals, exit codes."""

import asyncio
import logging
import os
import platform
import signal
import sys
from collections.abc import Callable

from streaming_daemon import __version__
from streaming_daemon.daemon import Daemon, raise_open_files
from streaming_daemon.listener import StartError
from streaming_daemon.log import configure_logging
from streaming_daemon.options import Config, parse_options

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)


def main() -> int:
    """Runs the daemon and returns the exit code. argparse exits with 2 after a usage error."""
    config = parse_options(sys.argv[1:], os.environ, _version())
    configure_logging()
    if config.workers is not None:
        _log.warning("--workers (DAEMON_WORKERS) has no effect: handoffs are received without threads")
    try:
        raise_open_files()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            summary = runner.run(_serve(config))
        if config.is_benchmark:
            print(summary, end="", flush=True)
    except StartError as error:
        _log.error("%s", error)
        return 1
    except OSError as error:
        _log.error("the daemon failed: %s", error)
        return 1
    return 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the loop of uvloop if it is installed, else None for the loop of the standard library."""
    return uvloop.new_event_loop if uvloop else None


async def _serve(config: Config) -> str:
    stop, force_stop = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (force_stop if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    # Under nohup the daemon continues without its terminal.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Never forces: the shell and the kernel send one each when a terminal closes.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    daemon = Daemon(config)
    await daemon.run(stop, force_stop)
    return daemon.metrics.summary()


def _version() -> str:
    loop = f"uvloop {uvloop.__version__}" if uvloop else "asyncio"  # type: ignore[attr-defined]
    return f"streaming-daemon {__version__}, {platform.python_implementation()} {platform.python_version()}, {loop}"
