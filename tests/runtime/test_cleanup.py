"""Clean-up is shielded, but never without an end."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from headrace.runtime.cleanup import bounded_cleanup, sheltered


async def test_a_clean_up_may_wait_in_a_cancelled_scope(autojump_clock: MockClock) -> None:
    record: list[str] = []
    with trio.move_on_after(1) as outer:
        try:
            await trio.sleep_forever()
        finally:
            with bounded_cleanup(10) as scope:
                await trio.sleep(5)
                record.append("cleaned")
    assert (record, outer.cancelled_caught, scope.cancelled_caught) == (["cleaned"], True, False)
    assert trio.current_time() == 6


async def test_but_no_longer_than_its_bound(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1):
        try:
            await trio.sleep_forever()
        finally:
            with bounded_cleanup(10) as scope:
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == 11


async def test_what_is_sheltered_lives_until_its_owner_ends_it(autojump_clock: MockClock) -> None:
    async def shelter(scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep_forever()

    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            scope = sheltered()
            nursery.start_soon(shelter, scope)
            try:
                await trio.sleep_forever()
            finally:
                with bounded_cleanup(3):
                    await trio.sleep_forever()
                scope.cancel()
    assert trio.current_time() == 4
