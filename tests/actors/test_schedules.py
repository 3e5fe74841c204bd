"""Thousands of schedules of a small house: nothing is left, and every message is in its order."""

from __future__ import annotations

import pytest

from headrace.runtime.testing import Scenario, explore
from headrace.runtime.testing.scenarios import PARTS, SCENARIOS

pytestmark = pytest.mark.explore
# Together with those of single parts 10,000 in an ordinary run.
SHARE = 2
WHOLE = [scenario for scenario in SCENARIOS.values() if scenario not in PARTS]


@pytest.mark.parametrize("scenario", WHOLE, ids=lambda s: s.__name__)
def test_of_a_whole_runtime(scenario: Scenario, seeds: range) -> None:
    count = len(seeds) * SHARE
    assert explore(scenario, range(count)).schedules == count


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_seed_tells_one_story(name: str, seeds: range) -> None:
    explore(SCENARIOS[name], seeds[: len(seeds) // 10], twice=True)
