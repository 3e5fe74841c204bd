"""Fixtures for people who test with pytest and pytest-trio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio.testing

from headrace.runtime.testing.choices import Choices
from headrace.runtime.testing.schedule import scheduled_by


@pytest.fixture(params=range(20), ids="seed={}".format)
def seed(request: pytest.FixtureRequest) -> int:
    """A number per test run; the test's id names it. More or others by
    `@pytest.mark.parametrize("seed", range(1000), indirect=True)`."""
    number: int = request.param
    return number


@pytest.fixture
def choices(seed: int) -> Iterator[Choices]:
    """The choice points of this run, drawn by `seed`; they order trio's tasks as well."""
    with scheduled_by(Choices(seed)) as taken:
        yield taken


@pytest.fixture
def virtual_clock() -> trio.testing.MockClock:
    """The run's clock, jumping to the next deadline when nothing else can happen.

    pytest-trio makes it the clock of the run only if the test itself names it.
    """
    return trio.testing.MockClock(autojump_threshold=0)
