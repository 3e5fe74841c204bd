"""The fixtures do what their tests' names say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.testing import Choices

orders: dict[int, list[int]] = {}


@pytest.mark.parametrize("again", [1, 2])
async def test_the_seed_orders_the_tasks(choices: Choices, seed: int, again: int) -> None:
    record: list[int] = []

    async def run(name: int) -> None:
        record.append(name)
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for name in range(6):
            nursery.start_soon(run, name)
    assert choices.seed == seed
    assert orders.setdefault(seed, record) == record


async def test_the_virtual_clock_takes_no_time(virtual_clock: MockClock) -> None:
    await trio.sleep(1000)
    assert trio.current_time() == virtual_clock.current_time() == 1000


STRANGER = """
import trio
from headrace.runtime.testing.runtime import ask, asking


async def test_stops(virtual_clock, scene):
    with trio.CancelScope() as user:
        scene.model.at_step(5, user.cancel, kind="decode")
        await ask(scene.runtime, asking("hello"))
    scene.story().tells("row.removed t1 reason=disconnect")


kept = []


async def test_leaves_something(virtual_clock, scene):
    kept.append(scene.runtime.request(asking("a request that nobody ends")))
    await kept[0].__aenter__()


async def test_has_no_clock(scene):
    pass


def test_is_given_seeds(seeds):
    assert len(seeds) == 7
"""


def test_strangers_get_the_fixtures_without_asking(tmp_path: Path) -> None:
    """Somebody's own folder, with nothing but an installed headrace."""
    (tmp_path / "test_stranger.py").write_text(STRANGER)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    command = [sys.executable, "-m", "pytest", "--explore-seeds", "7", "-q", "--tb=line"]
    command += ["-p", "no:cacheprovider"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in told.stdout, told.stdout
    assert "FAILED test_stranger.py::test_has_no_clock" in told.stdout
    assert "the test has to ask for virtual_clock as well" in told.stdout
    assert "test_stranger.py::test_leaves_something" in told.stdout
    assert "requests_in_flight: 0 before, 1 now" in told.stdout
