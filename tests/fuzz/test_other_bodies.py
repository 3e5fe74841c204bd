"""Hundreds of spoiled bodies for each of the other routes, in the shapes of their protocols."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from headrace.runtime.testing.fuzzing import spoil
from headrace.runtime.testing.good_bodies import GOOD

OTHERS = [path for path in GOOD if not path.endswith("completions")]


@pytest.mark.parametrize(
    "count", [100, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
@pytest.mark.parametrize("path", OTHERS)
async def test_each_gets_a_typed_answer_and_leaves_nothing_i1_i4(
    autojump_clock: MockClock, path: str, count: int
) -> None:
    statuses = await spoil(path, count, seed=1)
    assert statuses[400] > count / 20
