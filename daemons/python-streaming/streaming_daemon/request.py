"""The request of a handoff: a JSON payload with three known keys."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

PAYLOAD_LIMIT = 128 * 1024
"""The maximum length of a payload in bytes. A longer one is refused."""

_BLANK = b"\0 \t\n\r"
_INT64 = range(-(2**63), 2**63)


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


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _decode(content: bytes) -> dict[str, Any]:
    try:
        keys: dict[str, Any] = _DECODER.decode(content.decode())
    except json.JSONDecodeError as error:
        # Unterminated strings are reported where they begin.
        is_cut = error.pos >= len(error.doc) or error.msg.startswith("Unterminated string")
        raise (IncompleteRequest if is_cut else InvalidRequest)(str(error)) from None
    except (ValueError, RecursionError) as error:
        # It is not UTF-8, has an integer of thousands of digits, or is nested too deeply.
        raise InvalidRequest(str(error)) from None
    return keys


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
