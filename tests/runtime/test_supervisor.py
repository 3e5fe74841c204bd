"""A child's crash is a value; a cancellation is not."""

from __future__ import annotations

import outcome
import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.supervisor import contained, leaves


async def crash() -> None:
    await trio.lowlevel.checkpoint()
    raise OSError("down")


async def test_an_end_and_a_crash_are_values() -> None:
    async def end() -> int:
        await trio.lowlevel.checkpoint()
        return 3

    assert await contained(end) == outcome.Value(3)
    crashed = await contained(crash)
    assert isinstance(crashed, outcome.Error)
    assert isinstance(crashed.error, OSError)


async def test_a_crash_leaves_the_siblings_alone(autojump_clock: MockClock) -> None:
    record: list[str] = []

    async def sibling() -> None:
        await trio.sleep(1)
        record.append("done")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sibling)
        nursery.start_soon(contained, crash)
    assert record == ["done"]


async def test_cancellation_passes_through(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1) as scope:
        await contained(trio.sleep_forever)
    assert scope.cancelled_caught


async def test_a_child_that_fails_while_it_is_cancelled_is_still_cancelled(
    autojump_clock: MockClock,
) -> None:
    async def fails_on_the_way_out() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("on the way out")

    with trio.move_on_after(1) as scope:
        await contained(fails_on_the_way_out)
    assert scope.cancelled_caught


async def test_what_is_no_exception_is_not_contained() -> None:
    async def interrupt() -> None:
        async with trio.open_nursery():
            raise KeyboardInterrupt

    with pytest.RaisesGroup(KeyboardInterrupt):
        await contained(interrupt)


def test_leaves_are_the_single_errors_of_nested_groups() -> None:
    one, two, three = OSError(), KeyError(), ValueError()
    nested = ExceptionGroup("outer", [one, ExceptionGroup("inner", [two, three])])
    assert leaves(nested) == [one, two, three]
    assert leaves(one) == [one]
