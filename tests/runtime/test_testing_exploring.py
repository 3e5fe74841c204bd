"""How schedules are shared among scenarios and processes."""

from __future__ import annotations

import pytest

from headrace.runtime.testing.exploring import Portion, portions, run, shares
from headrace.runtime.testing.scenarios import PARTS, SCENARIOS

NAMES = list(SCENARIOS)


@pytest.mark.parametrize("seeds", [0, 1, 9, 10_000, 1_000_003])
def test_every_schedule_is_run_once(seeds: int) -> None:
    counts = shares(NAMES, seeds)
    assert sum(counts.values()) == seeds
    ran: dict[str, list[int]] = {name: [] for name in NAMES}
    for portion in portions(counts, first=7):
        ran[portion.scenario] += range(portion.first, portion.first + portion.count)
    assert ran == {name: list(range(7, 7 + count)) for name, count in counts.items()}


def test_parts_get_more_than_whole_runtimes() -> None:
    counts = shares(NAMES, 100_000)
    parts = {scenario.__name__ for scenario in PARTS}
    least = min(counts[name] for name in parts)
    assert all(5 * counts[name] < least for name in NAMES if name not in parts)


def test_a_failure_is_told_with_the_line_that_plays_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(choices: object) -> None:
        raise KeyError("on purpose")

    monkeypatch.setitem(SCENARIOS, "fails", fails)
    told = run(Portion("fails", 3, 10))
    assert "on purpose" in told.failure
    assert "replay(scenario, seed=3, keep=0)" in told.failure
