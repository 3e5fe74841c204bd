"""One question, one answer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from headrace.runtime.reply import Reply


async def test_the_one_who_waits_gets_the_answer(nursery: trio.Nursery) -> None:
    reply: Reply[int] = Reply()
    got: list[int] = []

    async def wait() -> None:
        got.append(await reply.wait())

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert (got, reply.done) == ([], False)
    reply.set(7)
    await wait_all_tasks_blocked()
    assert (got, reply.done) == ([7], True)


async def test_an_answer_that_is_there_still_takes_a_checkpoint() -> None:
    reply: Reply[int] = Reply()
    reply.set(1)
    with assert_checkpoints():
        assert await reply.wait() == 1


async def test_the_first_settlement_wins() -> None:
    answered: Reply[int] = Reply()
    answered.set(1)
    answered.set(2)
    answered.fail(OSError())
    assert await answered.wait() == 1

    failed: Reply[int] = Reply()
    failed.fail(OSError("gone"))
    failed.set(2)
    with pytest.raises(OSError, match="gone"):
        await failed.wait()


async def test_a_wait_that_was_cut_short_can_be_taken_up_again(autojump_clock: MockClock) -> None:
    reply: Reply[str] = Reply()
    with trio.move_on_after(1) as scope:
        await reply.wait()
    assert scope.cancelled_caught
    reply.set("late")
    assert await reply.wait() == "late"


def test_it_says_where_it_stands() -> None:
    reply: Reply[int] = Reply()
    assert repr(reply) == "<Reply open>"
    reply.set(3)
    assert repr(reply) == "<Reply Value(3)>"
