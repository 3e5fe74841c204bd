"""The choice of victims, against trying every set."""

from __future__ import annotations

from itertools import combinations

import attrs
import hypothesis.strategies as st
from hypothesis import given

from headrace.actors.eviction import fewest_oldest


@attrs.define
class Held:
    bytes: int


sizes = st.lists(st.integers(0, 12), max_size=7)


@given(sizes=sizes, need=st.integers(-3, 40))
def test_it_is_the_oldest_of_the_smallest_sets_that_are_enough(sizes: list[int], need: int) -> None:
    candidates = [Held(size) for size in sizes]
    ages = {id(held): age for age, held in enumerate(candidates)}
    picked = [ages[id(held)] for held in fewest_oldest(need, candidates)]
    assert picked == expected(need, sizes)


def expected(need: int, sizes: list[int]) -> list[int]:
    for count in range(len(sizes) + 1):
        # `combinations` goes through the sets in dictionary order, the oldest first
        for picked in combinations(range(len(sizes)), count):
            if sum(sizes[index] for index in picked) >= need:
                return list(picked)
    return list(range(len(sizes)))
