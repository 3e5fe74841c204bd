"""A source in parts: nothing is lost, nothing is too long, and growing changes the end only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.notes.segmenting import LEAST_BYTES, Limits, limits, pieces, segments
from headrace.actors.notes.source import Segment, Source, Turn
from headrace.runtime.errors import Code, RequestError

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
turns = st.lists(st.builds(Turn, st.sampled_from(["user", "assistant"]), words), max_size=8)
sources = st.builds(Source, st.just("conversation"), turns.map(tuple))
bounds = st.builds(Limits, st.integers(LEAST_BYTES, 700), st.integers(1, 5))


def said(parts: tuple[Segment, ...]) -> str:
    return "".join(turn.text for part in parts for turn in part.turns)


@given(words, st.integers(4, 50))
def test_pieces_are_the_text_and_none_is_too_long(text: str, most: int) -> None:
    cut = list(pieces(text, most))
    assert "".join(cut) == text
    assert all(0 < len(piece.encode()) <= most for piece in cut)


def test_a_text_is_cut_between_words_where_it_can_be() -> None:
    assert list(pieces("one two three four", 10)) == ["one two ", "three four"]
    assert list(pieces("first line\nsecond line", 14)) == ["first line\n", "second line"]
    assert list(pieces("x" * 12, 5)) == ["xxxxx", "xxxxx", "xx"]
    assert list(pieces("ééééé", 4)) == ["éé", "éé", "é"]


@given(sources, bounds)
def test_every_character_is_in_one_segment_in_order(source: Source, most: Limits) -> None:
    parts = segments(source, most)
    assert said(parts) == "".join(turn.text for turn in source.turns)
    assert [part.part for part in parts] == list(range(1, len(parts) + 1))


@given(sources, bounds)
def test_no_segment_is_longer_than_allowed(source: Source, most: Limits) -> None:
    for part in segments(source, most):
        assert len(part.text.encode()) <= most.most_bytes
        assert 1 <= len(part.turns) <= most.turns


@given(sources, bounds)
def test_each_segment_names_the_one_before(source: Source, most: Limits) -> None:
    parts = segments(source, most)
    before = [None, *(part.fingerprint for part in parts)]
    assert [part.after for part in parts] == before[: len(parts)]


@given(sources, turns, bounds)
def test_a_source_that_grows_keeps_all_but_its_last_segment(
    source: Source, more: list[Turn], most: Limits
) -> None:
    grown = Source(source.name, (*source.turns, *more))
    before, after = segments(source, most), segments(grown, most)
    assert after[: max(0, len(before) - 1)] == before[:-1]


def test_equal_words_have_one_fingerprint_and_others_have_others() -> None:
    most = Limits(LEAST_BYTES, 1)
    parts = segments(Source("a", (Turn("u", "yes"), Turn("u", "no"), Turn("u", "yes"))), most)
    marks = [part.fingerprint for part in parts]
    assert marks[0] == marks[2] != marks[1]
    (other,) = segments(Source("b", (Turn("u", "yes"),)), most)
    assert other.fingerprint != marks[0]


@given(st.integers(64, 8192), st.integers(LEAST_BYTES, 100_000))
def test_a_segment_fits_whatever_its_tokens_are(tokens: int, room: int) -> None:
    # No token is shorter than a byte.
    assert limits(tokens, 20, room).most_bytes <= room


@pytest.mark.parametrize("room", [LEAST_BYTES - 1, 0, -500])
def test_a_model_without_room_is_refused(room: int) -> None:
    with pytest.raises(RequestError) as refused:
        limits(512, 20, room)
    assert refused.value.code is Code.CONTEXT_LENGTH_EXCEEDED
