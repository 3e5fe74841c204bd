"""Thousands of spoiled bodies: each gets a typed answer, and none leaves anything behind."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from headrace.runtime.testing.fuzzing import spoil


@pytest.mark.parametrize(
    "count",
    [
        1250,
        pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
async def test_each_gets_a_typed_answer_and_leaves_nothing_i1_i2_i4_i7(
    autojump_clock: MockClock, count: int
) -> None:
    statuses = await spoil("/v1/chat/completions", count, seed=1)
    # Both ways were really taken.
    assert min(statuses[200], statuses[400]) > count / 20
