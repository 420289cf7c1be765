"""The request of a handoff: a JSON payload with three known keys."""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

PAYLOAD_LIMIT = 128 * 1024
"""The maximum length of a payload in bytes. A longer one is refused."""

_BLANK = b"\0 \t\n\r"
_INT64 = range(-(2**63), 2**63)
# The maximum depth of objects and lists, the payload itself included.
_DEPTH_LIMIT = 127
# One escape, or a surrogate pair; the group is half of one.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL)
# One string, which may have no end, or one bracket.
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


class Request(NamedTuple):
    """The keys that the mock backend uses, with their defaults."""

    user_id: int = 0
    prompt: str = ""
    response_headers: Mapping[str, str] = MappingProxyType({})


DEFAULT = Request()


class InvalidRequest(ValueError):
    """The payload is not a JSON object, or a known key has a wrong type."""


class IncompleteRequest(InvalidRequest):
    """The payload is the beginning of a JSON object. On a stream socket the rest may still arrive."""


def parse(payload: bytes) -> Request:
    """Parses a payload, ignoring NULs and white space at both ends. An empty payload means the defaults."""
    content = payload.strip(_BLANK)
    if not content:
        return DEFAULT
    # Excludes arrays and other values, the byte order mark, and input that json would take for UTF-16.
    if not content.startswith(b"{"):
        raise InvalidRequest("it is not a JSON object")
    # Avoids a full parse for each piece of a payload that arrives in many pieces.
    if not content.endswith(b"}"):
        raise IncompleteRequest("it is incomplete")
    keys = _decode(content)
    return Request(
        _user_id(keys.get("user_id")),
        _prompt(keys.get("prompt")),
        _headers(keys.get("response_headers")),
    )


def _constant(name: str) -> None:
    raise InvalidRequest(f"{name} is not valid JSON")


def _integer(digits: str) -> int | float:
    """Returns a float beyond 64 bits: int() refuses thousands of digits."""
    return float(digits) if len(digits) > 20 else int(digits)


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_int=_integer)


def _decode(content: bytes) -> dict[str, Any]:
    try:
        text = content.decode()
        _check(text)
        keys: dict[str, Any] = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        # Unterminated strings are reported where they begin.
        is_cut = error.pos >= len(error.doc) or error.msg.startswith("Unterminated string")
        raise (IncompleteRequest if is_cut else InvalidRequest)(str(error)) from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(str(error)) from None
    return keys


def _check(text: str) -> None:
    """Refuses half a surrogate pair, which json accepts, and nesting that not every daemon accepts."""
    if "\\u" in text and any(match[1] for match in _ESCAPES.finditer(text)):
        raise InvalidRequest("an escape is half a surrogate pair")
    if text.count("{") + text.count("[") <= _DEPTH_LIMIT:
        return
    depth = 0
    for match in _STRINGS_AND_BRACKETS.finditer(text):
        if match[0] in ("{", "["):
            depth += 1
        elif match[0] in ("}", "]"):
            depth = max(depth - 1, 0)
        if depth > _DEPTH_LIMIT:
            raise InvalidRequest("it is nested too deeply")


def _user_id(value: Any) -> int:
    if value is None:
        return DEFAULT.user_id
    # Not isinstance: true is an int in Python.
    if type(value) is not int or value not in _INT64:
        raise InvalidRequest("user_id: it is not a 64-bit integer")
    return value


def _prompt(value: Any) -> str:
    if value is None:
        return DEFAULT.prompt
    if not isinstance(value, str):
        raise InvalidRequest("prompt: it is not a string")
    return value


def _headers(value: Any) -> Mapping[str, str]:
    if value is None:
        return DEFAULT.response_headers
    if not isinstance(value, dict) or not all(isinstance(line, str) for line in value.values()):
        raise InvalidRequest("response_headers: it is not an object of strings")
    return value
