"""Prompts that belong together: all of them are good before one runs, and they take turns."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.together import Part, Together, alone
from headrace.actors.waitlist import Waitlist
from headrace.runtime.errors import Code, RequestError


@attrs.define
class Stage:
    """Prompts that are checked when the story says so, and run until it lets them go."""

    running: set[int] = attrs.field(factory=set)
    began: list[int] = attrs.field(factory=list)
    failed: dict[int, Code] = attrs.field(factory=dict)
    good: dict[int, trio.Event] = attrs.field(factory=dict)
    ends: dict[int, trio.Event] = attrs.field(factory=dict)
    scopes: dict[int, trio.CancelScope] = attrs.field(factory=dict)

    async def take(self, number: int, part: Part) -> None:
        try:
            with trio.CancelScope() as queue, part.held(queue):
                self.scopes[number] = queue
                await self.good[number].wait()
                async with part.turn():
                    self.began.append(number)
                    self.running.add(number)
                    await self.ends[number].wait()
                    self.running.discard(number)
        except RequestError as error:
            self.failed[number] = error.code


@asynccontextmanager
async def staged(prompts: int, width: int, good: Sequence[int]) -> AsyncIterator[Stage]:
    together = Together(prompts, width)
    stage = Stage()
    async with trio.open_nursery() as nursery:
        for number, part in enumerate(together.parts):
            stage.good[number], stage.ends[number] = trio.Event(), trio.Event()
            if number in good:
                stage.good[number].set()
            nursery.start_soon(stage.take, number, part)
        await wait_all_tasks_blocked()
        yield stage
        nursery.cancel_scope.cancel()


async def test_nothing_runs_before_all_are_good(autojump_clock: MockClock) -> None:
    async with staged(4, 2, good=[0, 1, 3]) as stage:
        assert stage.began == []
        stage.good[2].set()
        await wait_all_tasks_blocked()
        assert stage.running == {0, 1}


async def test_they_take_turns_in_their_order(autojump_clock: MockClock) -> None:
    async with staged(6, 2, good=range(6)) as stage:
        stage.ends[1].set()
        await wait_all_tasks_blocked()
        assert stage.running == {0, 2}
        for number in range(6):
            stage.ends[number].set()
        await wait_all_tasks_blocked()
        assert sorted(stage.began) == list(range(6))
        assert stage.running == set()


async def test_one_that_gives_up_before_its_turn_keeps_nobody_waiting(
    autojump_clock: MockClock,
) -> None:
    async with staged(4, 1, good=range(4)) as stage:
        stage.scopes[1].cancel()
        await wait_all_tasks_blocked()
        stage.ends[0].set()
        await wait_all_tasks_blocked()
        assert stage.running == {2}


async def test_where_one_is_refused_none_runs(autojump_clock: MockClock) -> None:
    together = Together(3, 3)
    failed = list[Code]()

    async def take(part: Part, error: RequestError | None) -> None:
        with trio.CancelScope() as queue:
            try:
                with part.held(queue):
                    if error is not None:
                        raise error
                    async with part.turn():
                        pytest.fail("it must not run")
            except RequestError as caught:
                failed.append(caught.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, together.parts[0], None)
        nursery.start_soon(take, together.parts[1], None)
        await wait_all_tasks_blocked()
        wrong = RequestError(Code.CONTEXT_LENGTH_EXCEEDED, "too long")
        nursery.start_soon(take, together.parts[2], wrong)
    assert failed == [Code.CONTEXT_LENGTH_EXCEEDED] * 3


async def test_where_one_goes_before_it_is_checked_nobody_waits_for_it() -> None:
    together = Together(2, 2)
    with trio.CancelScope() as queue, together.parts[1].held(queue):
        queue.cancel()
        await trio.lowlevel.checkpoint()
    with pytest.raises(RequestError) as caught:
        await together.wait_turn(0)
    assert caught.value.code is Code.REQUEST_CANCELLED


async def test_once_one_is_admitted_the_others_do_not_wait_in_the_queue() -> None:
    together = Together(2, 1)
    first, second = trio.CancelScope(deadline=5), trio.CancelScope(deadline=5)
    with together.parts[0].held(first), together.parts[1].held(second):
        together.parts[0].admitted()
        assert first.deadline == second.deadline == math.inf
        await trio.lowlevel.checkpoint()


async def test_alone_nobody_is_waited_for() -> None:
    with trio.fail_after(60):
        async with alone().turn():
            pass


# ---- their place in the queue -------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_a_group_has_a_place_as_long_as_one_of_it_is_there(
    moves: list[tuple[str, bool]], rows: int, queue: int
) -> None:
    waitlist = Waitlist(rows, queue)
    inside: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    for number, (group, comes) in enumerate(moves):
        if comes:
            taken = sum(bool(tickets) for tickets in inside.values())
            fits = bool(inside[group]) or taken < rows + queue
            assert waitlist.enter(f"t{number}", 0.0, group) is fits
            inside[group] += [f"t{number}"] if fits else []
        elif inside[group]:
            waitlist.leave(inside[group].pop(), float(number))
        waiting = sum(bool(tickets) for tickets in inside.values())
        assert waitlist.statistics().waiting == waiting
    for ticket in (ticket for tickets in inside.values() for ticket in tickets):
        waitlist.leave(ticket, 99.0)
    assert waitlist.statistics().waiting == 0
    assert [waitlist.enter(f"x{n}", 0.0) for n in range(rows + queue + 1)] == [
        *[True] * (rows + queue),
        False,
    ]


def test_a_late_ticket_goes_behind_all_that_have_come() -> None:
    waitlist = Waitlist(1, 5)
    for ticket in ("a", "late", "b"):
        waitlist.enter(ticket, 0.0)
    assert waitlist.line_up("a", 0.0) == ["a"]
    assert waitlist.line_up("b", 0.0) == []
    assert waitlist.line_up("late", 0.0, late=True) == []
    assert waitlist.leave("a", 1.0) == ["b"]
    assert waitlist.leave("b", 2.0) == ["late"]
