"""The restart budget: at once, then later and later, then not at all until somebody asks."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from headrace.runtime.restart import MOST_BACKOFF_SECONDS, RestartBudget


def test_the_first_restart_is_immediate_and_the_next_ones_wait_longer() -> None:
    budget = RestartBudget(limit=3, period_seconds=60.0)
    assert [budget.died(now) for now in (0.0, 1.0, 2.0)] == [0.0, 1.0, 2.0]
    assert not budget.exhausted
    assert repr(budget) == "<RestartBudget 3 of 3 used>"


def test_one_death_too_many_exhausts_it_for_good() -> None:
    budget = RestartBudget(limit=3, period_seconds=60.0)
    for now in (0.0, 1.0, 2.0):
        budget.died(now)
    assert budget.died(59.9) is None
    assert budget.exhausted
    assert budget.died(1e6) is None
    assert repr(budget) == "<RestartBudget exhausted>"


def test_asked_for_by_hand_it_counts_anew() -> None:
    budget = RestartBudget(limit=1, period_seconds=60.0)
    assert [budget.died(0.0), budget.died(1.0)] == [0.0, None]
    budget.reset()
    assert not budget.exhausted
    assert budget.died(2.0) == 0.0


def test_deaths_far_apart_are_each_followed_at_once() -> None:
    budget = RestartBudget(limit=3, period_seconds=60.0)
    assert [budget.died(now) for now in (0.0, 60.0, 120.0, 180.0, 240.0)] == [0.0] * 5


@given(
    limit=st.integers(0, 5),
    gaps=st.lists(st.floats(0.0, 90.0), max_size=30),
)
def test_no_period_ever_sees_more_restarts_than_the_limit(limit: int, gaps: list[float]) -> None:
    budget = RestartBudget(limit, period_seconds=60.0)
    now = 0.0
    starts: list[float] = []
    for gap in gaps:
        now += gap
        recent = [start for start in starts if start > now - 60.0]
        delay = budget.died(now)
        if delay is None:
            assert len(recent) == limit
            return
        # Immediate exactly when it is the first of the period.
        assert (delay == 0.0) == (not recent)
        assert delay <= MOST_BACKOFF_SECONDS
        starts.append(now)
        assert sum(start > now - 60.0 for start in starts) <= limit
