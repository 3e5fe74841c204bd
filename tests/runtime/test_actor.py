"""An actor answers every question once, whatever becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from headrace.runtime.actor import CONCLUDE_SECONDS, Actor, drain
from headrace.runtime.errors import ActorDied
from headrace.runtime.reply import Reply
from headrace.runtime.testing import Choices, explore, sweep


@attrs.frozen
class Add:
    amount: int
    reply: Reply[int]


@attrs.frozen
class Keep:
    """Asks for an answer that only `Settle` brings."""

    reply: Reply[int]


@attrs.frozen
class Settle:
    pass


@attrs.frozen
class Break:
    reply: Reply[int]


class Account(Actor[Add | Keep | Settle | Break]):
    def __init__(self) -> None:
        super().__init__("account")
        self.total = 0
        self.kept: list[Reply[int]] = []

    def handle(self, message: Add | Keep | Settle | Break) -> None:
        match message:
            case Add(amount, reply):
                self.total += amount
                reply.set(self.total)
            case Keep(reply):
                self.kept.append(reply)
            case Settle():
                for reply in self.kept:
                    reply.set(self.total)
            case Break():
                raise OSError("the books are wrong")

    def abandon(self) -> None:
        for reply in self.kept:
            reply.fail(ActorDied(self.name))

    async def add(self, amount: int) -> int:
        reply: Reply[int] = Reply()
        return await self.ref.ask(Add(amount, reply), reply)

    async def keep(self) -> int:
        reply: Reply[int] = Reply()
        return await self.ref.ask(Keep(reply), reply)


@asynccontextmanager
async def serving(actor: Actor[Add | Keep | Settle | Break]) -> AsyncIterator[trio.CancelScope]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.serve)
        yield nursery.cancel_scope
        nursery.cancel_scope.cancel()


async def fate(record: dict[str, object], name: str, question: Actor[object] | object) -> None:
    try:
        record[name] = await question  # type: ignore[misc]
    except ActorDied as error:
        record[name] = f"died: {error}"


async def test_messages_are_handled_in_the_order_in_which_they_were_told() -> None:
    account = Account()
    async with serving(account):
        assert [await account.add(2), await account.add(3)] == [2, 5]


async def test_what_was_told_before_it_serves_is_kept() -> None:
    account = Account()
    early: Reply[int] = Reply()
    account.ref.tell(Add(4, early))
    assert repr(account) == "<Account account | 1 messages>"
    async with serving(account):
        assert await early.wait() == 4


async def test_telling_neither_waits_nor_lets_others_run() -> None:
    account = Account()
    with assert_no_checkpoints():
        account.ref.tell(Settle())
    async with serving(account) as scope:
        scope.cancel()
        # In a cancelled scope too, as a clean-up does.
        with assert_no_checkpoints():
            account.ref.tell(Settle())


async def test_killed_with_questions_kept_buffered_and_to_come_it_fails_each_of_them() -> None:
    account = Account()
    record: dict[str, object] = {}
    async with trio.open_nursery() as askers:
        async with serving(account) as scope:
            askers.start_soon(fate, record, "kept", account.keep())
            await wait_all_tasks_blocked()
            scope.cancel()
            buffered: Reply[int] = Reply()
            account.ref.tell(Add(1, buffered))
            askers.start_soon(fate, record, "buffered", buffered.wait())
        askers.start_soon(fate, record, "afterwards", account.add(1))
    died = "died: account"
    assert record == {"kept": died, "buffered": died, "afterwards": died}
    assert account.total == 0


async def test_a_crash_fails_the_question_that_caused_it_and_those_behind_it() -> None:
    account = Account()
    cause, behind = Reply[int](), Reply[int]()
    account.ref.tell(Break(cause))
    account.ref.tell(Add(1, behind))
    with pytest.raises(OSError, match="books"):
        await account.serve()
    for reply in (cause, behind):
        with pytest.raises(ActorDied, match="account"):
            await reply.wait()


async def test_a_message_without_a_question_is_dropped_by_a_dead_actor() -> None:
    account = Account()
    async with serving(account):
        pass
    account.ref.tell(Settle())
    assert repr(account.ref) == "<Ref account>"


async def test_a_cancelled_question_may_still_be_served(autojump_clock: MockClock) -> None:
    account = Account()
    with trio.move_on_after(1):
        await account.add(5)
    async with serving(account):
        assert await account.add(1) == 6


async def test_cancelled_at_any_step_a_question_leaves_the_actor_answering() -> None:
    account = Account()
    async with serving(account):

        async def ask() -> None:
            await account.add(1)

        async def check() -> None:
            # A question that was cancelled may be served or not, but never half.
            before = account.total
            assert await account.add(0) in (before, before + 1)

        assert await sweep(ask, check) >= 1


def test_under_every_schedule_each_question_has_exactly_one_fate() -> None:
    async def scenario(choices: Choices) -> list[tuple[str, object]]:
        account = Account()
        record: dict[str, object] = {}

        async def ask(name: str) -> None:
            await trio.sleep(choices.seconds(1))
            await fate(record, name, account.keep() if choices.chance() else account.add(1))

        async def kill(scope: trio.CancelScope) -> None:
            await trio.sleep(choices.seconds(1))
            scope.cancel()

        async with trio.open_nursery() as askers:
            for number in range(6):
                askers.start_soon(ask, f"ask {number}")
            async with serving(account) as scope:
                await kill(scope)
        assert len(record) == 6
        assert all(isinstance(end, int) or end == "died: account" for end in record.values())
        return list(record.items())

    explore(scenario, range(200), twice=True)


@attrs.frozen
class Release:
    reply: Reply[None]


class Ledger(Actor[Release]):
    """Carries out releases, or never comes to it."""

    def __init__(self, *, stuck: bool = False) -> None:
        super().__init__("ledger")
        self.released = 0
        self._stuck = stuck

    def handle(self, message: Release) -> None:
        if not self._stuck:
            self.released += 1
            message.reply.set(None)

    async def release(self) -> None:
        reply: Reply[None] = Reply()
        await self.ref.conclude(Release(reply), reply)


class TestARelease:
    async def test_is_carried_out_when_a_cancelled_scope_is_left(
        self, autojump_clock: MockClock
    ) -> None:
        ledger, when_left = Ledger(), list[int]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.serve)
            with trio.move_on_after(1):
                try:
                    await trio.sleep_forever()
                finally:
                    await ledger.release()
                    when_left.append(ledger.released)
            assert (when_left, trio.current_time()) == ([1], 1)
            nursery.cancel_scope.cancel()

    async def test_is_concluded_by_the_actors_death(self, autojump_clock: MockClock) -> None:
        ledger = Ledger(stuck=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.serve)
            nursery.start_soon(ledger.release)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await ledger.release()
        assert trio.current_time() <= CONCLUDE_SECONDS

    async def test_of_a_stuck_actor_is_given_up_after_its_bound(
        self, autojump_clock: MockClock
    ) -> None:
        ledger = Ledger(stuck=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.serve)
            await ledger.release()
            assert trio.current_time() == CONCLUDE_SECONDS
            nursery.cancel_scope.cancel()


async def test_draining_takes_what_is_there_and_does_not_wait() -> None:
    send, receive = trio.open_memory_channel[int](5)
    for number in range(3):
        send.send_nowait(number)
    with assert_no_checkpoints():
        assert drain(receive) == [0, 1, 2]
        assert drain(receive) == []
    receive.close()
    assert drain(receive) == []
    send.close()
