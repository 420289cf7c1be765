"""The request of a handoff: a JSON payload with three known keys."""

import json
from typing import Any, NamedTuple

PAYLOAD_LIMIT = 128 * 1024
"""The maximum length of a payload in bytes. A longer one is refused."""

_BLANK = b"\0 \t\n\r"
_KEYS = frozenset(("user_id", "prompt", "response_headers"))
_INT64 = range(-(2**63), 2**63)
# The longest 64-bit integer has 20 characters; int() refuses numbers with thousands of digits.
_INT64_CHARACTERS = 20


class Request(NamedTuple):
    """The keys that the mock backend uses, with their defaults."""

    user_id: int = 0
    prompt: str = ""
    response_headers: dict[str, str] = {}


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
    return _request(_decode(content))


def _decode(content: bytes) -> tuple[tuple[str, Any], ...]:
    # Bytes that are not UTF-8 become lone surrogates. _text refuses them in names and in the values of known keys.
    text = content.decode("utf-8", "surrogateescape")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        # Unterminated strings are reported where they begin.
        is_cut = error.pos >= len(text) or error.msg.startswith("Unterminated string")
        raise (IncompleteRequest if is_cut else InvalidRequest)(str(error)) from None
    except RecursionError:
        raise InvalidRequest("it is nested too deeply") from None


def _integer(text: str) -> int | float:
    """Parses an integer. Integers that do not fit, and minus zero, become floats: the wrong type for a known key."""
    if text == "-0" or len(text) > _INT64_CHARACTERS:
        return float(text)
    return int(text)


def _constant(name: str) -> None:
    raise InvalidRequest(f"{name} is not valid JSON")


# Objects become tuples of pairs, so that they differ from arrays and duplicate keys can be detected.
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_int=_integer, parse_constant=_constant)


def _request(pairs: tuple[tuple[str, Any], ...]) -> Request:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if _text(key) not in _KEYS:
            continue
        if key in found:
            raise InvalidRequest(f"{key}: the key occurs twice")
        found[key] = value
    return Request(
        _user_id(found.get("user_id")),
        _prompt(found.get("prompt")),
        _headers(found.get("response_headers")),
    )


def _user_id(value: Any) -> int:
    if value is None:
        return DEFAULT.user_id
    # Not isinstance: true is an int in Python.
    if type(value) is not int or value not in _INT64:
        raise InvalidRequest("user_id: it is not a 64-bit integer")
    return value


def _prompt(value: Any) -> str:
    return DEFAULT.prompt if value is None else _text(value)


def _headers(value: Any) -> dict[str, str]:
    if value is None:
        return DEFAULT.response_headers
    if not isinstance(value, tuple):
        raise InvalidRequest("response_headers: it is not an object")
    return {_text(name): _text(line) for name, line in value}


def _text(value: Any) -> str:
    """Returns the value if it is a string without lone surrogates."""
    if not isinstance(value, str):
        raise InvalidRequest("a value that must be a string is not one")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidRequest("a string is not valid Unicode") from None
    return value
