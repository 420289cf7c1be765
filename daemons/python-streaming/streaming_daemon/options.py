"""The command line: flags, their `DAEMON_*` variables, and their validation."""

import argparse
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streaming_daemon.duration import parse_duration
from streaming_daemon.listener import MAX_BACKLOG

_MAX_STREAM_NS = 366 * 24 * 3600 * 10**9
_MAX_MESSAGES = 2**32 - 1
_TYPES = {"seqpacket": socket.SOCK_SEQPACKET, "stream": socket.SOCK_STREAM}
# The booleans that clap, and therefore rust-streaming, accepts.
_BOOLS = {
    **dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True),
    **dict.fromkeys(("n", "no", "f", "false", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of the daemon, after validation of the options."""

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
    """Accepted, but without effect."""


@dataclass(frozen=True, slots=True)
class _Option:
    flags: tuple[str, ...]
    variable: str
    default: str | None
    metavar: str
    parse: Callable[[str], Any]
    help: str


def parse_options(arguments: Sequence[str], environment: Mapping[str, str], version: str) -> Config:
    """Parses the command line and the environment. A flag takes precedence over its variable.

    Exits with 2 on an error, whose message names the option, its variable and the remedy.
    """
    parser = _parser(environment, version)
    typed = parser.parse_args(arguments)
    if typed.write_timeout == 0:
        parser.error("--write-timeout (DAEMON_WRITE_TIMEOUT) must be longer than 0; the default is 30s")
    if typed.message_count * typed.message_delay > _MAX_STREAM_NS:
        parser.error(
            "--message-count × --message-delay (DAEMON_MESSAGE_COUNT, DAEMON_MESSAGE_DELAY): "
            "a stream may last at most a year (366 days); lower one of them"
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
        description="Receives client sockets over a Unix socket (SCM_RIGHTS) and responds to each with "
        "server-sent events.",
        allow_abbrev=False,
    )
    for option in _OPTIONS:
        # argparse passes a default that is a string to `type`, unless the flag is given.
        shown = "" if option.default is None else f", default: {option.default}"
        settings: dict[str, Any] = {
            "metavar": option.metavar,
            "default": environment.get(option.variable, option.default),
            "type": _checked(option),
            "help": f"{option.help} [{option.variable}{shown}]",
        }
        if option.default == "false":
            # Without a value the flag means true.
            settings |= {"nargs": "?", "const": True}
        parser.add_argument(*option.flags, **settings)
    parser.add_argument(
        "-d",
        "--delay",
        dest="message_delay",
        metavar="MS",
        default=argparse.SUPPRESS,
        type=_milliseconds,
        help="Set --message-delay in milliseconds",
    )
    parser.add_argument("--version", action="version", version=version)
    return parser


def _checked(option: _Option) -> Callable[[str], Any]:
    """Returns the parser of an option. Its errors also name the variable, which may be the source of the value."""

    def parse(text: str) -> Any:
        try:
            return option.parse(text)
        except (ValueError, OSError) as error:
            raise argparse.ArgumentTypeError(f"{error}. The environment variable is {option.variable}.") from None

    return parse


def _milliseconds(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of milliseconds, such as 50")
    return round(float(text) * 1e6)


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # int() also accepts blanks, underscores and digits of other scripts.
        if re.fullmatch(r"\+?[0-9]{1,20}", text) and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"`{text}` is not a whole number from {least} to {most}")

    return parse


def _mode(text: str) -> int:
    if re.fullmatch(r"(0o)?0*[0-7]{1,3}", text):
        return int(text, 8)
    raise ValueError(f"`{text}` is not a set of permissions in octal, such as 0660")


def _socket_type(text: str) -> socket.SocketKind:
    if text in _TYPES:
        return _TYPES[text]
    raise ValueError(f"`{text}` is not one of {', '.join(_TYPES)}")


def _bool(text: str) -> bool:
    if text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    raise ValueError(f"`{text}` is not a boolean: write true or false")


def _backend(text: str) -> str:
    if text == "mock":
        return text
    raise ValueError(f"this daemon has only the backend `mock`, not `{text}`; write mock")


def _path(text: str) -> Path:
    if text.startswith("@"):
        raise ValueError(
            "abstract sockets (@…) are not supported: name a file, for instance /run/streaming-daemon.sock"
        )
    if text and "\0" not in text:
        return Path(text)
    raise ValueError("the path is empty or contains a NUL; name a path, such as /run/streaming-daemon.sock")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    remedy = "write host and port, for instance 127.0.0.1:9090"
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"`{text}` is not an address; {remedy}")
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
        "Create the handoff socket at this path",
    ),
    _Option(
        ("-m", "--socket-mode", "--mode"),
        "DAEMON_SOCKET_MODE",
        "0660",
        "MODE",
        _mode,
        "Set the permissions of the socket file, in octal",
    ),
    _Option(
        ("--socket-type",),
        "DAEMON_SOCKET_TYPE",
        "seqpacket",
        "TYPE",
        _socket_type,
        "Set the type of the handoff socket: seqpacket or stream",
    ),
    _Option(
        ("-b", "--backlog"),
        "DAEMON_BACKLOG",
        str(MAX_BACKLOG),
        "NUMBER",
        _number(1, 2**32 - 1),
        "Let this many handoffs wait to be accepted; the system limits it to net.core.somaxconn",
    ),
    _Option(
        ("--max-connections",),
        "DAEMON_MAX_CONNECTIONS",
        "100000",
        "NUMBER",
        _number(1, 2**63 - 1),
        "Limit the open streams; further ones are answered with 503",
    ),
    _Option(
        ("--backend-provider",),
        "DAEMON_BACKEND_PROVIDER",
        "mock",
        "NAME",
        _backend,
        "Choose the source of the events: mock",
    ),
    _Option(
        ("--metrics-addr",),
        "DAEMON_METRICS_ADDR",
        "127.0.0.1:9090",
        "HOST:PORT",
        _address,
        "Serve /metrics and /healthz on this address",
    ),
    _Option(
        ("--metrics-enabled",),
        "DAEMON_METRICS_ENABLED",
        "true",
        "BOOL",
        _bool,
        "Serve /metrics and /healthz",
    ),
    _Option(
        ("--message-count",),
        "DAEMON_MESSAGE_COUNT",
        "18",
        "NUMBER",
        _number(0, _MAX_MESSAGES),
        "Send this many events per stream; 0 sends only the head and the end mark",
    ),
    _Option(
        ("--message-delay",),
        "DAEMON_MESSAGE_DELAY",
        "50ms",
        "DURATION",
        parse_duration,
        "Wait this long between two events, such as 50ms or 5625ms",
    ),
    _Option(
        ("--write-timeout",),
        "DAEMON_WRITE_TIMEOUT",
        "30s",
        "DURATION",
        parse_duration,
        "Fail a stream if one write to the client takes longer than this",
    ),
    _Option(
        ("--shutdown-grace",),
        "DAEMON_SHUTDOWN_GRACE",
        "30s",
        "DURATION",
        parse_duration,
        "Let streams finish for up to this long after SIGTERM, SIGINT or SIGHUP; a second signal ends them at once",
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
