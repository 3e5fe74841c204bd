"""Thousands of spoiled bodies: each gets a typed answer, and none leaves anything behind."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from headrace.runtime.testing.fuzzing import spoil

BODIES = 3200


@pytest.mark.timeout(300)
async def test_each_gets_a_typed_answer_and_leaves_nothing_i1_i2_i4_i7(
    autojump_clock: MockClock,
) -> None:
    statuses = await spoil("/v1/completions", BODIES, seed=1)
    # Both ways were really taken.
    assert min(statuses[200], statuses[400]) > BODIES / 20
