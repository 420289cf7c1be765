"""The command line: flags, their `DAEMON_*` variables, and what is wrong with them."""

import argparse
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streaming_daemon.duration import parse_duration
from streaming_daemon.listener import LONGEST_BACKLOG

_LONGEST_STREAM_NS = 366 * 24 * 3600 * 10**9
_MOST_MESSAGES = 2**32 - 1
_TYPES = {"seqpacket": socket.SOCK_SEQPACKET, "stream": socket.SOCK_STREAM}
# What clap, and so rust-streaming, takes for a boolean.
_BOOLS = {
    **dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True),
    **dict.fromkeys(("n", "no", "f", "false", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Config:
    """What the options mean."""

    socket_path: Path
    socket_mode: int
    socket_type: socket.SocketKind
    backlog: int
    max_connections: int
    metrics_addr: tuple[str, int] | None
    """None: serve no metrics."""
    message_count: int
    message_delay_ns: int
    write_timeout_ns: int
    shutdown_grace_ns: int
    is_benchmark: bool
    workers: int | None
    """Accepted, and without effect."""


@dataclass(frozen=True, slots=True)
class _Option:
    flags: tuple[str, ...]
    variable: str
    default: str | None
    metavar: str
    parse: Callable[[str], Any]
    help: str


def parse_options(arguments: Sequence[str], environment: Mapping[str, str], version: str) -> Config:
    """Turns what was typed into what it means. A flag wins over its variable.

    Exits with 2, and a complaint that names the option, its variable and the remedy.
    """
    parser = _parser(environment, version)
    typed = parser.parse_args(arguments)
    if typed.write_timeout == 0:
        parser.error("--write-timeout (DAEMON_WRITE_TIMEOUT): it must be longer than 0; the default is 30s")
    if typed.message_count * typed.message_delay > _LONGEST_STREAM_NS:
        parser.error(
            "--message-count × --message-delay (DAEMON_MESSAGE_COUNT, DAEMON_MESSAGE_DELAY): "
            "a stream may last a year at most; lower one of them"
        )
    return Config(
        socket_path=typed.socket,
        socket_mode=typed.socket_mode,
        socket_type=typed.socket_type,
        backlog=typed.backlog,
        max_connections=typed.max_connections,
        metrics_addr=typed.metrics_addr if typed.metrics_enabled and not typed.benchmark else None,
        message_count=typed.message_count,
        message_delay_ns=typed.message_delay,
        write_timeout_ns=typed.write_timeout,
        shutdown_grace_ns=typed.shutdown_grace,
        is_benchmark=typed.benchmark,
        workers=typed.workers,
    )


def _parser(environment: Mapping[str, str], version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streaming-daemon",
        description="Takes client sockets over a Unix socket (SCM_RIGHTS) and answers each with server-sent events.",
        allow_abbrev=False,
    )
    for option in _OPTIONS:
        # argparse hands a default that is text to `type`, unless the flag was there.
        shown = "" if option.default is None else f", default: {option.default}"
        settings: dict[str, Any] = {
            "metavar": option.metavar,
            "default": environment.get(option.variable, option.default),
            "type": _checked(option),
            "help": f"{option.help} [{option.variable}{shown}]",
        }
        if option.default == "false":
            # The flag alone switches it on.
            settings |= {"nargs": "?", "const": True}
        parser.add_argument(*option.flags, **settings)
    parser.add_argument(
        "-d",
        "--delay",
        dest="message_delay",
        metavar="MS",
        default=argparse.SUPPRESS,
        type=_milliseconds,
        help="The same in milliseconds",
    )
    parser.add_argument("--version", action="version", version=version)
    return parser


def _checked(option: _Option) -> Callable[[str], Any]:
    """The option's parser; its complaints name the variable, since who set that did not type the option."""

    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except (ValueError, OSError) as error:
            raise argparse.ArgumentTypeError(f"{error}. Its variable is {option.variable}.") from None

    return parse


def _milliseconds(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"`{text}` is no number of milliseconds, such as 50")
    return round(float(text) * 1e6)


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # int() takes blanks, underscores and foreign digits too.
        if re.fullmatch(r"\+?[0-9]{1,20}", text) and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"`{text}` is no whole number from {least} to {most}")

    return parse


def _mode(text: str) -> int:
    if re.fullmatch(r"(0o)?0*[0-7]{1,3}", text):
        return int(text, 8)
    raise ValueError(f"`{text}` are no permissions in octal, such as 0660")


def _socket_type(text: str) -> socket.SocketKind:
    if text in _TYPES:
        return _TYPES[text]
    raise ValueError(f"`{text}` is none of {', '.join(_TYPES)}")


def _bool(text: str) -> bool:
    if text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    raise ValueError(f"`{text}` is no boolean: write true or false")


def _backend(text: str) -> str:
    if text == "mock":
        return text
    raise ValueError(f"this daemon has the backend `mock` alone, not `{text}`; set it to mock")


def _path(text: str) -> Path:
    if text and "\0" not in text:
        return Path(text)
    raise ValueError("it is empty; name a path, such as /run/streaming-daemon.sock")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    remedy = "write host and port, for instance 127.0.0.1:9090"
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"`{text}` is no address; {remedy}")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"`{text}`: {error}; {remedy}") from None
    return str(found[0][4][0]), int(found[0][4][1])


