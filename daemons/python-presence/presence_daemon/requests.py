"""Checks what clients send. Types and ranges are those of the protocol."""

from typing import Any

_MAX_NAME_BYTES = 200
# Integers that every JSON parser reads exactly.
_MAX_EPOCH = 2**53 - 1


class Refusal(Exception):
    """A request that is refused, with one of the protocol's codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def parse_join(request: Any) -> tuple[str, str, dict[str, Any]]:
    """Returns the room, the user and the state."""
    fields = _object("the argument", request)
    return (
        _name("roomId", fields.get("roomId")),
        _name("userId", fields.get("userId")),
        _object("state", fields["state"]) if "state" in fields else {},
    )


def parse_heartbeat(request: Any) -> tuple[dict[str, Any], int | None]:
    """Returns the patch, empty if there is none, and the epoch."""
    if request is None:
        return {}, None
    fields = _object("the argument", request)
    patch = _object("patchState", fields["patchState"]) if "patchState" in fields else {}
    epoch = fields.get("epoch")
    # `True` is an integer to Python.
    if "epoch" in fields and not (type(epoch) is int and 0 <= epoch <= _MAX_EPOCH):
        raise Refusal("invalid_argument", "epoch is not an integer of at least 0")
    return patch, epoch


def _object(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal("invalid_argument", f"{field} is not an object")
    return value


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Refusal("invalid_argument", f"{field} is not a string")
    # JSON may contain half a surrogate pair.
    length = len(value.encode(errors="surrogatepass"))
    if not 1 <= length <= _MAX_NAME_BYTES:
        raise Refusal("invalid_argument", f"{field} has {length} bytes: 1 to {_MAX_NAME_BYTES} are allowed")
    return value
