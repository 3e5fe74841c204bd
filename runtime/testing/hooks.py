"""Something to happen at a chosen step: the join between a test's story and the engine's steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
import trio

from headrace.runtime.ports import RowToken, StepResult

if TYPE_CHECKING:
    import trio.testing

StepKind: TypeAlias = Literal["prefill", "decode"]
# Runs at the start of its step. It may cancel a scope (`scope.cancel`), hang up a client
# (`caller.hang_up`), let the device hang (`device.hang`), raise in the step's place, or return a
# result that replaces the step's own; the step then computes nothing.
Hook: TypeAlias = Callable[[], StepResult | None]


@attrs.frozen
class _Planned:
    number: int
    kind: StepKind | None
    hook: Hook


class Hooks:
    """Hooks by step number, counted from 1 in each engine's life; each fires once."""

    def __init__(self) -> None:
        self._planned: list[_Planned] = []

    def at_step(self, number: int, hook: Hook, *, kind: StepKind | None = None) -> None:
        """Call `hook` in step `number`; with a `kind`, in the step with that number of its kind."""
        self._planned.append(_Planned(number, kind, hook))

    def fire(self, step: int, kind: StepKind, step_of_kind: int) -> StepResult | None:
        """The last result that a hook of this step gave, if any did."""
        due = [
            planned
            for planned in self._planned
            if (planned.kind is None and planned.number == step)
            or (planned.kind == kind and planned.number == step_of_kind)
        ]
        result: StepResult | None = None
        for planned in due:
            self._planned.remove(planned)
            result = planned.hook() or result
        return result

    @property
    def pending(self) -> int:
        """Hooks that have not fired; a test that ends with some did not happen as it was told."""
        return len(self._planned)


def raising(error: Exception) -> Hook:
    """A hook that raises `error` in the step's place."""

    def hook() -> StepResult | None:
        raise error

    return hook


def killing() -> Hook:
    """A hook that kills the model: the step answers for a row that does not exist, which no owner
    can contain. All that is in the model is lost, and it is started again."""
    garbage = StepResult(tokens=(RowToken(-1, 0),))
    return lambda: garbage


def joining(nursery: trio.Nursery, work: Callable[..., Awaitable[Any]], *args: Any) -> Hook:
    """A hook that starts `work(*args)`, such as another request that meets this step."""

    def hook() -> None:
        nursery.start_soon(work, *args)

    return hook


def jumping(clock: trio.testing.MockClock, seconds: float) -> Hook:
    """A hook that lets the clock jump, as that of a machine does that was asleep."""

    def hook() -> None:
        clock.jump(seconds)

    return hook
