"""A run without a world: it is trio's own in all but what comes from outside."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from headrace.runtime.testing.choices import Choices
from headrace.runtime.testing.scenarios import SCENARIOS
from headrace.runtime.testing.schedule import scheduled_by
from headrace.runtime.testing.still import run_still


def of_trio(main: Any) -> Any:
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_means_what_it_means_to_trio(name: str) -> None:
    for seed in range(8):
        kept = []
        for run in (run_still, of_trio):
            choices = Choices(seed)
            with scheduled_by(choices):
                trace = run(partial(SCENARIOS[name], choices))
            kept.append((choices.taken, trace))
        assert kept[0] == kept[1]


def test_with_a_version_of_trio_that_was_not_tried_it_is_trios_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trio, "__version__", "99.0")

    async def main() -> type[trio.abc.Clock]:
        await trio.sleep(3600)
        return type(trio.lowlevel.current_clock())

    assert run_still(main) is trio.testing.MockClock


def test_time_jumps_only_when_nothing_else_can_happen() -> None:
    seen: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await trio.sleep(seconds)
        seen.append((name, trio.current_time()))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep, "long", 3600)
            nursery.start_soon(sleep, "short", 0.25)
            await trio.testing.wait_all_tasks_blocked()
            seen.append(("all wait", trio.current_time()))

    run_still(main)
    assert seen == [("all wait", 0.0), ("short", 0.25), ("long", 3600.0)]


def test_what_is_raised_comes_out_as_it_is() -> None:
    async def main() -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("here")

    with pytest.raises(LookupError, match="here") as caught:
        run_still(main)
    assert caught.value.__context__ is None


def test_what_comes_from_outside_of_the_tasks_is_run() -> None:
    async def main() -> bool:
        called = trio.Event()
        trio.lowlevel.current_trio_token().run_sync_soon(called.set)
        with trio.move_on_after(1):
            await called.wait()
        return called.is_set() and trio.current_time() == 0

    assert run_still(main)


def test_there_is_no_input_or_output() -> None:
    async def main() -> None:
        with socket.socket() as unconnected:
            await trio.lowlevel.wait_readable(unconnected)

    with pytest.raises(RuntimeError, match="no input or output"):
        run_still(main)


def test_an_instrument_may_be_added_and_taken_away() -> None:
    class Steps(trio.abc.Instrument):
        count = 0

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += 1

    async def main() -> tuple[int, int]:
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(steps)
        counted = steps.count
        await trio.lowlevel.checkpoint()
        return counted, steps.count

    counted, afterwards = run_still(main)
    assert counted > 0
    assert afterwards == counted


def test_it_can_be_interrupted() -> None:
    async def main() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_still(main)
    assert run_still(_nothing) is None


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()
