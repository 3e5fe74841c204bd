"""Memory over many requests and many steps: it follows what lives, and nothing adds up."""

from __future__ import annotations

import functools
import gc
import random
from typing import Any

import mlx.core as mx
import pytest

VOCAB = 97
CACHE_BYTES = 60_000


@pytest.fixture
def take(take_with: Any) -> Any:
    return functools.partial(take_with, lookahead=False)


def prompt_of(seed: int, count: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.randrange(1, VOCAB) for _ in range(count))


def active_bytes() -> int:
    gc.collect()
    mx.synchronize()
    return int(mx.get_active_memory())


def test_hundreds_of_prompts_leave_memory_as_it_was_c3(tiny_llama: Any, take: Any) -> None:
    hand = take(tiny_llama)
    hand.engine.limit_cache(CACHE_BYTES)

    def serve(seeds: range) -> int:
        for seed in seeds:
            hand.enter(seed, prompt_of(seed, 60), chunk=32, max_tokens=2)
            hand.decode(2)
            hand.engine.remove(seed)
            hand.given.clear()
        return active_bytes()

    after_some = serve(range(60))
    after_many = serve(range(60, 240))
    assert abs(after_many - after_some) < CACHE_BYTES
    assert hand.engine.cache_use().bytes <= CACHE_BYTES


def test_one_long_answer_takes_its_kv_and_no_more_c8(tiny_llama: Any, take: Any) -> None:
    """What a step computes is evaluated in that step, and its parts are free again."""
    hand = take(tiny_llama)
    hand.enter(0, prompt_of(1, 10), max_tokens=1000)
    hand.decode(20)
    before, kv_before = active_bytes(), hand.engine.kv_bytes()
    hand.decode(400)
    grown, kv_grown = active_bytes() - before, hand.engine.kv_bytes() - kv_before
    assert kv_grown > 0
    # One row of logits and a few small arrays may be alive at either moment.
    assert abs(grown - kv_grown) < 64 * 16384


def test_rows_with_and_without_penalties_come_and_go_together_b2(
    tiny_llama: Any, take: Any, alone: Any
) -> None:
    hand = take(tiny_llama)
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"repetition_penalty": 1.2, "logit_bias": ((5, 1.0),)},
        {"presence_penalty": 0.5},
        {"frequency_penalty": 0.5, "temperature": 1.0},
    )
    draw = random.Random(2)
    live: list[int] = []
    for row in range(60):
        hand.enter(row, prompt_of(row, 8), max_tokens=50, **draw.choice(changes))
        live.append(row)
        hand.decode()
        if len(live) > 4:
            hand.engine.remove(live.pop(draw.randrange(len(live))))
    hand.enter(100, prompt_of(100, 8), max_tokens=50)
    hand.decode(6)
    assert hand.failed == {}
    assert hand.given[100] == alone(tiny_llama, prompt_of(100, 8), 6)
