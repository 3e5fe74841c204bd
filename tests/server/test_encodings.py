"""Compressed bodies: read whole, or refused before they grow."""

from __future__ import annotations

import contextlib
import gzip
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.encodings import MOST_FRAMES, coding_of, decoded
from headrace.runtime.errors import Code, RequestError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}
each_coding = pytest.mark.parametrize("coding", PACKERS)


def failure(read: Callable[[], object]) -> Code:
    with pytest.raises(RequestError) as caught:
        read()
    return caught.value.code


@each_coding
@given(data=st.lists(st.binary(max_size=60), min_size=1, max_size=4))
def test_what_was_packed_comes_out_whole(coding: str, data: list[bytes]) -> None:
    packed = b"".join(map(PACKERS[coding], data))
    plain = b"".join(data)
    assert decoded(packed, coding, len(plain)) == plain


@each_coding
def test_a_bomb_is_refused_by_its_decoded_size(coding: str) -> None:
    packed = PACKERS[coding](bytes(50_000_000))
    assert len(packed) < 100_000
    assert failure(lambda: decoded(packed, coding, 1000)) is Code.BODY_TOO_LARGE


@each_coding
def test_the_limit_holds_over_all_frames_together(coding: str) -> None:
    packed = PACKERS[coding](bytes(600)) * 2
    assert failure(lambda: decoded(packed, coding, 1199)) is Code.BODY_TOO_LARGE
    assert decoded(packed, coding, 1200) == bytes(1200)


@each_coding
def test_frames_are_counted(coding: str) -> None:
    frame = PACKERS[coding](b"x")
    assert decoded(frame * MOST_FRAMES, coding, 100) == b"x" * MOST_FRAMES
    too_many = frame * (MOST_FRAMES + 1)
    assert failure(lambda: decoded(too_many, coding, 100)) is Code.UNSUPPORTED_ENCODING


@each_coding
@given(data=st.binary(max_size=200), cut=st.integers(0, 300), flip=st.integers(0, 300))
def test_damage_is_a_typed_error(coding: str, data: bytes, cut: int, flip: int) -> None:
    packed = bytearray(PACKERS[coding](data))
    if flip < len(packed):
        packed[flip] ^= 0x55
    # Anything but an answer or a typed refusal would fail the test.
    with contextlib.suppress(RequestError):
        decoded(bytes(packed[:cut]), coding, 10_000)


@pytest.mark.parametrize(
    ("header", "coding"),
    [(None, None), ("", None), ("identity", None), (" GZIP ", "gzip"), ("identity, zstd", "zstd")],
)
def test_codings_by_name(header: str | None, coding: str | None) -> None:
    assert coding_of(header) == coding


@pytest.mark.parametrize("header", ["br", "deflate", "gzip, gzip", "gzip, br"])
def test_other_codings_are_refused(header: str) -> None:
    assert failure(lambda: coding_of(header)) is Code.UNSUPPORTED_ENCODING
