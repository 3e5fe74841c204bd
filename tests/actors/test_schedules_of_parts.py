"""Thousands of schedules of single parts, which are quick to run."""

from __future__ import annotations

import pytest

from headrace.runtime.testing import Scenario, explore
from headrace.runtime.testing.scenarios import PARTS

pytestmark = pytest.mark.explore
# As many of each seed as its run is quick: 10,000 in an ordinary run of all tests.
SHARES = {"places_are_taken_and_left": 50, "a_reader_takes_its_time": 200}


@pytest.mark.parametrize("scenario", PARTS, ids=lambda s: s.__name__)
def test_of_one_part(scenario: Scenario, seeds: range) -> None:
    count = len(seeds) * SHARES[scenario.__name__]
    assert explore(scenario, range(count)).schedules == count
