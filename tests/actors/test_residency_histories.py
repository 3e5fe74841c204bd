"""Random histories of residency, checked against books that the test keeps by itself."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.actors.residence import Action, Cancel, Fail, Grant, Load, Unload
from headrace.actors.residency import Residency

BUDGET = 100
IDLE_SECONDS = 5.0
# In bytes: the small ones fit together, large ones with small ones only, and one never fits.
SIZES = {"tiny": 10, "little": 20, "small": 30, "half": 50, "big": 60, "huge": 130}
models = st.sampled_from(sorted(SIZES))


class World:
    """What an owner of the residency would see: memory in use, tickets, loads under way."""

    def __init__(self) -> None:
        self.memory: dict[str, int] = {}
        self.loading: set[str] = set()
        self.unloading: set[str] = set()
        self.pinned: set[str] = set()
        self.waiting: dict[str, str] = {}
        self.leases: dict[str, str] = {}
        self.arrivals: dict[str, int] = {}
        # The model whose leases may be cancelled by the event at hand.
        self.broken: str | None = None

    def take(self, action: Action) -> None:
        match action:
            case Load(model, estimate):
                assert model not in self.memory, "a second load of one model"
                alone = not self.memory
                assert alone or sum(self.memory.values()) + estimate <= BUDGET, "over the budget"
                self.memory[model] = estimate
                self.loading.add(model)
            case Unload(model, reason):
                assert model in self.memory
                assert model not in self.unloading, "unloaded twice"
                assert not self.held(model), "a leased model is unloaded"
                assert model not in self.pinned or reason == "unloaded_by_request"
                self.unloading.add(model)
                self.loading.discard(model)
            case Grant(ticket, model):
                assert self.waiting.pop(ticket) == model
                assert self.ready(model), "granted without a model"
                self.leases[ticket] = model
            case Fail(ticket, model):
                assert self.waiting.pop(ticket) == model
            case Cancel(ticket, model):
                assert self.leases.pop(ticket) == model
                assert model == self.broken, "a lease is broken"

    def held(self, model: str) -> bool:
        return model in self.leases.values()

    def ready(self, model: str) -> bool:
        return model in self.memory and model not in self.loading | self.unloading

    def free(self, model: str) -> None:
        del self.memory[model]
        self.loading.discard(model)
        self.unloading.discard(model)

    def arrive(self, ticket: str, model: str) -> None:
        self.arrivals[ticket] = len(self.arrivals)
        self.waiting[ticket] = model


class Histories(RuleBasedStateMachine):
    tickets = Bundle("tickets")
    steps = 0

    @initialize(overtakes=st.integers(0, 3))
    def open(self, overtakes: int) -> None:
        self.overtakes = overtakes
        self.residency = Residency(BUDGET, overtakes=overtakes)
        self.world = World()
        self.now = 0.0
        self.claimant: str | None = None
        self.passed = 0
        self.victims: tuple[str, ...] = ()

    def apply(self, actions: list[Action]) -> None:
        for action in actions:
            self.world.take(action)
        self.world.broken = None
        self.watch_claim([action for action in actions if isinstance(action, Grant)])
        type(self).steps += 1

    def watch_claim(self, grants: list[Grant]) -> None:
        """The bound on overtaking, and the order in which tickets have the claim."""
        now, order = self.residency.snapshot(), self.world.arrivals
        if now.claimed_by is None:
            return
        if now.claimed_by != self.claimant:
            if self.claimant is not None:
                assert order[now.claimed_by] > order[self.claimant], "the claim went backwards"
            self.claimant, self.passed, self.victims = now.claimed_by, 0, now.victims
        younger = [grant for grant in grants if order[grant.ticket] > order[now.claimed_by]]
        # Growth and shrinking change the victims; what counts is a grant on one that stays one.
        victims = set(self.victims) & set(now.victims)
        self.passed += sum(grant.model_id in victims for grant in younger)
        assert self.passed <= self.overtakes, "overtaken too often"
        self.victims = now.victims

    # ---- requests ----------------------------------------------------------------------------

    @rule(target=tickets, model=models, by_hand=st.sampled_from([False, False, False, True]))
    def acquire(self, model: str, by_hand: bool) -> str:
        """Of any model, most of which are absent most of the time."""
        return self.ask(model, by_hand)

    @rule(target=tickets, data=st.data(), count=st.integers(1, 3))
    @precondition(lambda self: self.world.memory)
    def acquire_in_memory(self, data: st.DataObject, count: int) -> object:
        """Of a model that is there, coming or going."""
        model = data.draw(st.sampled_from(sorted(self.world.memory)))
        return multiple(*(self.ask(model) for _ in range(count)))

    @rule(target=tickets, data=st.data())
    @precondition(lambda self: self.world.unloading)
    def acquire_while_it_goes(self, data: st.DataObject) -> str:
        return self.ask(data.draw(st.sampled_from(sorted(self.world.unloading))))

    def ask(self, model: str, by_hand: bool = False) -> str:
        ticket = f"t{len(self.world.arrivals)}"
        self.world.arrive(ticket, model)
        ask = self.residency.preload if by_hand else self.residency.acquire
        self.apply(ask(ticket, model, SIZES[model], self.now))
        return ticket

    @rule(ticket=tickets)
    def release(self, ticket: str) -> None:
        """Any ticket in any state: waiting, loading, granted, ended, again."""
        self.world.waiting.pop(ticket, None)
        self.world.leases.pop(ticket, None)
        self.apply(self.residency.release(ticket, self.now))
        assert self.residency.release(ticket, self.now) == []

    @rule(data=st.data())
    @precondition(lambda self: self.world.leases)
    def finish(self, data: st.DataObject) -> None:
        """Releases that hit a lease, so that histories do not fill up with leases."""
        ticket = data.draw(st.sampled_from(sorted(self.world.leases)))
        del self.world.leases[ticket]
        self.apply(self.residency.release(ticket, self.now))

    # ---- what happens to models --------------------------------------------------------------

    @rule(data=st.data(), grown=st.sampled_from([0, 0, 0, -5, 5, 40]))
    @precondition(lambda self: self.world.loading)
    def load(self, data: st.DataObject, grown: int) -> None:
        model = data.draw(st.sampled_from(sorted(self.world.loading)))
        self.world.loading.remove(model)
        self.world.memory[model] = SIZES[model] + grown
        self.apply(self.residency.loaded(model, SIZES[model] + grown, self.now))

    @rule()
    @precondition(lambda self: self.world.loading or self.world.unloading)
    def settle(self) -> None:
        """All that is under way comes to its end as expected."""
        world = self.world
        for model in sorted(world.loading):
            world.loading.remove(model)
            self.apply(self.residency.loaded(model, world.memory[model], self.now))
        for model in sorted(world.unloading):
            world.free(model)
            self.apply(self.residency.unloaded(model, self.now))

    @rule()
    @precondition(lambda self: self.world.loading)
    def fail_load(self) -> None:
        model = sorted(self.world.loading)[-1]
        self.world.free(model)
        self.apply(self.residency.load_failed(model, self.now, "bad file"))
        assert model not in self.world.waiting.values() or model in self.world.loading

    @rule(data=st.data(), late_load=st.booleans())
    @precondition(lambda self: self.world.unloading)
    def finish_unload(self, data: st.DataObject, late_load: bool) -> None:
        model = data.draw(st.sampled_from(sorted(self.world.unloading)))
        if late_load:  # a load that was given up can still come to its end
            self.apply(self.residency.loaded(model, self.world.memory[model], self.now))
        self.world.free(model)
        self.apply(self.residency.unloaded(model, self.now))

    @rule(model=models, respawn=st.sampled_from([True, True, False]))
    def die(self, model: str, respawn: bool) -> None:
        if model in self.world.memory:
            self.world.free(model)
        self.world.broken = model
        self.apply(self.residency.died(model, self.now, respawn=respawn))
        assert not self.world.held(model) or self.world.ready(model)

    @rule(model=models, size=st.integers(1, 70))
    def measure(self, model: str, size: int) -> None:
        if self.world.ready(model):
            self.world.memory[model] = size
        # While it loads, a measurement below the estimate says nothing yet.
        told = 1 if model in self.world.loading else size
        self.apply(self.residency.measured(model, told, self.now))

    # ---- orders by hand ----------------------------------------------------------------------

    @rule(
        order=st.sampled_from(
            ["pin", "unpin", "unpin", "unload", "force", "close", "open", "open"]
        ),
        model=models,
    )
    def order(self, order: str, model: str) -> None:
        match order:
            case "pin":
                self.world.pinned.add(model)
                self.apply(self.residency.pin(model, self.now))
            case "unpin":
                self.world.pinned.discard(model)
                self.apply(self.residency.unpin(model, self.now))
            case "open":
                self.residency.open_to_new()
            case "close":
                self.residency.close_to_new()
            case _:
                self.unload(model, force=order == "force")

    def unload(self, model: str, force: bool) -> None:
        world = self.world
        there, going = model in world.memory, model in world.unloading
        wanted = model in [*world.leases.values(), *world.waiting.values(), *world.pinned]
        if force:
            world.broken = model
            if there and not going:
                world.pinned.discard(model)
        answer, actions = self.residency.unload(model, self.now, force=force)
        if not there or going:
            assert answer == ("unloading" if going else "absent")
        else:
            assert answer == ("in-use" if wanted and not force else "unloading")
        self.apply(actions)

    @rule(passed_seconds=st.integers(0, 10))
    def let_time_pass(self, passed_seconds: int) -> None:
        self.now += passed_seconds
        due = self.residency.next_idle(IDLE_SECONDS)
        actions = self.residency.idle(self.now, IDLE_SECONDS)
        unloads = [action for action in actions if isinstance(action, Unload)]
        assert bool(unloads) == (due is not None and due <= self.now)
        self.apply(actions)

    # ---- what must hold at every instant -----------------------------------------------------

    @invariant()
    def the_books_agree(self) -> None:
        self.residency.check_integrity()
        now, world = self.residency.snapshot(), self.world
        assert now.charged_bytes == sum(world.memory.values())
        assert {model.id for model in now.models if model.bytes} <= world.memory.keys()
        assert {model.id: model.leases for model in now.models if model.leases} == {
            model: list(world.leases.values()).count(model) for model in world.leases.values()
        }
        assert self.residency.waiting_count == len(world.waiting)

    @invariant()
    def who_waits_waits_for_something(self) -> None:
        world = self.world
        if world.waiting:
            assert world.leases or world.loading or world.unloading, "stuck"
        held_back = {model for model in world.waiting.values() if world.ready(model)}
        assert held_back <= set(self.residency.snapshot().victims), "not granted at once"

    @invariant()
    def growth_is_relieved(self) -> None:
        world = self.world
        kept = world.memory.keys() - world.unloading
        if len(kept) > 1 and sum(world.memory[model] for model in kept) > BUDGET:
            wanted = {*world.leases.values(), *world.pinned}
            wanted |= {model for model in world.waiting.values() if model in world.loading}
            assert kept <= wanted, "an idle model stays above the budget"

    def teardown(self) -> None:
        """When loads succeed and leases end, everybody is served or was told why not."""
        if not hasattr(self, "world"):
            return
        world = self.world
        while world.loading or world.unloading or world.leases:
            self.settle()
            for ticket in sorted(world.leases):
                del world.leases[ticket]
                self.apply(self.residency.release(ticket, self.now))
        assert world.waiting == {}
        assert self.residency.lease_count == self.residency.waiting_count == 0


# Ten seconds of work, which a machine that is very busy makes many of.
@pytest.mark.timeout(900)
def test_ten_thousand_steps_break_no_promise() -> None:
    Histories.steps = 0
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=195,
            stateful_step_count=60,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
    assert Histories.steps >= 10_000
