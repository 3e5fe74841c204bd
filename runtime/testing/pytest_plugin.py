"""Fixtures for people who test with pytest and pytest-trio. Installed headrace is found by itself.

`scene` and `site` are a runtime, and the real app over one, at rest; a test that asks for them
names `virtual_clock` too, since pytest-trio takes a clock from the test itself only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
import trio.testing

from headrace.runtime.testing.choices import Choices
from headrace.runtime.testing.leftovers import check_leftovers
from headrace.runtime.testing.schedule import scheduled_by

if TYPE_CHECKING:
    # Heavy, and loaded at the start of every run of pytest: fixtures import what they open.
    from headrace.runtime.testing.memory_site import MemorySite
    from headrace.runtime.testing.scene import Scene


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("headrace").addoption(
        "--explore-seeds",
        type=int,
        default=100,
        metavar="N",
        help="schedules that each exploration runs which takes the fixture `seeds` (100)",
    )


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> range:
    """What to give `explore`; `--explore-seeds` says how many."""
    return range(pytestconfig.getoption("--explore-seeds"))


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
    """The run's clock, jumping to the next deadline when nothing else can happen."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A runtime with its scripted model in memory. What the test leaves behind fails it."""
    from headrace.runtime.testing.scene import open_scene

    _demand_virtual_time()
    async with open_scene() as opened:
        yield opened
        await opened.baseline.settle()


@pytest.fixture
async def site() -> AsyncIterator[MemorySite]:
    """The real app over a scripted model, reached through memory. Leaks fail the test."""
    from headrace.runtime.testing.memory_site import open_memory_site

    _demand_virtual_time()
    async with open_memory_site() as opened:
        yield opened
        await opened.idle()


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    """Fails a test that leaves a thread or a child process behind."""
    with check_leftovers():
        yield


def _demand_virtual_time() -> None:
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, trio.testing.MockClock):
        pytest.fail("the test has to ask for virtual_clock as well", pytrace=False)
