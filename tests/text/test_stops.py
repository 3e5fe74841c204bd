"""The stop matcher against a naive reading of the rule, over every way to cut a text."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.text.stops import StopMatcher

# Few letters make overlaps likely; the others are 2, 3 and 4 bytes long in UTF-8.
LETTERS = "abéあ👩"
texts = st.text(LETTERS, max_size=24)
stop_lists = st.lists(st.text(LETTERS, max_size=6), max_size=5)


def naive(text: str, stops: list[str]) -> tuple[str, str | None]:
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


def longest_begun(text: str, stops: list[str]) -> int:
    begun = (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n]))
    return max(begun, default=0)


def cut(text: str, places: list[int]) -> list[str]:
    borders = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    stops = draw(stop_lists)
    # Built from the stops themselves too, so that matches and near misses are common.
    parts = draw(st.lists(st.one_of(texts, st.sampled_from([*stops, "a"])), max_size=6))
    text = "".join(parts)
    return cut(text, draw(st.lists(st.integers(0, len(text)), max_size=8))), stops


@given(cut_texts())
def test_any_cut_gives_the_naive_answer_g2(case: tuple[list[str], list[str]]) -> None:
    pieces, stops = case
    matcher = StopMatcher(stops)
    shown = "".join([matcher.feed(piece) for piece in pieces]) + matcher.flush()
    assert (shown, matcher.matched) == naive("".join(pieces), stops)


@given(cut_texts())
def test_no_more_and_no_less_is_held_than_could_begin_a_stop_g1(
    case: tuple[list[str], list[str]],
) -> None:
    pieces, stops = case
    matcher, shown, seen = StopMatcher(stops), "", ""
    for piece in pieces:
        shown, seen = shown + matcher.feed(piece), seen + piece
        if matcher.matched is not None:
            break
        assert len(seen) - len(shown) == longest_begun(seen, stops)


@given(texts, stop_lists)
def test_single_characters_give_the_same_as_the_whole_g2(text: str, stops: list[str]) -> None:
    whole, single = StopMatcher(stops), StopMatcher(stops)
    at_once = whole.feed(text) + whole.flush()
    assert at_once == "".join([single.feed(letter) for letter in text]) + single.flush()
    assert whole.matched == single.matched


def test_the_alphabet_a_letter_a_step_ends_before_the_stop_g1() -> None:
    matcher = StopMatcher(["DEFGHIJ"])
    shown = [matcher.feed(letter) for letter in "ABCDEFGHIJKLM"]
    assert shown == ["A", "B", "C", *[""] * 10]
    assert matcher.matched == "DEFGHIJ"


def test_a_stop_of_several_tokens_is_matched_on_text_g3() -> None:
    matcher = StopMatcher(["5\n6"])
    assert [matcher.feed(piece) for piece in ["4", "\n", "5", "\n", "6", "\n7"]] == [
        "4", "\n", "", "", "", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stops", "text", "shown", "matched"),
    [
        (["bcd", "c"], "abcd", "ab", "c"),
        (["c", "abc"], "xabc", "x", "abc"),
        (["aab"], "aaab", "a", "aab"),
        (["", "b"], "ab", "a", "b"),
        ([], "ab", "ab", None),
        (["👩‍👧"], "👩‍👩‍👧!", "👩‍", "👩‍👧"),
    ],
    ids=["first-to-complete", "longest-at-a-tie", "overlap", "empty", "none", "joined-emoji"],
)
def test_who_wins(stops: list[str], text: str, shown: str, matched: str | None) -> None:
    matcher = StopMatcher(stops)
    assert matcher.feed(text) + matcher.flush() == shown
    assert matcher.matched == matched


def test_held_text_comes_out_once() -> None:
    matcher = StopMatcher(["END"])
    assert [matcher.feed("the EN"), matcher.flush(), matcher.flush()] == ["the ", "EN", ""]


def test_nothing_is_shown_after_a_match() -> None:
    matcher = StopMatcher(["."])
    assert [matcher.feed("a.b"), matcher.feed("c"), matcher.flush()] == ["a", "", ""]


def test_time_grows_with_the_text_alone() -> None:
    """A naive matcher needs some 10^11 comparisons here, and a full table 10^7 steps."""
    matcher = StopMatcher(["a" * 50_000 + "b", "z" * 10_000_000])
    begun = time.process_time()
    for _ in range(2_000):
        matcher.feed("a" * 100)
    assert time.process_time() - begun < 20
