"""Cancellation at each step of a task in turn: the way to meet every await of a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import trio

StepsOf: TypeAlias = Literal["task", "run"]


class CancelAt(trio.abc.Instrument):
    """Cancels `scope` at the end of the n-th step from now, counted from 1.

    A step is what a task does between two returns to the scheduler. `of="task"` counts those of
    the current task only, `of="run"` those of every task. `fired` says that it came to it.
    """

    def __init__(self, step: int, scope: trio.CancelScope, *, of: StepsOf = "task") -> None:
        self._left = step
        self._scope = scope
        self._task = trio.lowlevel.current_task() if of == "task" else None
        self.fired = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._task is not None and task is not self._task:
            return
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self._scope.cancel("sweep")


async def cancelled_at(
    step: int, scenario: Callable[[], Awaitable[Any]], *, of: StepsOf = "task"
) -> bool:
    """Run the scenario and cancel it at that step; False if it ended before."""
    with trio.CancelScope() as scope:
        instrument = CancelAt(step, scope, of=of)
        trio.lowlevel.add_instrument(instrument)
        try:
            await scenario()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return instrument.fired


async def sweep(
    scenario: Callable[[], Awaitable[Any]],
    check: Callable[[], Awaitable[Any]],
    *,
    of: StepsOf = "task",
    limit: int = 100_000,
) -> int:
    """Cancel the scenario at step 1, 2, 3 ... until it ends before; `check` after each.

    Returns at how many steps it was cancelled. What fails carries a note that names the step.
    Raises `ValueError` if the scenario is still going after `limit` steps.
    """
    for step in range(1, limit + 1):
        try:
            fired = await cancelled_at(step, scenario, of=of)
            await check()
        except BaseException as error:
            error.add_note(f"cancelled at step {step} of the {of}")
            raise
        if not fired:
            return step - 1
    raise ValueError(f"the scenario takes more than {limit} steps")
