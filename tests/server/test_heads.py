"""What is made of a head before it becomes a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.heads import (
    MOST_FIELDS,
    MOST_HEAD_BYTES,
    Refusal,
    check_fields,
    check_framing,
    origin_form,
    unreadable,
)
from headrace.runtime.errors import Code, RequestError

FIELDS = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=400)), max_size=120)
HOST = (b"Host", b"localhost")


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"/v1/models?a=b", b"/v1/models?a=b", b"localhost"),
        (b"/x?next=http://evil.example/", b"/x?next=http://evil.example/", b"localhost"),
        (b"*", b"*", b"localhost"),
        (b"http://other/v1", b"/v1", b"other"),
        (b"HTTPS://other:81/v1?x#y", b"/v1?x#y", b"other:81"),
        (b"http://other", b"/", b"other"),
        (b"http://other?x=/", b"/?x=/", b"other"),
        (b"http:///path", b"/path", b""),
    ],
)
def test_a_target_is_a_path_and_perhaps_a_host(target: bytes, path: bytes, host: bytes) -> None:
    form, fields = origin_form(target, [HOST, (b"Upgrade", b"h2c"), (b"X", b"y")])
    assert form == path
    assert {name.lower(): value for name, value in fields} == {b"host": host, b"x": b"y"}


@pytest.mark.parametrize("target", [b"", b"localhost:80", b"ftp://x/", b"mailto:a", b"**", b"a/b"])
def test_any_other_target_is_none(target: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        origin_form(target, [HOST])
    assert caught.value.code is Code.INVALID_HTTP


@given(FIELDS, st.binary(max_size=200))
def test_a_head_passes_exactly_within_its_bounds(
    fields: list[tuple[bytes, bytes]], target: bytes
) -> None:
    size = len(target) + sum(len(name) + len(value) + 4 for name, value in fields)
    fits = len(fields) <= MOST_FIELDS and size <= MOST_HEAD_BYTES
    if fits:
        check_fields(target, fields)
        return
    with pytest.raises(RequestError) as caught:
        check_fields(target, fields)
    assert caught.value.code is Code.HEAD_TOO_LARGE


@pytest.mark.parametrize(
    ("version", "fields", "passes"),
    [
        (b"1.1", [], True),
        (b"1.1", [(b"Content-Length", b"1")], True),
        (b"1.1", [(b"TRANSFER-ENCODING", b"chunked")], True),
        (b"1.0", [(b"Content-Length", b"1")], True),
        (b"1.0", [(b"Transfer-Encoding", b"chunked")], False),
        (b"1.1", [(b"content-length", b"1"), (b"transfer-encoding", b"chunked")], False),
    ],
)
def test_a_message_has_one_length(
    version: bytes, fields: list[tuple[bytes, bytes]], passes: bool
) -> None:
    if passes:
        check_framing(version, fields)
        return
    with pytest.raises(RequestError) as caught:
        check_framing(version, fields)
    assert caught.value.code is Code.INVALID_HTTP


@pytest.mark.parametrize("status", [400, 405, 431, 501])
def test_a_refusal_is_a_whole_answer(status: int) -> None:
    refusal = Refusal(unreadable(status), "req_1")
    fields = dict(refusal.fields())
    assert refusal.status == (status if status in (431, 501) else 400)
    assert fields[b"content-length"] == str(len(refusal.body)).encode()
    assert fields[b"x-request-id"] == fields[b"request-id"] == b"req_1"
