"""What a token costs is foretold from what others cost, nearer or further from the beginning."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.token_seconds import MOST_CHANGE, TokenSeconds

depths = st.floats(0, 100_000)
costs = st.floats(0, 30)
weights = st.floats(0.01, 1)


def test_nothing_is_known_before_the_first() -> None:
    assert TokenSeconds().at(100) is None


def test_one_measurement_holds_everywhere() -> None:
    cost = TokenSeconds()
    cost.measured(500, 0.004, 0.5)
    assert cost.at(0) == cost.at(5000) == 0.004


def test_what_grows_with_depth_is_foretold() -> None:
    cost = TokenSeconds()
    for depth in range(0, 2000, 100):
        if depth > 500:
            assert cost.at(depth) == pytest.approx(0.004 + 3e-6 * depth, rel=0.05)
        cost.measured(depth, 0.004 + 3e-6 * depth, 0.5)


@given(st.lists(st.tuples(depths, costs, weights), min_size=1, max_size=30), depths)
def test_it_never_leaves_what_was_measured_far_behind(
    measured: list[tuple[float, float, float]], depth: float
) -> None:
    cost = TokenSeconds()
    for one in measured:
        cost.measured(*one)
    least, most = min(one[1] for one in measured), max(one[1] for one in measured)
    foretold = cost.at(depth)
    assert foretold is not None
    assert least / MOST_CHANGE * 0.999 <= foretold <= most * MOST_CHANGE * 1.001


@given(st.lists(st.tuples(depths, costs, weights), min_size=1, max_size=30), st.lists(depths))
def test_deeper_tokens_never_cost_less(
    measured: list[tuple[float, float, float]], asked: list[float]
) -> None:
    cost = TokenSeconds()
    for one in measured:
        cost.measured(*one)
    found = [cost.at(depth) or 0.0 for depth in sorted(asked)]
    assert all(one <= other for one, other in pairwise(found))
