"""Thousands of schedules of single parts, which are quick to run."""

from __future__ import annotations

import pytest

from headrace.runtime.testing import Scenario, explore
from headrace.runtime.testing.scenarios import PARTS

pytestmark = pytest.mark.explore
SHARE = 43


@pytest.mark.parametrize("scenario", PARTS, ids=lambda s: s.__name__)
def test_of_one_part(scenario: Scenario, seeds: range) -> None:
    count = len(seeds) * SHARE
    assert explore(scenario, range(count)).schedules == count
