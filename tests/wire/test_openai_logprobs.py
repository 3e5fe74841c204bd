"""Log-probabilities as JSON can hold them, and where tokens begin in a text."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.openai_logprobs import LegacyScores, chat_scores, shown, token_name
from headrace.runtime.contracts import ScoredToken, TokenLogprob
from headrace.runtime.testing.runs import texts


def token(raw: bytes, logprob: float = -1.0, *top: tuple[bytes, float]) -> ScoredToken:
    return ScoredToken(TokenLogprob(raw, logprob), tuple(TokenLogprob(*other) for other in top))


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"Hi", "Hi"),
        (b"", ""),
        ("é".encode(), "é"),
        (b"\xc3", "bytes:\\xc3"),
        (b"a\xf0\x9f", "bytes:\\x61\\xf0\\x9f"),
    ],
)
def test_bytes_that_are_no_characters_are_spelled_out(raw: bytes, name: str) -> None:
    assert token_name(raw) == name


@pytest.mark.parametrize(
    ("logprob", "sent"),
    [(-0.5, -0.5), (0.0, 0.0), (-9998.0, -9998.0), (-1e5, -9999.0), (-math.inf, -9999.0)],
)
def test_there_is_a_least_logprob(logprob: float, sent: float) -> None:
    assert shown(logprob) == sent
    assert shown(math.nan) == -9999.0


@given(st.lists(st.tuples(st.binary(max_size=4), st.floats(max_value=0))))
def test_whatever_the_engine_says_is_valid_json(scored: list[tuple[bytes, float]]) -> None:
    tokens = [token(*entry, entry) for entry in scored]
    for scores in (chat_scores(tokens), LegacyScores(1).take(tokens)):
        json.dumps(scores, allow_nan=False)


def test_no_alternatives_are_an_empty_list_in_chat_and_null_in_completions() -> None:
    assert chat_scores([token(b"a")])["content"][0]["top_logprobs"] == []
    assert LegacyScores(0).take([token(b"a")])["top_logprobs"] is None


def test_the_chosen_token_is_among_its_alternatives_once() -> None:
    top = [(b"a", -0.1), (b"b", -3.0)]
    scores = LegacyScores(2).take([token(b"c", -9.0, *top), token(b"b", -3.0, *top)])
    assert scores["top_logprobs"] == [{"a": -0.1, "b": -3.0, "c": -9.0}, {"a": -0.1, "b": -3.0}]


def test_of_tokens_with_one_name_the_likeliest_is_shown() -> None:
    scores = LegacyScores(2).take([token(b"a", -5.0, (b"", -0.1), (b"", -2.0))])
    assert scores["top_logprobs"] == [{"": -0.1, "a": -5.0}]


def test_offsets_count_characters_from_the_text_before() -> None:
    scores = LegacyScores(0, offset=5)
    raw = "aé👩b".encode()
    pieces = [raw[:2], raw[2:4], raw[4:7], raw[7:]]
    first = scores.take([token(piece) for piece in pieces[:2]])
    second = scores.take([token(piece) for piece in pieces[2:]])
    assert first["text_offset"] == [5, 6]
    assert second["text_offset"] == [7, 8]


@given(texts, st.lists(st.integers(0, 32)), st.integers(0, 9))
def test_a_token_stands_where_its_first_byte_stands(
    text: str, cuts: list[int], offset: int
) -> None:
    data = text.encode()
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(borders)]
    places = LegacyScores(0, offset).take([token(piece) for piece in pieces])["text_offset"]
    # The character that holds a byte is the last one that begins at it or before.
    starts = [len(text[:index].encode()) for index in range(len(text))]
    expected = [sum(start <= border for start in starts) - 1 for border in borders[:-1]]
    assert places == [offset + place for place in expected]


def test_the_first_token_of_a_prompt_was_not_chosen_f9() -> None:
    first = ScoredToken(TokenLogprob(b"Hi", None))
    scores = LegacyScores(1).take([first, token(b" all", -0.5, (b" you", -0.1))])
    assert scores == {
        "tokens": ["Hi", " all"],
        "token_logprobs": [None, -0.5],
        "top_logprobs": [None, {" you": -0.1, " all": -0.5}],
        "text_offset": [0, 2],
    }
    assert LegacyScores(0).take([first])["token_logprobs"] == [None]
