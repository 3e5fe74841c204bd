"""A piece of a prompt and a token for each row in one pass: nobody can tell it from two."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.actors.engine import mixed
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec

VOCAB = 97
PROMPTS = [random.Random(n).choices(range(VOCAB), k=n) for n in (6, 40, 2)]
LONG = random.Random(9).choices(range(VOCAB), k=700)
# Pieces of the long prompt, all but its last token.
PIECES = [1, 90, 8, 400, 199, 1]


def streaming(take_with: Callable[..., Any], model: Any, rows: int = 3) -> Any:
    """Rows that have said two tokens each."""
    hand = take_with(model, lookahead=False)
    for row, prompt in enumerate(PROMPTS[:rows]):
        hand.enter(row, prompt, max_tokens=30)
    hand.decode(2)
    return hand


def advance(hand: Any, row: int, count: int) -> None:
    """By a mixed step, which has to be possible."""
    assert hand.engine.can_mix(row)
    result = hand.engine.mixed(row, count)
    assert result.prefilled == count
    hand._note(result)


@pytest.mark.parametrize("rows", [1, 3])
def test_all_say_what_they_say_alone(
    tiny_llama: Any, take_with: Any, alone: Any, rows: int
) -> None:
    hand = streaming(take_with, tiny_llama, rows)
    hand.engine.limit_cache(1 << 20)
    hand.add(8, LONG)
    for count in PIECES:
        advance(hand, 8, count)
    assert hand.engine.remaining(8) == 0
    hand.decode(12)
    assert not hand.failed
    assert hand.given[8] == alone(tiny_llama, LONG, 12)
    for row, prompt in enumerate(PROMPTS[:rows]):
        assert hand.given[row] == alone(tiny_llama, prompt, 20)
    # What was computed beside others is kept for whoever begins alike.
    hand.engine.remove(8)
    hand.enter(9, [*LONG[:650], 5], max_tokens=4)
    assert hand.engine.reused(9) == 650
    hand.decode(4)
    assert hand.given[9] == alone(tiny_llama, [*LONG[:650], 5], 4)


@pytest.mark.parametrize("gone", [0, 1, 8])
def test_a_row_may_leave_between_any_two_pieces(
    tiny_llama: Any, take_with: Any, alone: Any, gone: int
) -> None:
    for moment in range(len(PIECES)):
        hand = streaming(take_with, tiny_llama)
        hand.add(8, LONG)
        for number, count in enumerate(PIECES):
            if number == moment:
                hand.engine.remove(gone)
            if gone != 8 or number < moment:
                advance(hand, 8, count)
        hand.decode(5)
        assert not hand.failed
        for row in {0, 1, 2, 8} - {gone}:
            prompt = LONG if row == 8 else PROMPTS[row]
            assert hand.given[row] == alone(tiny_llama, prompt, len(hand.given[row])), moment
            assert len(hand.given[row]) >= 5


def test_a_row_that_is_ready_joins_with_the_next_piece(
    tiny_llama: Any, take_with: Any, alone: Any
) -> None:
    hand = streaming(take_with, tiny_llama, rows=1)
    hand.enter(1, PROMPTS[1])
    hand.add(8, LONG)
    advance(hand, 8, 50)
    assert len(hand.given[1]) == 1
    advance(hand, 8, 50)
    assert hand.given[1] == alone(tiny_llama, PROMPTS[1], 2)


def test_a_pass_that_fails_ends_the_rows_that_were_in_it(
    tiny_llama: Any, take_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = streaming(take_with, tiny_llama)
    hand.add(8, LONG)

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(mixed, "logits_of_first", broken)
    hand._note(hand.engine.mixed(8, 50))
    assert set(hand.failed) == {0, 1, 2, 8}
    assert hand.engine.kv_bytes() == 0
    monkeypatch.undo()
    hand.enter(0, PROMPTS[0])
    hand.decode()
    assert len(hand.given[0]) == 1


def test_it_is_for_plain_prompts_beside_rows_that_decode(tiny_llama: Any, take_with: Any) -> None:
    hand = take_with(tiny_llama, lookahead=False)
    hand.add(8, LONG)
    assert not hand.engine.can_mix(8)
    hand.enter(0, PROMPTS[0])
    assert not hand.engine.can_mix(8)
    hand.decode()
    assert hand.engine.can_mix(8)
    scored = RowSpec(9, tuple(LONG), Sampling(seed=1), 1, scores_prompt=True, logprobs=0)
    hand.engine.add(scored)
    assert not hand.engine.can_mix(9)
    hand.engine.remove(0)
    assert not hand.engine.can_mix(8)


@pytest.mark.parametrize("lookahead", [False, True])
def test_other_batches_and_other_models_take_one_step_after_the_other(
    tiny_llama: Any, tiny_gemma: Any, take_with: Any, lookahead: bool
) -> None:
    hand = take_with(tiny_llama if lookahead else tiny_gemma, lookahead=lookahead)
    hand.enter(0, PROMPTS[0])
    hand.decode()
    hand.add(8, LONG)
    assert not hand.engine.can_mix(8)
