"""Warnings in the header are plain ASCII, whatever the text holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.warned import warning_header, warning_member
from headrace.runtime.contracts import Warning_


def test_no_warnings_no_member() -> None:
    assert warning_member([]) == {}


def test_several_warnings_share_the_header() -> None:
    header = warning_header([Warning_("a", "one"), Warning_("b", 'two "2"')])
    assert header == '299 headrace "one", 299 headrace "two \\"2\\""'


@given(st.text())
def test_no_text_can_break_out_of_the_header(text: str) -> None:
    header = warning_header([Warning_("a", text)])
    assert all(" " <= c <= "~" for c in header)
    quoted = header.removeprefix('299 headrace "').removesuffix('"')
    assert '"' not in quoted.replace("\\\\", "").replace('\\"', "")
