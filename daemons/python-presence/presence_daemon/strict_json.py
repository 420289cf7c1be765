"""JSON without the numbers that only Python knows: one client's NaN would be a syntax error to all others."""

import json
import math
from typing import Any

dumps = json.dumps


def loads(text: str) -> Any:
    """Parses JSON.

    Raises ValueError if it is not JSON, has a number beyond the range of a double, or is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def is_equal(one: Any, other: Any) -> bool:
    """Compares two JSON values. To Python, `True == 1`; to JSON it is not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return one == other


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is not in the range of a double")
    return number
