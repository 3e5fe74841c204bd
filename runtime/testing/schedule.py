"""Many schedules of one scenario, each by a seed that plays it again.

trio promises nothing about the order of runnable tasks. This module takes the order into its
own hands, through the same switch that trio keeps for property tests, and it is the only one that
touches it. It orders tasks, not input and output, and no threads.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import trio
import trio.testing

from headrace.runtime.supervisor import leaves
from headrace.runtime.testing.choices import Choices

# What is explored. What it returns is its trace: equal for equal choices.
Scenario: TypeAlias = Callable[[Choices], Awaitable[Any]]

# Virtual seconds after which a run that still waits counts as stuck.
STUCK_SECONDS = 86_400.0


class ScheduleFailed(AssertionError):
    """A schedule broke the scenario; the cause says how, `seed` and `taken` play it again."""

    def __init__(self, seed: int | None, taken: tuple[int, ...], why: str) -> None:
        again = f"replay(scenario, seed={seed})" if seed is not None else "replay(scenario, ...)"
        super().__init__(f"{why} (seed {seed}, {len(taken)} choices); play it again by {again}")
        self.seed = seed
        self.taken = taken


@attrs.frozen
class Exploration:
    """What was explored. `most_choices` is the length of the longest schedule."""

    schedules: int
    most_choices: int
    seconds: float

    @property
    def schedules_per_second(self) -> float:
        return self.schedules / self.seconds


class _Order(random.Random):
    """Stands in for trio's own source of randomness."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices.seed)
        self._choices = choices

    def shuffle(self, batch: Any) -> None:
        # trio sorts the batch by age and takes tasks from its end: oldest first is plainest.
        self._choices.order(batch)
        batch.reverse()


@contextmanager
def scheduled_by(choices: Choices) -> Iterator[Choices]:
    """Let `choices` order the tasks of every trio run that happens inside."""
    run: Any = trio._core._run
    before = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r
    run._ALLOW_DETERMINISTIC_SCHEDULING, run._r = True, _Order(choices)
    try:
        yield choices
    finally:
        run._ALLOW_DETERMINISTIC_SCHEDULING, run._r = before


def seeded(seed: int) -> Any:
    """As `scheduled_by`, with new choices from `seed`."""
    return scheduled_by(Choices(seed))


def replay(scenario: Scenario, *, seed: int | None = None, taken: Iterable[int] = ()) -> Any:
    """Run one schedule on a virtual clock, and return the scenario's trace.

    Gives the scenario's own exception as the cause of `ScheduleFailed`, also for a run that is
    stuck: one in which nothing but this limit has a deadline any more.
    """
    return _play(scenario, Choices(seed, prefix=tuple(taken)))


def explore(scenario: Scenario, seeds: Iterable[int], *, twice: bool = False) -> Exploration:
    """Run the scenario under the schedule of each seed; the first that fails ends it.

    With `twice` each schedule is played two times and must give the same trace.
    """
    schedules = most = 0
    started = time.perf_counter()
    for seed in seeds:
        choices = Choices(seed)
        trace = _play(scenario, choices)
        if twice:
            _compare(scenario, choices, trace)
        schedules += 1
        most = max(most, len(choices.taken))
    return Exploration(schedules, most, time.perf_counter() - started)


def _play(scenario: Scenario, choices: Choices) -> Any:
    async def bounded() -> Any:
        with trio.fail_after(STUCK_SECONDS):
            return await scenario(choices)

    clock = trio.testing.MockClock(autojump_threshold=0)
    with scheduled_by(choices):
        try:
            return trio.run(bounded, clock=clock)
        except Exception as error:
            why = "; ".join(_first_line(leaf) for leaf in leaves(error))
            raise ScheduleFailed(choices.seed, tuple(choices.taken), why) from error


def _compare(scenario: Scenario, first: Choices, trace: Any) -> None:
    again = Choices(first.seed)
    other = _play(scenario, again)
    if other != trace or again.taken != first.taken:
        why = f"two runs of one seed differ: {_difference(trace, other)}"
        raise ScheduleFailed(first.seed, tuple(first.taken), why)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _difference(one: Any, other: Any) -> str:
    """The first place where two traces part, readable if they are sequences."""
    if not isinstance(one, (list, tuple)) or not isinstance(other, (list, tuple)):
        return f"{one!r} and {other!r}"
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"at {at} {left!r} and {right!r}"
    return f"{len(one)} and {len(other)} events"
