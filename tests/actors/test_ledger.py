"""The books of the machine's memory: never over the limit, and nobody waits for ever."""

from __future__ import annotations

from collections import deque

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.actors.ledger import Action, Allot, Ledger, Start, Use

LIMIT = 1000


@attrs.define
class Told:
    """What a ledger said, by model."""

    allotted: dict[str, Allot] = attrs.field(factory=dict)
    started: list[str] = attrs.field(factory=list)

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Allot():
                    self.allotted[action.model_id] = action
                case Start(model_id):
                    self.started.append(model_id)


def resident(ledger: Ledger, told: Told, model_id: str, weights: int) -> None:
    told.take(ledger.load(model_id, weights))
    told.take(ledger.open(model_id, weights))


def uses(told: Told, model_id: str, rows: int, wanted: int = 0, **more: int) -> Use:
    """A report of a model that goes by all that it was told."""
    taken = min(rows, told.allotted[model_id].allotted_bytes)
    return Use(rows, max(wanted, rows), taken, obeyed=told.allotted[model_id].number, **more)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(LIMIT)


@pytest.fixture
def told() -> Told:
    return Told()


class TestOneModel:
    def test_gets_all_that_its_weights_leave(self, ledger: Ledger, told: Told) -> None:
        resident(ledger, told, "a", 300)
        assert told.started == ["a"]
        assert told.allotted["a"].allotted_bytes == told.allotted["a"].most_bytes == 700

    def test_that_stands_still_is_told_that_there_is_no_more(
        self, ledger: Ledger, told: Told
    ) -> None:
        resident(ledger, told, "a", 300)
        told.take(ledger.report("a", uses(told, "a", 650)))
        before = told.allotted["a"].number
        told.take(ledger.report("a", uses(told, "a", 750, asked=1)))
        assert told.allotted["a"].allotted_bytes == 700
        assert told.allotted["a"].number == before + 1

    def test_that_turns_out_larger_has_less_for_rows(self, ledger: Ledger, told: Told) -> None:
        resident(ledger, told, "a", 300)
        told.take(ledger.weigh("a", 500))
        assert told.allotted["a"].allotted_bytes == 500

    def test_leaves_nothing_behind(self, ledger: Ledger, told: Told) -> None:
        resident(ledger, told, "a", 300)
        told.take(ledger.report("a", uses(told, "a", 100, cache_bytes=50)))
        ledger.close("a")
        assert ledger.snapshot() == Ledger(LIMIT).snapshot()
        assert ledger.report("a", Use(5, 5)) == []


class TestTwoModels:
    def test_what_one_does_not_use_is_moved_to_the_other(self, ledger: Ledger, told: Told) -> None:
        resident(ledger, told, "a", 300)
        told.take(ledger.load("b", 200))
        # A load waits until the other has obeyed.
        assert told.started == ["a"]
        told.take(ledger.report("a", uses(told, "a", 0)))
        assert told.started == ["a", "b"]
        told.take(ledger.open("b", 200))
        told.take(ledger.report("b", uses(told, "b", 150)))
        told.take(ledger.report("a", uses(told, "a", 0)))
        assert told.allotted["b"].allotted_bytes >= 150

    def test_kept_prefixes_give_way_before_rows_c7(self, ledger: Ledger, told: Told) -> None:
        resident(ledger, told, "a", 300)
        told.take(ledger.report("a", uses(told, "a", 200, cache_bytes=500)))
        told.take(ledger.load("b", 300))
        assert told.allotted["a"].allotted_bytes == 400
        told.take(ledger.report("a", uses(told, "a", 200, cache_bytes=200)))
        assert told.started == ["a", "b"]

    def test_rows_are_not_sent_away_for_a_load(self, ledger: Ledger, told: Told) -> None:
        resident(ledger, told, "a", 300)
        told.take(ledger.report("a", uses(told, "a", 600)))
        told.take(ledger.load("b", 300))
        told.take(ledger.report("a", uses(told, "a", 600)))
        assert told.started == ["a"]
        assert told.allotted["a"].allotted_bytes == 600
        assert not ledger.admits("a")
        told.take(ledger.report("a", uses(told, "a", 300)))
        told.take(ledger.report("a", uses(told, "a", 300)))
        assert told.started == ["a", "b"]
        assert ledger.admits("a")

    def test_the_rows_that_began_later_go_for_those_that_began_before(
        self, ledger: Ledger, told: Told
    ) -> None:
        ledger = Ledger(LIMIT)
        for model_id in "ab":
            resident(ledger, told, model_id, 100)
        told.take(ledger.report("a", uses(told, "a", 400)))
        told.take(ledger.report("b", uses(told, "b", 400)))
        for _ in range(2):
            told.take(ledger.report("a", uses(told, "a", 400)))
            told.take(ledger.report("b", uses(told, "b", 400)))
        assert told.allotted["a"].allotted_bytes == told.allotted["b"].allotted_bytes == 400
        told.take(ledger.report("b", uses(told, "b", 410, asked=1)))
        assert told.allotted["b"].allotted_bytes == 400  # the younger has to help itself
        told.take(ledger.report("a", uses(told, "a", 450, asked=1)))
        assert told.allotted["b"].allotted_bytes == 350
        told.take(ledger.report("b", uses(told, "b", 350)))
        assert told.allotted["a"].allotted_bytes == 450


