"""Frames: what goes in comes out, wherever the bytes are cut, and garbage is called garbage."""

from __future__ import annotations

import enum
import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from headrace.runtime import contracts
from headrace.runtime.contracts import Delta, Prompt
from headrace.runtime.frames import (
    Codec,
    FrameGarbled,
    FrameReader,
    FrameTooLong,
    NotEncodable,
    framed,
)

CONTRACTS = [
    held for held in vars(contracts).values() if isinstance(held, type) and attrs.has(held)
]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(1 << 63), (1 << 64) - 1)
# What JSON can bring, with integers beyond 64 bits.
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda held: st.lists(held, max_size=3) | st.dictionaries(texts, held, max_size=3),
    max_leaves=6,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    bytes: st.binary(max_size=8),
    bool: st.booleans(),
    int: integers,
    float: st.floats(allow_nan=False),
    type(None): st.none(),
    Any: plain,
}


@cache
def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation as the contracts use them."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in SIMPLE:
        return SIMPLE[annotation]
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, inner))
    if origin is tuple and inner[-1] is ...:
        return st.lists(values(inner[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, inner))
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if issubclass(annotation, enum.Enum):
        return st.sampled_from(annotation)
    hints = get_type_hints(annotation)
    fields = {field.name: values(hints[field.name]) for field in attrs.fields(annotation)}
    return st.builds(annotation, **fields)


# ---- messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CONTRACTS, ids=lambda cls: cls.__name__)
@settings(max_examples=25)  # there are many of them
@given(data=st.data())
def test_every_contract_comes_back_as_it_went(cls: type, data: st.DataObject) -> None:
    codec = Codec(CONTRACTS)
    message = data.draw(values(cls))
    back = codec.decode(codec.encode(message))
    assert type(back) is cls
    assert back == message


def test_the_kind_of_a_message_is_told_even_where_the_fields_are_the_same() -> None:
    codec = Codec([contracts.Delta, contracts.ReasoningDelta])
    message = contracts.ReasoningDelta("hm")
    assert codec.decode(codec.encode(message)) == message


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1, 10**400, -(10**400)])
def test_integers_of_any_size_pass_where_a_client_can_put_them(number: int) -> None:
    codec = Codec([Prompt])
    message = Prompt(text="", template_args={"schema": [{"maximum": number, "also": True}]})
    assert codec.decode(codec.encode(message)) == message


def test_what_cannot_be_sent_is_refused_before_it_is_sent() -> None:
    codec = Codec([Prompt])
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for held in ("\ud800", object(), deep, ["\ud800", 1 << 70], [deep, 1 << 70]):
        with pytest.raises(NotEncodable, match="a Prompt cannot be sent"):
            codec.encode(Prompt(text="", template_args={"held": held}))
    with pytest.raises(KeyError):
        codec.encode(Delta("of another link"))


@given(garbage=st.binary(max_size=40))
def test_any_bytes_are_a_message_or_garbled(garbage: bytes) -> None:
    codec = Codec(CONTRACTS)
    try:
        message = codec.decode(garbage)
    except FrameGarbled:
        return
    assert codec.decode(codec.encode(message)) == message


@settings(max_examples=40)
@given(cut=st.integers(0, 1000), data=st.data())
def test_a_message_that_was_cut_is_garbled(cut: int, data: st.DataObject) -> None:
    codec = Codec(CONTRACTS)
    payload = codec.encode(data.draw(values(contracts.InferenceRequest)))
    with pytest.raises(FrameGarbled):
        codec.decode(payload[: cut % len(payload)])


@pytest.mark.parametrize(
    "payload",
    [b"\x92\xff\x80", b"\x92\x63\x80", b"\x92\x00" + b"\x91" * 100_000, b"\x92\x00\x80\x00"],
    ids=["negative kind", "unknown kind", "endless nesting", "more than one message"],
)
def test_malformed_payloads_are_garbled(payload: bytes) -> None:
    with pytest.raises(FrameGarbled, match="not a message of this link"):
        Codec([Prompt]).decode(payload)


# ---- frames ------------------------------------------------------------------------------------


def read(reader: FrameReader, data: bytes) -> list[bytes]:
    reader.feed(data)
    return list(iter(reader.next_frame, None))


@given(payloads=st.lists(st.binary(max_size=6), max_size=4))
def test_frames_come_out_whole_wherever_the_stream_is_cut(payloads: list[bytes]) -> None:
    stream = b"".join(map(framed, payloads))
    for cut in range(len(stream) + 1):
        reader = FrameReader()
        assert read(reader, stream[:cut]) + read(reader, stream[cut:]) == payloads
        assert not reader.truncated


@given(payloads=st.lists(st.binary(max_size=300), max_size=4))
def test_frames_come_out_whole_byte_by_byte(payloads: list[bytes]) -> None:
    reader = FrameReader()
    stream = b"".join(map(framed, payloads))
    assert [frame for byte in stream for frame in read(reader, bytes([byte]))] == payloads


@given(payload=st.binary(max_size=8), kept=st.integers(1, 11))
def test_a_stream_that_ends_inside_a_frame_is_truncated(payload: bytes, kept: int) -> None:
    frame = framed(payload)
    reader = FrameReader()
    assert read(reader, frame[: min(kept, len(frame) - 1)]) == []
    assert reader.truncated


def test_a_frame_over_the_limit_is_refused_by_its_head_alone() -> None:
    reader = FrameReader(max_bytes=10)
    assert read(reader, framed(b"x" * 10)) == [b"x" * 10]
    with pytest.raises(FrameTooLong, match="11 bytes"):
        read(reader, framed(b"x" * 11)[:4])


def test_frames_before_a_garbled_head_are_still_given_and_none_after_it() -> None:
    reader = FrameReader(max_bytes=10)
    reader.feed(framed(b"one") + framed(b"two") + b"print output" + framed(b"three"))
    assert [reader.next_frame(), reader.next_frame()] == [b"one", b"two"]
    for _ in range(2):
        with pytest.raises(FrameTooLong):
            reader.next_frame()


def test_the_sender_refuses_what_the_reader_would() -> None:
    with pytest.raises(FrameTooLong, match="11 bytes"):
        framed(b"x" * 11, max_bytes=10)
