"""The command line: flags, their variables, and their validation."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_MAX_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of the daemon, after validation of the options."""

    host: str
    port: int
    ttl_ms: int
    reaper_interval_ms: int


def parse_options(arguments: Sequence[str], environment: Mapping[str, str], version: str) -> Config:
    """Parses the command line and the environment. A flag takes precedence over its variable.

    Exits with 2 on an error, whose message names the option, its variable and the remedy.
    """
    parser = argparse.ArgumentParser(
        prog="presence-daemon", description="Serves the presence protocol over Socket.IO.", allow_abbrev=False
    )

    def add(flag: str, variable: str, default: str, parse: Callable[[str], int | str], text: str) -> None:
        def checked(value: str) -> int | str:
            try:
                return parse(value)
            except ValueError as error:
                raise argparse.ArgumentTypeError(f"{error}. The environment variable is {variable}.") from None

        parser.add_argument(
            flag,
            default=environment.get(variable) or default,
            type=checked,
            metavar=variable.rpartition("_")[2],
            help=f"{text} [{variable}, default: {default}]",
        )

    add("--host", "HOST", "127.0.0.1", str, "Listens on this address")
    add("--port", "PORT", "3000", _number(0, 65_535), "Listens on this port; 0 takes a free one")
    ttl = "Removes a member after this many milliseconds without a heartbeat"
    add("--ttl-ms", "PRESENCE_TTL_MS", "30000", _number(1, _MAX_MS), ttl)
    reaper = "Looks for such members every this many milliseconds"
    add("--reaper-interval-ms", "PRESENCE_REAPER_INTERVAL_MS", "3000", _number(1, _MAX_MS), reaper)
    parser.add_argument("--version", action="version", version=version)
    typed = parser.parse_args(arguments)
    return Config(typed.host, typed.port, typed.ttl_ms, typed.reaper_interval_ms)


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # int() also accepts blanks, underscores and digits of other scripts.
        if re.fullmatch(r"[0-9]{1,20}", text) and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"`{text}` is not a whole number from {least} to {most}")

    return parse
