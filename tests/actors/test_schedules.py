"""Thousands of schedules of a small house: nothing is left, and every message is in its order."""

from __future__ import annotations

import pytest

from headrace.runtime.testing import Scenario, explore
from headrace.runtime.testing.scenarios import PARTS, SCENARIOS

pytestmark = pytest.mark.explore
WHOLE = [scenario for scenario in SCENARIOS.values() if scenario not in PARTS]


@pytest.mark.parametrize("scenario", WHOLE, ids=lambda s: s.__name__)
def test_of_a_whole_runtime(scenario: Scenario, seeds: range) -> None:
    assert explore(scenario, seeds).schedules == len(seeds)


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_seed_tells_one_story(name: str, seeds: range) -> None:
    explore(SCENARIOS[name], seeds[: len(seeds) // 10], twice=True)
