"""A body is one JSON object in UTF-8, or a typed error; never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.json_text import (
    MOST_NESTING,
    nests_deeper,
    parse_object,
    parsed_or_text,
)
from headrace.runtime.errors import Code, RequestError

# Text that UTF-8 can hold: no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
scalars = scalars.filter(lambda value: value not in (float("inf"), float("-inf")))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


def nested(levels: int) -> bytes:
    """An object with arrays in it, `levels` deep altogether."""
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"{",
        b'{"a":1} x',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00x"}',
        b'{"a":"line\nbreak"}',
        b"\xff\xfe{\x00}\x00",
        b"[]",
        b"null",
        b'"{}"',
        b"17",
        nested(MOST_NESTING + 1),
        b"[" * 1_000_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_is_not_a_json_object_is_invalid_json(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse_object(body)
    assert caught.value.code is Code.INVALID_JSON
    assert "msgspec" not in str(caught.value)


def test_the_last_of_equal_keys_wins() -> None:
    assert parse_object(b'{"a":1,"a":2}') == {"a": 2}


def test_the_deepest_allowed_nesting_is_read() -> None:
    assert parse_object(nested(MOST_NESTING))


def test_surrogate_pairs_and_large_integers_survive() -> None:
    assert parse_object(b'{"a":"\\ud83d\\ude00","b":18446744073709551615}') == {
        "a": "\N{GRINNING FACE}",
        "b": 2**64 - 1,
    }


@given(st.dictionaries(texts, values, max_size=4))
def test_what_json_writes_is_read_back(value: dict[str, Any]) -> None:
    assert parse_object(json.dumps(value).encode()) == value


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(values, st.integers(0, 6))
def test_nesting_is_counted_as_recursion_would(value: Any, most: int) -> None:
    assert nests_deeper(value, most) == (depth(value) > most)


@pytest.mark.parametrize("text", ["", "{oops", '{"a":NaN}', "[" * 200 + "]" * 200])
def test_text_that_is_not_json_stays_text(text: str) -> None:
    assert parsed_or_text(text) == text
