"""Many schedules of one scenario, each by a seed that plays it again.

trio promises nothing about the order of runnable tasks. This module takes the order into its
own hands, through the same switch that trio keeps for property tests, and it is the only one that
touches it. It orders tasks, not input and output, and no threads.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
import trio

from headrace.runtime.supervisor import leaves
from headrace.runtime.testing.choices import Choices
from headrace.runtime.testing.still import run_still

# What is explored. What it returns is its trace: equal for equal choices.
Scenario: TypeAlias = Callable[[Choices], Awaitable[Any]]

# Virtual seconds after which a run that still waits counts as stuck.
STUCK_SECONDS = 86_400.0
# How many runs leave their garbage before it is collected: a few megabytes.
RUNS_OF_GARBAGE = 16


class ScheduleFailed(AssertionError):
    """A schedule broke the scenario; the cause says how, and `again` is the line that plays it
    again. `taken` are its choices; of a seed's own no more than `keep` are needed."""

    def __init__(self, choices: Choices, why: str) -> None:
        self.seed = choices.seed
        self.keep = choices.keep
        self.taken = tuple(choices.taken)
        self.why = why
        super().__init__(f"{why} ({len(self.taken)} choices); play it again by {self.again}")

    @property
    def again(self) -> str:
        if self.seed is None:
            return f"replay(scenario, taken={list(self.taken)})"
        keep = "" if self.keep is None else f", keep={self.keep}"
        return f"replay(scenario, seed={self.seed}{keep})"


@attrs.frozen
class Exploration:
    """What was explored. `most_choices` is the length of the longest schedule."""

    schedules: int
    most_choices: int
    seconds: float

    @property
    def schedules_per_second(self) -> float:
        return self.schedules / self.seconds


class _Order:
    """Stands in for trio's own source of randomness."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def shuffle(self, batch: list[Any]) -> None:
        if len(batch) > 1:
            # trio sorts the batch by age and takes tasks from its end: oldest first is plainest.
            self._choices.order(batch)
            batch.reverse()

    def uniform(self, low: float, high: float) -> float:
        """Where a real clock is to begin, which nobody may depend on."""
        return low


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


def replay(
    scenario: Scenario,
    *,
    seed: int | None = None,
    keep: int | None = None,
    taken: Iterable[int] = (),
) -> Any:
    """Run one schedule on a virtual clock, and return the scenario's trace.

    `keep` choices are the seed's own, and the plainest from then on. Gives the scenario's own
    exception as the cause of `ScheduleFailed`, also for a run that is stuck: one in which nothing
    but this limit has a deadline any more.
    """
    return _play(scenario, Choices(seed, prefix=tuple(taken), keep=keep))


def explore(scenario: Scenario, seeds: Iterable[int], *, twice: bool = False) -> Exploration:
    """Run the scenario under the schedule of each seed; the first that fails ends it, reduced to
    a short prefix of its choices.

    With `twice` each schedule is played two times and must give the same trace.
    """
    schedules = most = 0
    started = time.perf_counter()
    with _garbage_between_runs() as collect:
        for seed in seeds:
            choices = Choices(seed)
            try:
                trace = _play(scenario, choices)
            except ScheduleFailed as failure:
                shorter = shrunk(scenario, failure)
                raise shorter from shorter.__cause__
            if twice:
                _compare(scenario, choices, trace)
            schedules += 1
            most = max(most, len(choices.taken))
            collect()
    return Exploration(schedules, most, time.perf_counter() - started)


def shrunk(scenario: Scenario, failure: ScheduleFailed) -> ScheduleFailed:
    """The failure with as few of its seed's choices as were found to do: by doubling from none,
    then by halving. With one choice less the run passes, or fails in another way."""
    passes, fails, size = -1, len(failure.taken), 0
    found = failure
    while size < fails:
        shorter = _failing(scenario, failure, size)
        if shorter is not None:
            found, fails = shorter, size
            break
        passes, size = size, max(1, 2 * size)
    while fails - passes > 1:
        middle = (passes + fails) // 2
        shorter = _failing(scenario, failure, middle)
        if shorter is None:
            passes = middle
        else:
            found, fails = shorter, middle
    return found


def _failing(scenario: Scenario, failure: ScheduleFailed, keep: int) -> ScheduleFailed | None:
    """How the run fails with so many of the seed's choices; None where it does not, or fails for
    another cause."""
    try:
        replay(scenario, seed=failure.seed, keep=keep)
    except ScheduleFailed as shorter:
        return shorter if _kinds(shorter) == _kinds(failure) else None
    return None


def _kinds(failure: ScheduleFailed) -> set[str]:
    """What was raised, without words that may differ from run to run."""
    return {type(leaf).__name__ for leaf in leaves(failure.__cause__ or failure)}


@contextmanager
def _garbage_between_runs() -> Iterator[Callable[[], None]]:
    """Nothing is collected while a schedule runs, but all of some of them together. What is older
    than them is not looked at."""
    runs = itertools.count(1)

    def collect() -> None:
        if next(runs) % RUNS_OF_GARBAGE == 0:
            gc.collect(0)

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield collect
    finally:
        if was_enabled:
            gc.enable()


def _play(scenario: Scenario, choices: Choices) -> Any:
    async def bounded() -> Any:
        with trio.fail_after(STUCK_SECONDS):
            return await scenario(choices)

    with scheduled_by(choices):
        try:
            return run_still(bounded)
        except Exception as error:
            why = "; ".join(_first_line(leaf) for leaf in leaves(error))
            raise ScheduleFailed(choices, why) from error


def _compare(scenario: Scenario, first: Choices, trace: Any) -> None:
    again = Choices(first.seed)
    other = _play(scenario, again)
    if other != trace or again.taken != first.taken:
        why = f"two runs of one seed differ: {_difference(trace, other)}"
        raise ScheduleFailed(first, why)


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
