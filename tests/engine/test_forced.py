"""A row that is made to say something goes on from it as if it had drawn it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PROMPT, NEIGHBOUR, FORCED = [5, 17, 3, 40], [9, 8, 7], [11, 60, 2]


def expected(alone: Any, model: Any, before: int, count: int) -> list[int]:
    drawn = alone(model, PROMPT, before)
    said = [*drawn, *FORCED]
    if len(said) < count:
        said += alone(model, [*PROMPT, *said], count - len(said))
    return said[:count]


@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_lone_row(model: Any, take: Callable[..., Any], alone: Any, before: int) -> None:
    hand = take(model)
    hand.enter(1, PROMPT, max_tokens=20)
    if before:
        hand.decode(before)
    hand.engine.force(1, FORCED)
    hand.decode(20 - before)
    assert hand.given[1] == expected(alone, model, before, 20)


def test_its_neighbours_do_not_feel_it(model: Any, take: Callable[..., Any], alone: Any) -> None:
    hand = take(model)
    hand.enter(1, PROMPT, max_tokens=20)
    hand.enter(2, NEIGHBOUR, max_tokens=20)
    hand.decode(4)
    hand.engine.force(1, FORCED)
    hand.decode(16)
    assert hand.given == {1: expected(alone, model, 4, 20), 2: alone(model, NEIGHBOUR, 20)}


def test_with_a_penalty_what_was_forced_counts_as_said(
    model: Any, take: Callable[..., Any]
) -> None:
    hand = take(model)
    hand.enter(1, PROMPT, max_tokens=12, repetition_penalty=10.0, repetition_context_size=0)
    hand.decode(2)
    hand.engine.force(1, FORCED)
    hand.decode(10)
    assert hand.given[1][2:5] == FORCED
    assert not set(FORCED) & set(hand.given[1][5:])


def test_a_cap_within_what_is_forced(model: Any, take: Callable[..., Any], alone: Any) -> None:
    hand = take(model)
    hand.enter(1, PROMPT, max_tokens=4)
    hand.decode(2)
    hand.engine.force(1, FORCED)
    hand.decode(2)
    assert hand.given[1] == expected(alone, model, 2, 4)


def test_a_row_that_is_gone_is_none_to_force(model: Any, take: Callable[..., Any]) -> None:
    hand = take(model)
    hand.enter(1, PROMPT)
    hand.engine.remove(1)
    hand.engine.force(1, FORCED)
    assert hand.engine.decode().tokens == ()
