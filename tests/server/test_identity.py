"""Ids of requests and names of clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.identity import client_name, request_id

TOKEN = "ab" * 16


@pytest.mark.parametrize("header", ["a", "A-1._z", "x" * 128])
def test_a_well_formed_id_is_kept(header: str) -> None:
    assert request_id(header, (), TOKEN) == header


@pytest.mark.parametrize("header", [None, "", "x" * 129, "a b", "ä", "a\n", "a/b", 'a"'])
def test_anything_else_is_replaced(header: str | None) -> None:
    assert request_id(header, (), TOKEN) == f"req_{TOKEN}"


@given(st.lists(st.sampled_from(["a", "a-2", "b", None]), max_size=12))
def test_no_two_live_requests_share_an_id(headers: list[str | None]) -> None:
    live: set[str] = set()
    for header in headers:
        name = request_id(header, live, TOKEN)
        assert name not in live
        live.add(name)


def test_one_client_has_one_name_q3() -> None:
    assert client_name(None, "::ffff:127.0.0.1") == client_name(None, "127.0.0.1") == "127.0.0.1"
    assert client_name(" key ", "1.2.3.4") == client_name("key", "::1")
    assert "key" not in client_name("key", None).removeprefix("key:")
    assert client_name(None, None) == "unknown"
