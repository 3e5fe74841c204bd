"""A row that is suspended and added again goes on as if nothing had been."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec

PROMPT = (5, 9, 14, 3, 27, 31, 8)
MIXED = {
    "greedy": {},
    "drawn": {"temperature": 0.9, "top_p": 0.9},
    "penalties": {
        "temperature": 0.7,
        "repetition_penalty": 1.3,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.2,
        "repetition_context_size": 9,
    },
    "a least length": {"temperature": 1.0, "min_tokens": 9, "ignore_eos": False},
}


def spec(row: int, sampling: dict[str, Any], **more: Any) -> RowSpec:
    drawing = Sampling(**{"seed": 11, "temperature": 0.0, **sampling})
    return RowSpec(row, PROMPT, drawing, 16, **more)


def run(hand: Any, *rows: int) -> None:
    for row in rows:
        hand.given.setdefault(row, [])
        hand.prefill(row)


def resume(hand: Any, row: int, other: int) -> RowSpec:
    """Take the row out and put it in again under another number, with its prompt computed anew."""
    suspended: RowSpec = hand.engine.suspend(row)
    hand.engine.add(attrs.evolve(suspended, row=other))
    run(hand, other)
    return suspended


@pytest.mark.parametrize("sampling", MIXED.values(), ids=MIXED.keys())
@pytest.mark.parametrize("after", [0, 1, 7])
def test_it_says_what_it_would_have_said(
    model: Any, take: Any, sampling: dict[str, Any], after: int
) -> None:
    whole = take(model)
    whole.engine.add(spec(1, sampling))
    run(whole, 1)
    whole.decode(16)
    hand = take(model)
    hand.engine.add(spec(1, sampling))
    run(hand, 1)
    if after:
        hand.decode(after)
    suspended = resume(hand, 1, 2)
    assert suspended.resumed == after
    assert suspended.tokens == (*PROMPT, *hand.given[1])
    hand.decode(16 - after)
    assert hand.given[1] + hand.given[2] == whole.given[1]
    assert len(whole.given[1]) == 16


def test_a_prompt_that_was_half_computed_begins_anew(model: Any, take: Any) -> None:
    hand = take(model)
    hand.engine.add(spec(1, {}, siblings=(2,)))
    hand.given |= {1: [], 2: [], 3: [], 4: []}
    hand.prefill(1, 3)
    suspended = hand.engine.suspend(1)
    hand.engine.remove(2)
    assert suspended == spec(1, {}, siblings=(2,))
    hand.engine.add(attrs.evolve(suspended, row=3, siblings=(4,)))
    assert hand.engine.remaining(3) == len(PROMPT) - 1
    hand.prefill(3)
    hand.decode(4)
    assert len(hand.given[3]) == len(hand.given[4]) == 4


def test_tokens_that_were_still_to_be_forced_are_said(take: Any, tiny_llama: Any) -> None:
    hand = take(tiny_llama)
    hand.engine.add(spec(1, {}))
    run(hand, 1)
    hand.decode(2)
    hand.engine.force(1, (50, 51, 52))
    hand.decode(1)
    resume(hand, 1, 2)
    hand.decode(2)
    assert hand.given[1][2:] + hand.given[2] == [50, 51, 52]


def test_its_memory_is_free_meanwhile(take: Any, tiny_llama: Any) -> None:
    hand = take(tiny_llama)
    hand.engine.add(spec(1, {}))
    run(hand, 1)
    hand.decode(3)
    assert hand.engine.kv_bytes() > 0
    hand.engine.suspend(1)
    assert hand.engine.kv_bytes() == 0
    assert hand.engine.suspend(1) is None
