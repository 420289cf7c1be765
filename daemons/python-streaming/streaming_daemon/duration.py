"""Durations in the format of Go: `50ms`, `1m30s`, `1.5h`, `0`."""

import re
from fractions import Fraction

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# Both the micro sign and the Greek letter mu are accepted, as in Go.
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> int:
    """Parses one or more numbers with units, and returns nanoseconds. Only `0` may omit the unit."""
    if text == "0":
        return 0
    total, end = Fraction(0), 0
    while part := _PART.match(text, end):
        total += Fraction(part[1]) * _UNITS_NS[part[2]]
        end = part.end()
    if end == 0 or end < len(text):
        raise ValueError(f"`{text}` is not a duration: write for instance 50ms, 5625ms, 1m30s or 0")
    return round(total)