@attrs.define
class Model:
    """A model as it behaves: what it has heard, what it uses, and what it is out of."""

    allotted: int = 0
    most: int = 0
    number: int = 0
    # Each entry is a row, the oldest first: what it takes, and what it takes in the end.
    rows: list[list[int]] = attrs.field(factory=list)
    line: deque[int] = attrs.field(factory=deque)
    cache: int = 0
    asked: int = 0
    waits: bool = False
    heard: bool = False

    @property
    def used(self) -> int:
        return sum(row[0] for row in self.rows)

    @property
    def need(self) -> int:
        """For the next step, in which the oldest row grows."""
        return self.used + sum(row[0] < row[1] for row in self.rows)

    def use(self) -> Use:
        wanted = self.need + (self.line[0] if self.line else 0)
        held_back = len(self.line)
        return Use(self.need, wanted, self.used, self.cache, 0, self.number, self.asked, held_back)


class Machine(RuleBasedStateMachine):
    """Two models that come and go, with messages that arrive late and in order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(LIMIT)
        self.models: dict[str, Model] = {}
        self.loading: dict[str, int] = {}
        self.weights: dict[str, int] = {}
        self.to_models: deque[Allot] = deque()
        self.to_ledger: deque[tuple[str, Use]] = deque()

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Allot():
                    self.to_models.append(action)
                case Start(model_id):
                    weights = self.loading.pop(model_id)
                    self.weights[model_id] = weights
                    self.models[model_id] = Model()
                    self.carry_out(self.ledger.open(model_id, weights))

    @rule(model_id=st.sampled_from("ab"), weights=st.integers(50, 450))
    def load(self, model_id: str, weights: int) -> None:
        if model_id not in self.models and model_id not in self.loading:
            self.loading[model_id] = weights
            self.carry_out(self.ledger.load(model_id, weights))

    @rule(model_id=st.sampled_from("ab"))
    def close(self, model_id: str) -> None:
        self.loading.pop(model_id, None)
        model = self.models.get(model_id)
        if model is None or not model.rows:
            self.models.pop(model_id, None)
            self.weights.pop(model_id, None)
            self.to_models = deque(a for a in self.to_models if a.model_id != model_id)
            self.to_ledger = deque(r for r in self.to_ledger if r[0] != model_id)
            self.carry_out(self.ledger.close(model_id))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), size=st.integers(1, 60), grown=st.integers(0, 40))
    def newcomer(self, data: st.DataObject, size: int, grown: int) -> None:
        model_id = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[model_id]
        model.line.append(size)
        self.say(model_id)

    @precondition(lambda self: self.to_models)
    @rule()
    def a_model_hears(self) -> None:
        allot = self.to_models.popleft()
        model = self.models[allot.model_id]
        model.allotted, model.most = allot.allotted_bytes, allot.most_bytes
        model.number, model.heard = allot.number, True
        model.cache = max(0, min(model.cache, model.allotted - model.used))
        self.say(allot.model_id)

    @precondition(lambda self: self.to_ledger)
    @rule()
    def the_ledger_hears(self) -> None:
        model_id, use = self.to_ledger.popleft()
        self.carry_out(self.ledger.report(model_id, use))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), ends=st.booleans())
    def step(self, data: st.DataObject, ends: bool) -> None:
        self.step_of(data.draw(st.sampled_from(sorted(self.models))), ends)

    def step_of(self, model_id: str, ends: bool) -> None:
        """One turn of a model: it admits, or steps, or asks, or sends its youngest row away."""
        model = self.models[model_id]
        if ends and model.rows:
            model.rows.pop(0)
        while model.line and model.need + model.line[0] + 1 <= model.allotted:
            size = model.line.popleft()
            model.rows.append([size, size + 20])
        model.cache = max(0, min(model.cache, model.allotted - model.need))
        if model.need <= model.allotted:
            for row in model.rows:
                row[0] += row[0] < row[1]
            model.rows = [row for row in model.rows if row[0] < row[1]]
            model.cache = max(0, min(model.cache + 5, model.allotted - model.need))
            model.waits = False
        elif not model.waits:
            model.asked += 1
            model.waits, model.heard = True, False
        elif model.heard:
            size, _ = model.rows.pop()
            model.line.appendleft(size)
            model.waits = False
        if model.line and not model.rows and model.line[0] + 1 > max(model.most, 1):
            model.line.popleft()  # it can never run beside these weights
        self.say(model_id)

    def say(self, model_id: str) -> None:
        self.to_ledger.append((model_id, self.models[model_id].use()))

    @invariant()
    def memory_is_never_passed(self) -> None:
        taken = sum(self.weights.values())
        taken += sum(model.used + model.cache for model in self.models.values())
        assert taken <= LIMIT
        assert self.ledger.free_bytes >= 0
        self.ledger.check_integrity()

    def teardown(self) -> None:
        """Left alone, everything that waits is served, and then nothing is left."""
        for _ in range(3000):
            while self.to_models:
                self.a_model_hears()
            while self.to_ledger:
                self.the_ledger_hears()
                while self.to_models:
                    self.a_model_hears()
            if not any(model.rows or model.line for model in self.models.values()):
                break
            for model_id in sorted(self.models):
                self.step_of(model_id, ends=False)
            self.memory_is_never_passed()
        else:
            raise AssertionError(f"somebody waits for ever: {self.models} {self.ledger!r}")
        for model_id in "ab":
            self.loading.pop(model_id, None)
            self.ledger.close(model_id)
        assert self.ledger.snapshot() == Ledger(LIMIT).snapshot()


TestHistories = Machine.TestCase
TestHistories.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_without_a_limit_nobody_waits(weights: int, rows: int) -> None:
    ledger, told = Ledger(None), Told()
    resident(ledger, told, "a", weights)
    told.take(ledger.report("a", uses(told, "a", rows)))
    assert ledger.admits("a")
    assert ledger.snapshot().limit_bytes is None
    assert told.allotted["a"].allotted_bytes > 1 << 50
