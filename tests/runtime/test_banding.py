"""Rows share a band where that costs less than a band of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.banding import (
    BAND_TOKENS,
    MOST_TOKENS,
    SPAN_TOKENS,
    Band,
    assigned,
    banded,
)

lengths = st.lists(st.integers(0, 3 * MOST_TOKENS) | st.integers(0, 300), min_size=1, max_size=40)


@given(lengths)
def test_a_band_is_never_wide_nor_large_unless_its_row_is(tokens: list[int]) -> None:
    places = assigned([], tokens)
    assert set(places) == set(range(max(places) + 1))
    for band in set(places):
        inside = [count for count, at in zip(tokens, places, strict=True) if at == band]
        assert max(inside) - min(inside) <= SPAN_TOKENS
        assert len(inside) == 1 or len(inside) * max(inside) <= MOST_TOKENS


@given(lengths)
def test_coming_one_by_one_or_at_once_is_the_same(tokens: list[int]) -> None:
    apart: list[Band] = []
    for count in tokens:
        (at,) = assigned(apart, [count])
        apart = [band.joined(count) if i == at else band for i, band in enumerate(apart)]
        apart += [Band(1, count, count)] if at == len(apart) else []
    places = assigned([], tokens)
    assert [band.rows for band in apart] == [places.count(i) for i in range(len(apart))]


@pytest.mark.parametrize(
    ("rows", "tokens", "place"),
    [
        (1, 100 + BAND_TOKENS, 0),
        (1, 101 + BAND_TOKENS, 1),
        (4, 100 + BAND_TOKENS // 4, 0),
        (4, 101 + BAND_TOKENS // 4, 1),
        (39, 100, 0),
        (40, 103, 1),
    ],
)
def test_a_row_joins_where_that_costs_less_than_a_band(rows: int, tokens: int, place: int) -> None:
    assert assigned([Band(rows, 100, 100)], [tokens]) == [place]


def test_a_row_joins_those_nearest_to_it() -> None:
    there = [Band(2, 90, 100), Band(2, 190, 200), Band(1, 800, 800)]
    assert assigned(there, [110, 180, 790, 40]) == [0, 1, 2, 0]


@given(lengths)
def test_every_row_is_in_a_band(tokens: list[int]) -> None:
    found = banded(tokens)
    assert sum(band.rows for band in found) == len(tokens)
    assert min(band.shortest for band in found) == min(tokens)
    assert max(band.longest for band in found) == max(tokens)
