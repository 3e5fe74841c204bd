"""A row may be removed at any moment, and nobody else notices."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

PROMPTS = [random.Random(n).choices(range(97), k=n) for n in (6, 13, 1, 9)]
VICTIM = 1


def script(hand: Any) -> list[Callable[[], Any]]:
    """Everything that happens to four rows, one step each; the victim is one of them."""

    def chunk(row: int, count: int | None = None) -> Callable[[], Any]:
        return lambda: row in hand.engine_rows and hand.prefill(row, count)

    def together(*rows: int) -> Callable[[], Any]:
        def prefill() -> None:
            here = [row for row in rows if row in hand.engine_rows]
            if here:
                hand.prefill_together(*here)

        return prefill

    return [
        lambda: hand.add(0, PROMPTS[0]),
        lambda: hand.add(1, PROMPTS[1]),
        chunk(0),
        hand.decode,
        chunk(1, 5),
        hand.decode,
        lambda: hand.add(2, PROMPTS[2]),
        lambda: hand.add(3, PROMPTS[3]),
        together(1, 3),
        hand.decode,
        hand.decode,
        hand.decode,
        *[hand.decode] * 12,
    ]


class Watched:
    """A hand that knows which rows are in the engine."""

    def __init__(self, hand: Any) -> None:
        self.hand = hand
        self.engine_rows: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hand, name)

    def add(self, row: int, prompt: list[int]) -> None:
        self.engine_rows.add(row)
        self.hand.add(row, prompt)

    def remove(self, row: int) -> None:
        self.engine_rows.discard(row)
        self.hand.engine.remove(row)


def test_a_row_removed_at_any_step_changes_no_other(
    model: Any, take: Callable[..., Any], alone: Any
) -> None:
    expected = {row: alone(model, prompt, 12) for row, prompt in enumerate(PROMPTS)}
    length = len(script(Watched(take(model))))
    for moment in range(1, length + 1):
        hand = Watched(take(model))
        for number, step in enumerate(script(hand), 1):
            step()
            if number == moment:
                hand.remove(VICTIM)
        hand.decode()
        assert not hand.failed
        for row in (0, 2, 3):
            assert hand.given[row] == expected[row], f"removed after step {moment}"
        victim = hand.given.get(VICTIM, [])
        assert victim == expected[VICTIM][: len(victim)]


def test_a_removed_row_gets_nothing_more(tiny_llama: Any, take: Callable[..., Any]) -> None:
    hand = take(tiny_llama)
    for row in range(3):
        hand.enter(row, PROMPTS[1])
    hand.decode(2)
    hand.engine.remove(VICTIM)
    assert VICTIM not in [token.row for token in hand.decode().tokens]
    hand.engine.remove(0)
    hand.engine.remove(2)
    assert hand.engine.kv_bytes() == 0
    assert hand.decode().tokens == ()


@pytest.mark.parametrize("chunk", [0, 4, None], ids=["queued", "in its prefill", "ready"])
def test_a_row_removed_before_it_decodes_leaves_nothing(
    tiny_llama: Any, chunk: int | None, take: Callable[..., Any]
) -> None:
    hand = take(tiny_llama)
    hand.add(0, PROMPTS[1])
    if chunk != 0:
        hand.prefill(0, chunk)
        assert hand.engine.kv_bytes() > 0
    hand.engine.remove(0)
    assert hand.engine.kv_bytes() == 0
    assert hand.decode().tokens == ()
    assert repr(hand.engine) == "<BatchEngine 0 rows, 0 ready, 0 in 0 batches>"


def test_unknown_rows_are_ignored(tiny_llama: Any, take: Callable[..., Any]) -> None:
    hand = take(tiny_llama)
    hand.engine.remove(5)
    hand.enter(0, PROMPTS[0])
    hand.engine.remove(0)
    hand.engine.remove(0)
    assert hand.decode().tokens == ()


def test_a_row_number_that_is_gone_may_not_be_mistaken(
    tiny_llama: Any, take: Callable[..., Any], alone: Any
) -> None:
    # The victim's slot is still in the batch when another row is added.
    hand = take(tiny_llama)
    for row in (0, 1):
        hand.enter(row, PROMPTS[row])
    hand.decode(3)
    hand.engine.remove(0)
    hand.enter(2, PROMPTS[3])
    hand.decode(9)
    assert hand.given[1] == alone(tiny_llama, PROMPTS[1], 12)
    assert hand.given[2] == alone(tiny_llama, PROMPTS[3], 12)[:9]


def test_after_all_rows_have_ended_only_the_model_is_in_memory(
    model: Any, take: Callable[..., Any]
) -> None:
    hand = take(model)
    # What another test left to be collected would be gone from the count later.
    gc.collect()
    mx.synchronize()
    mx.clear_cache()
    before = hand.engine.memory().active_bytes
    for round_ in range(3):
        rows = range(10 * round_, 10 * round_ + 6)
        for row in rows:
            hand.enter(row, PROMPTS[row % 4], 5, temperature=1.0, top_p=0.9)
            hand.decode()
        hand.decode(3)
        assert hand.engine.memory().active_bytes > before
        for row in rows:
            hand.engine.remove(row)
        mx.synchronize()
        assert hand.engine.memory().active_bytes == before
        assert hand.engine.kv_bytes() == 0


def test_a_closed_engine_holds_nothing(tiny_llama: Any, take: Callable[..., Any]) -> None:
    gc.collect()
    before = mx.get_active_memory()
    hand = take(tiny_llama)
    for row in range(3):
        hand.enter(row, PROMPTS[1])
    hand.add(3, PROMPTS[1])
    hand.prefill(3, 4)
    hand.decode(2)
    hand.engine.close()
    assert hand.engine.kv_bytes() == 0
    assert mx.get_active_memory() == before
    assert mx.get_cache_memory() == 0


def test_a_row_that_leaves_stops_counting_at_once_and_its_room_is_given_back_soon(
    tiny_llama: Any, take: Callable[..., Any]
) -> None:
    hand = take(tiny_llama)
    for row in range(3):
        hand.enter(row, PROMPTS[1], max_tokens=50)
    hand.decode(2)
    of_three, active = hand.engine.kv_bytes(), mx.get_active_memory()
    hand.engine.remove(VICTIM)
    assert hand.engine.kv_bytes() == of_three * 2 // 3
    hand.decode()
    assert hand.engine.kv_bytes() == of_three * 2 // 3
    hand.decode(9)
    assert mx.get_active_memory() < active - of_three // 4
