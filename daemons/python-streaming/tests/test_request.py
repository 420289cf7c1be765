"""Payloads beyond the shared transcript."""

from __future__ import annotations

import pytest

from streaming_daemon.request import DEFAULT, IncompleteRequest, InvalidRequest, parse


@pytest.mark.parametrize(
    "payload",
    [
        b'{"user_id":' + b"9" * 5000 + b"}",
        b'{"x":Infinity}',
        b'{"x":-Infinity}',
        b'{"prompt":"\xed\xa0\x80"}',
        b'{"response_headers":{"A":1}}',
        b'{"response_headers":"A"}',
        b'{"\xff":1}',
        b'{"x":01}',
        b'{"x":1.}',
        b"{'x':1}",
        b'{"x":1}//}',
        '{"user_id":1}'.encode("utf-16"),
        '{"user_id":1}'.encode("utf-16-le"),
        b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b"{]}",
    ],
    ids=lambda payload: repr(payload[:30]),
)
def test_an_invalid_payload_is_not_reported_as_incomplete(payload: bytes) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse(payload)
    assert not isinstance(error.value, IncompleteRequest) or payload.endswith(b"\0")


def test_every_proper_prefix_of_an_object_is_incomplete() -> None:
    payload = b'{"prompt":"a } b\\"}","response_headers":{"X":"}"},"y":[{}],"user_id":1}'
    for end in range(1, len(payload)):
        with pytest.raises(IncompleteRequest):
            parse(payload[:end])
    assert parse(payload).user_id == 1


def test_an_empty_payload_is_the_default_request() -> None:
    for payload in (b"", b"\0", b"\0\0", b" \n\0\t"):
        assert parse(payload) is DEFAULT