_OPTIONS = (
    _Option(
        ("-s", "--socket", "--socket-path"),
        "DAEMON_SOCKET_PATH",
        "/var/run/streaming-daemon.sock",
        "PATH",
        _path,
        "Path of the handoff socket",
    ),
    _Option(
        ("-m", "--socket-mode", "--mode"),
        "DAEMON_SOCKET_MODE",
        "0660",
        "MODE",
        _mode,
        "Permissions of the socket file, in octal",
    ),
    _Option(
        ("--socket-type",),
        "DAEMON_SOCKET_TYPE",
        "seqpacket",
        "TYPE",
        _socket_type,
        "Type of the handoff socket: seqpacket or stream",
    ),
    _Option(
        ("-b", "--backlog"),
        "DAEMON_BACKLOG",
        str(LONGEST_BACKLOG),
        "NUMBER",
        _number(1, 2**32 - 1),
        "Handoffs that may wait to be accepted; net.core.somaxconn is the most that the system grants",
    ),
    _Option(
        ("--max-connections",),
        "DAEMON_MAX_CONNECTIONS",
        "100000",
        "NUMBER",
        _number(1, 2**63 - 1),
        "Streams that may be open at once; more are answered with 503",
    ),
    _Option(
        ("--backend-provider",),
        "DAEMON_BACKEND_PROVIDER",
        "mock",
        "NAME",
        _backend,
        "Where the events come from: mock",
    ),
    _Option(
        ("--metrics-addr",),
        "DAEMON_METRICS_ADDR",
        "127.0.0.1:9090",
        "HOST:PORT",
        _address,
        "Address of /metrics and /healthz",
    ),
    _Option(
        ("--metrics-enabled",),
        "DAEMON_METRICS_ENABLED",
        "true",
        "BOOL",
        _bool,
        "Whether to serve /metrics and /healthz",
    ),
    _Option(
        ("--message-count",),
        "DAEMON_MESSAGE_COUNT",
        "18",
        "NUMBER",
        _number(0, _MOST_MESSAGES),
        "Events per stream; 0 sends the head and the end mark alone",
    ),
    _Option(
        ("--message-delay",),
        "DAEMON_MESSAGE_DELAY",
        "50ms",
        "DURATION",
        parse_duration,
        "Time between two events, such as 50ms or 5625ms",
    ),
    _Option(
        ("--write-timeout",),
        "DAEMON_WRITE_TIMEOUT",
        "30s",
        "DURATION",
        parse_duration,
        "How long one write to a client may take",
    ),
    _Option(
        ("--shutdown-grace",),
        "DAEMON_SHUTDOWN_GRACE",
        "30s",
        "DURATION",
        parse_duration,
        "How long streams may go on after SIGTERM or SIGINT; a second signal ends them at once",
    ),
    _Option(
        ("-w", "--workers"),
        "DAEMON_WORKERS",
        None,
        "NUMBER",
        _number(1, 2**32 - 1),
        "No effect: handoffs are received on the loop, which costs less than threads",
    ),
    _Option(
        ("--benchmark",),
        "DAEMON_BENCHMARK",
        "false",
        "BOOL",
        _bool,
        "Serve no metrics, and print a summary at the end",
    ),
)
