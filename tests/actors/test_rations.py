"""Who of one model's requests has memory: whatever comes and goes, never more than is allotted."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.actors.gate import Gate, Wish
from headrace.actors.ledger import Allot, Ledger, Use
from headrace.actors.rations import BLOCK_TOKENS, Claim, Rations, renumbered
from headrace.runtime.contracts import Sampling
from headrace.runtime.footprint import Footprint, KvGroup
from headrace.runtime.grouping import padded_tokens
from headrace.runtime.ports import Continuation, RowSpec

BYTE = Footprint((KvGroup(1),))
GREEDY = Sampling(seed=0, temperature=0.0)


@attrs.define(eq=False)
class Request:
    """Stands for a row of the Model actor, of which nothing is asked here."""

    name: str


def spec(row: int, tokens: int, most: int = 100, **more: Any) -> RowSpec:
    return RowSpec(row, (1,) * tokens, GREEDY, most, **more)


def rations(allotted: int, footprint: Footprint = BYTE, cache: int = 0) -> Rations:
    made = Rations(footprint, 16, cache, rationed=True)
    made.obey(Allot("m", allotted, allotted, 1))
    return made


def come(made: Rations, row: int, tokens: int, **more: Any) -> Any:
    request: Any = Request(f"r{row}")
    made.line_up(request, [spec(row, tokens, **more)])
    return request


def names(claims: list[Claim]) -> list[Any]:
    return [claim.row for claim in claims]


def test_before_anything_is_allotted_nobody_joins() -> None:
    made = Rations(BYTE, 16, 0, rationed=True)
    request = come(made, 1, 10)
    assert made.admit() == []
    assert made.use(0).wanted_bytes == 11
    assert made.use(0).held_back == 1
    made.obey(Allot("m", 50, 50, 1))
    assert names(made.admit()) == [request]
    assert made.use(0).held_back == 0


def test_without_rations_everybody_joins() -> None:
    made = Rations(BYTE, 16, 0, rationed=False)
    requests = [come(made, row, 10**6) for row in range(5)]
    assert names(made.admit()) == requests
    assert made.can_step()


def test_a_newcomer_needs_room_to_go_on_and_nobody_passes_it() -> None:
    made = rations(2 * BLOCK_TOKENS + 30)
    first = come(made, 1, 20)
    assert names(made.admit()) == [first]
    come(made, 2, 20)
    come(made, 3, 1)
    assert made.admit() == []
    assert (made.waiting, made.running) == (2, 1)


def test_the_youngest_gives_way_and_comes_back_in_its_turn() -> None:
    made = rations(170)
    come(made, 1, 20)
    younger = come(made, 2, 20)
    assert len(made.admit()) == 2
    steps = 0
    while made.can_step():
        made.stepped()
        steps += 1
    assert 40 + 2 * steps <= 170 < 40 + 2 * (steps + 1)
    made.ask()
    assert made.use(0).rows_bytes > 170
    assert made.use(0).asked == 1
    claim = made.youngest()
    assert claim is not None
    assert claim.row is younger
    newcomer = come(made, 3, 1)
    made.suspend(claim, [spec(4, 20 + steps, resumed=steps)])
    assert made.can_step()
    assert [c.row for c in made.admit()] == []
    made.leave([1])
    assert names(made.admit()) == [younger]
    assert not made.completed(4)
    made.leave([4])
    assert names(made.admit()) == [newcomer]
    assert made.completed(3)


def test_one_that_would_not_fit_even_alone_is_given_up() -> None:
    made = rations(100)
    request = come(made, 1, 150)
    assert made.admit() == []
    claim = made.hopeless()
    assert claim is not None
    assert claim.row is request
    assert made.waiting == 0


def test_one_that_would_fit_alone_waits() -> None:
    made = rations(100)
    made.obey(Allot("m", 100, 500, 2))
    come(made, 1, 150)
    assert made.admit() == []
    assert made.hopeless() is None


def test_rows_that_are_read_and_prompts_that_are_scored_do_not_give_way() -> None:
    made = rations(10_000)
    come(made, 1, 10, most=0)
    come(made, 2, 10, scores_prompt=True)
    assert len(made.admit()) == 2
    claim = made.youngest()
    assert claim is not None
    assert claim.numbers == {1}


def test_what_is_kept_gives_way_to_rows() -> None:
    made = rations(500, cache=300)
    assert made.cache_limit_bytes == 300
    come(made, 1, 250)
    made.admit()
    assert made.can_step()
    assert made.cache_limit_bytes == 500 - 250 - BLOCK_TOKENS


def test_rows_of_one_prompt_join_together() -> None:
    made = rations(300)
    come(made, 1, 50, siblings=(2, 3))
    assert made.running == 0
    made.admit()
    assert made.running == 3
    assert made.use(0).rows_bytes >= 150
    made.leave([1, 2, 3])
    assert made.use(0) == Use(obeyed=1)


def test_numbers_are_new_and_what_was_to_be_said_is_kept() -> None:
    old = spec(1, 5, siblings=(2,), forced=(7,))
    fresh = renumbered(old, {1: 11, 2: 12}, {1: (8, 9)})
    assert (fresh.row, fresh.siblings, fresh.forced) == (11, (12,), (7, 8, 9))


@given(st.data())
@settings(max_examples=60)
def test_whatever_happens_rows_take_no_more_than_is_allotted(data: st.DataObject) -> None:
    """Given rows that come, go and grow, when steps run only as told, then what they take after
    each step is within the allotment, and in the end nothing is left."""
    together = data.draw(st.booleans())
    step_tokens = data.draw(st.sampled_from([1, 16]))
    footprint = Footprint(
        (KvGroup(1),), step_tokens=step_tokens, together=together, bands=data.draw(st.booleans())
    )
    allotted = data.draw(st.integers(50, 600))
    made = rations(allotted, footprint)
    lengths: dict[int, int] = {}
    number = 0
    for _ in range(data.draw(st.integers(1, 60))):
        if data.draw(st.booleans()):
            number += 1
            come(made, number, data.draw(st.integers(1, 80)), most=data.draw(st.integers(1, 150)))
        for claim in made.admit():
            for one in claim.specs:
                lengths[one.row] = len(one.tokens)
                made.completed(one.row)
        if made.can_step():
            lengths = {row: length + 1 for row, length in lengths.items()}
            made.stepped()
            assert footprint.batch_bytes(list(lengths.values())) <= allotted
        elif (youngest := made.youngest()) is not None:
            made.ask()
            gone = sorted(youngest.numbers)
            number += 1
            again = [spec(number, lengths.pop(row), resumed=1) for row in gone]
            made.suspend(youngest, again)
        goes = data.draw(st.booleans())
        if lengths and goes:
            leaver = data.draw(st.sampled_from(sorted(lengths)))
            del lengths[leaver]
            made.leave([leaver])
    made.leave(list(lengths))
    assert made.use(0).rows_bytes == 0


class TestGate:
    @pytest.fixture
    def ledger(self) -> Ledger:
        ledger = Ledger(1000)
        ledger.load("a", 300)
        ledger.open("a", 300)
        ledger.load("b", 200)
        ledger.report("a", Use(obeyed=2))
        ledger.open("b", 200)
        return ledger

    def wish(self, model_id: str, number: int, tokens: int) -> Wish:
        return Wish(model_id, number, BYTE, tokens, 1)

    def test_prompts_are_let_through_while_there_is_memory(self, ledger: Ledger) -> None:
        gate = Gate(ledger, 16)
        for number, tokens in enumerate((200, 200, 200)):
            gate.line_up(f"t{number}", self.wish("a", number, tokens))
        assert [gate.let_run(f"t{number}") for number in range(3)] == [True, True, False]
        assert gate.retry_order() == ["a"]
        gate.leave("t0")
        assert gate.let_run("t2")

    def test_nobody_who_came_later_passes_to_another_model(self, ledger: Ledger) -> None:
        gate = Gate(ledger, 16)
        gate.line_up("large", self.wish("a", 1, 600))
        gate.line_up("small", self.wish("b", 2, 10))
        assert not gate.let_run("large")
        assert not gate.let_run("small")
        assert gate.retry_order() == ["a", "b"]
        gate.leave("large")
        assert gate.let_run("small")

    def test_what_running_rows_have_grown_to_counts(self, ledger: Ledger) -> None:
        gate = Gate(ledger, 16)
        ledger.report("a", Use(rows_bytes=450, taken_bytes=450, obeyed=2))
        gate.line_up("t", self.wish("a", 1, 100))
        assert not gate.let_run("t")


def test_questions_that_share_a_pass_are_counted_with_their_copies_of_the_state() -> None:
    """Given layers of which a token of context takes 2 bytes to copy, when four questions of 4
    tokens stand behind 20, then all of them fit into a chunk and three copies are made."""
    footprint = Footprint((KvGroup(1),), context_bytes=2)
    questions = tuple(Continuation((1,) * 3, (1, 2)) for _ in range(4))
    alone, together = (rations(10_000, footprint) for _ in range(2))
    come(alone, 1, 20, most=0, continuations=questions[:1])
    come(together, 1, 20, most=0, continuations=questions)
    for made in (alone, together):
        assert len(made.admit()) == 1
    more = together.use(0).rows_bytes - alone.use(0).rows_bytes
    assert more == padded_tokens(16) + 3 * 2 * 20
