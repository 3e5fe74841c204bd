"""The life of tickets as a state machine, looked at whole, and real actors held to it."""

from __future__ import annotations

import functools

import pytest
import trio
import trio.testing

from headrace.runtime.errors import Code, RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Choices, ScriptedLoader, ScriptedModel, explore, raising
from headrace.runtime.testing.conformance import NotConforming, Wiretap, conform
from headrace.runtime.testing.lifecycle import SEATED, Machine, Move, World, reachable
from headrace.runtime.testing.runtime import ask, asking, open_scripted

# The stated bound: one request through everything that can befall it, twice; two requests for one
# row, with a cancel or a death at every point, and (slow) with both.
MACHINES = {
    "one ticket": Machine(tickets=1, cancels=2, deaths=2, refusals=2),
    "two tickets, one cancel": Machine(tickets=2, cancels=1, deaths=0, refusals=0),
    "two tickets, one death": Machine(tickets=2, cancels=0, deaths=1, refusals=0),
}
BOTH = Machine(tickets=2, cancels=1, deaths=1, refusals=0)


worlds_of = functools.cache(reachable)


def wrong(machine: Machine, world: World) -> list[str]:
    """What must never be, in words."""
    found = []
    if len(world.granted) > machine.rows:
        found.append("more plans than rows")
    if len(world.entered) + len(world.granted) > machine.places:
        found.append("more requests than places")
    for i, ticket in enumerate(world.tickets):
        held = i in world.entered | world.granted | world.waiting | world.leases
        mine = world.rows[i]
        if mine in ("joining", "row", "going") and i not in world.leases:
            found.append("a row without a lease")
        if mine in ("joining", "row", "going") and i not in world.granted:
            found.append("a row without a plan")
        if ticket.phase == "done" and (held or mine or i in world.line):
            found.append("a request that is over holds something")
        if ticket.phase == "done" and not ticket.end:
            found.append("a request without an end")
        if mine and ticket.phase not in SEATED:
            found.append("a row without a seat")
    return found


def over(world: World) -> bool:
    return all(ticket.phase == "done" for ticket in world.tickets)


@pytest.mark.parametrize(
    "machine",
    [
        *(pytest.param(machine, id=name) for name, machine in MACHINES.items()),
        pytest.param(BOTH, id="two tickets, a cancel and a death", marks=pytest.mark.slow),
    ],
)
class TestEveryInterleaving:
    def test_nothing_wrong_can_come_about_and_all_can_end(self, machine: Machine) -> None:
        found = worlds_of(machine)
        bad = [what for world in found for what in wrong(machine, world)]
        assert bad == []
        # Not only is there always something to do: without any fault it leads to the end.
        ends = [world for world in found if over(world)]
        assert found.keys() - lead_to(ends, found) == set()

    def test_an_end_is_never_taken_back(self, machine: Machine) -> None:
        for world, moves in worlds_of(machine).items():
            for move in moves:
                for before, after in zip(world.tickets, move.world.tickets, strict=True):
                    assert before.end in ("", after.end), move.name

    def test_late_words_about_a_request_that_is_over_change_nothing(self, machine: Machine) -> None:
        for world, moves in worlds_of(machine).items():
            for move in moves:
                if move.i >= 0 and world.tickets[move.i].phase == "done":
                    assert without_mail(world) == without_mail(move.world), move.name


def lead_to(ends: list[World], found: dict[World, list[Move]]) -> set[World]:
    """The worlds from which one of the ends can be reached without another fault."""
    before: dict[World, list[World]] = {}
    for world, moves in found.items():
        for move in moves:
            if not move.fault:
                before.setdefault(move.world, []).append(world)
    reached, to_visit = set(ends), list(ends)
    while to_visit:
        for world in before.get(to_visit.pop(), ()):
            if world not in reached:
                reached.add(world)
                to_visit.append(world)
    return reached


def without_mail(world: World) -> World:
    return world._replace(to_model=(), deliveries=())


def test_a_scope_that_does_not_join_its_row_is_found_out() -> None:
    machine = Machine(tickets=1, joins=False)
    bad = {what for world in worlds_of(machine) for what in wrong(machine, world)}
    assert "a row without a lease" in bad


LAST = ("end", "ended", "release", "leave", "done")


class TestLogs:
    def test_of_a_request_that_is_answered(self) -> None:
        conform(
            [
                "enter",
                "acquire",
                "prepare",
                "prepared",
                "admit",
                "submit",
                "end",
                "ended",
                "release",
                "leave",
                "done",
            ]
        )

    @pytest.mark.parametrize(
        ("log", "why"),
        [
            ("enter acquire prepare prepared admit submit end release", "before its row has ended"),
            ("enter acquire prepare prepared admit submit ended ended", "ended twice"),
            ("enter acquire prepare submit", "without a plan"),
            ("enter acquire leave", "with a lease in its hand"),
            ("acquire", "without a place"),
            ("enter acquire prepare cancel release", "before the cancel has arrived"),
            ("enter acquire prepare prepared admit submit end end", "two ends"),
        ],
    )
    def test_of_one_that_is_not_as_it_has_to_be(self, log: str, why: str) -> None:
        with pytest.raises(NotConforming, match="cannot come after"):
            conform(log.split())


SETTINGS = Settings(max_rows=2, queue_limit=2, prefill_chunk_tokens=16, step_timeout_s=1.0)


async def five_clients(choices: Choices) -> list[list[str]]:
    """Some leave, steps raise or hang, a load fails, the model is unloaded by force."""
    model = ScriptedModel(load_seconds=0.02)
    if choices.chance():
        model.load_failures.append(RequestError(Code.LOAD_FAILED, "no weights"))
    if choices.chance():
        model.at_step(choices.between(1, 20), raising(OSError("scripted")))
    loader = ScriptedLoader(model)
    if choices.chance(3):
        model.at_step(choices.between(1, 20), loader.device.hang)
    async with open_scripted(loader, SETTINGS) as runtime:
        tap = Wiretap.on(runtime)

        async def client(number: int) -> None:
            await trio.sleep(choices.seconds(0.1))
            leaves_after = choices.seconds(0.2)
            with trio.move_on_after(leaves_after if choices.chance() else 3600):
                await ask(runtime, asking(f"{number}" + "x" * 20, max_tokens=4))

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(client, number)
            if choices.chance(3):
                await trio.sleep(choices.seconds(0.2))
                await runtime.unload(model.id, force=True)
        tap.check()
        return list(tap.logs.values())


@pytest.mark.explore
def test_real_actors_do_nothing_that_the_machine_cannot(seeds: range) -> None:
    explore(five_clients, seeds[: len(seeds) // 3])


async def test_the_tap_sees_what_there_is(autojump_clock: trio.testing.MockClock) -> None:
    async with open_scripted() as runtime:
        tap = Wiretap.on(runtime)
        await ask(runtime, asking("hello", max_tokens=1))
        (log,) = tap.logs.values()
    assert log[:7] == ["enter", "acquire", "prepare", "prepared", "admit", "submit", "end"]
    assert log[-3:] == ["release", "leave", "done"]


async def test_an_actor_that_lets_go_too_early_is_found_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The host forgets to wait: the very mistake that `Host.seat` exists to exclude."""
    async with open_scripted() as runtime:
        tap = Wiretap.on(runtime)
        (host,) = runtime.registry._hosts.values()
        host._end_seconds = 0.0
        with trio.move_on_after(1.05):
            await ask(runtime, asking("hello", max_tokens=100))
        with pytest.raises(NotConforming, match="'release' cannot come after"):
            tap.check()
