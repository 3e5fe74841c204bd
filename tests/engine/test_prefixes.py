"""What rows have computed serves others that begin alike, and never changes a token."""

from __future__ import annotations

import functools
import gc
import random
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import mamba
from mlx_lm.models.cache import CacheList, ConcatenateKVCache, KVCache

from headrace.actors.engine import kv
from headrace.actors.engine.batch import BatchEngine
from headrace.actors.engine.segments import can_be_cut, leaves

VOCAB = 97
LIMIT = 1 << 30
ANSWER = 5


def tokens_of(seed: int, count: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.randrange(VOCAB) for _ in range(count))


PROMPT = tokens_of(1, 40)


class WithCaches:
    """A model that wants caches of another kind."""

    def __init__(self, model: Any, make: Callable[[], Any], *, in_lists: bool = False) -> None:
        self.model = model
        self.layers = model.layers
        self.make = make
        self.in_lists = in_lists

    def make_cache(self) -> list[Any]:
        return [self.make() for _ in self.layers]

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        if self.in_lists:
            cache = [layer[0] for layer in cache]
        logits: mx.array = self.model(tokens, cache=cache)
        return logits


@pytest.fixture(scope="session")
def tiny_mamba() -> Any:
    """Every layer keeps a state of one size, whatever it has read."""
    mx.set_default_device(mx.cpu)
    mx.random.seed(3)
    args = mamba.ModelArgs(
        model_type="mamba",
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        state_size=8,
        num_hidden_layers=2,
        conv_kernel=4,
        use_bias=False,
        use_conv_bias=True,
        time_step_rank=4,
    )
    model = mamba.Model(args)
    mx.eval(model.parameters())
    return model


@pytest.fixture(params=["llama", "gemma", "mamba", "lists", "concatenating"])
def any_model(request: pytest.FixtureRequest) -> Any:
    """Keys and values, windows, states, lists of caches, and a kind that nobody knows."""
    if request.param == "lists":
        tiny = request.getfixturevalue("tiny_llama")
        return WithCaches(tiny, lambda: CacheList(KVCache()), in_lists=True)
    if request.param == "concatenating":
        return WithCaches(request.getfixturevalue("tiny_llama"), ConcatenateKVCache)
    return request.getfixturevalue(f"tiny_{request.param}")


@pytest.fixture
def take(take_with: Any) -> Any:
    return functools.partial(take_with, lookahead=False)


@pytest.fixture
def take_either(take_with: Any, lookahead: bool) -> Any:
    """The same, once in each mode."""
    return functools.partial(take_with, lookahead=lookahead)


def keeping(hand: Any, max_bytes: int = LIMIT) -> Any:
    hand.engine.limit_cache(max_bytes)
    assert hand.engine.cache_use().max_bytes == max_bytes
    return hand


def ask(hand: Any, row: int, prompt: Sequence[int], **more: Any) -> int:
    """One whole request by itself; the prompt tokens that it did not have to compute."""
    hand.enter(row, prompt, **{"max_tokens": ANSWER, "chunk": 16, **more})
    reused: int = hand.engine.reused(row)
    hand.decode(ANSWER)
    hand.engine.remove(row)
    return reused


def test_nothing_is_kept_before_it_is_allowed(tiny_llama: Any, take: Any) -> None:
    hand = take(tiny_llama)
    ask(hand, 0, PROMPT)
    assert ask(hand, 1, PROMPT) == 0
    assert hand.engine.cache_use().bytes == 0


def test_every_cut_of_a_prompt_gives_the_tokens_of_a_cold_one(
    any_model: Any, take: Any, alone: Any
) -> None:
    hand = keeping(take(any_model))
    ask(hand, 0, PROMPT)
    # States are kept at few places only.
    anywhere = all(map(can_be_cut, leaves(kv.fresh(any_model))))
    for cut in range(1, len(PROMPT), 1 if anywhere else 4):
        prompt = (*PROMPT[:cut], *tokens_of(100 + cut, 4))
        reused = ask(hand, cut, prompt)
        assert hand.given[cut] == alone(any_model, prompt, ANSWER), f"cut at {cut}"
        assert reused <= cut + 1
    assert not hand.failed


def test_keys_and_values_are_reused_up_to_the_very_token(tiny_llama: Any, take: Any) -> None:
    hand = keeping(take(tiny_llama))
    ask(hand, 0, PROMPT)
    for cut in range(1, len(PROMPT)):
        # No prompt that was kept begins with this token behind this cut.
        other = (PROMPT[cut] + 1) % VOCAB
        assert ask(hand, cut, (*PROMPT[:cut], other, other)) == cut


@pytest.mark.parametrize("name", ["tiny_gemma", "tiny_mamba"])
def test_windows_and_states_are_gone_on_from_where_two_prompts_have_parted_e2(
    name: str, request: pytest.FixtureRequest, take: Any, alone: Any
) -> None:
    model = request.getfixturevalue(name)
    hand = keeping(take(model))
    prompts = [(*PROMPT[:30], *tokens_of(200 + n, 9)) for n in range(3)]
    # The second finds out where they part, and the third has the use of it.
    assert [ask(hand, n, prompt) for n, prompt in enumerate(prompts)] == [0, 0, 30]
    for n, prompt in enumerate(prompts):
        assert hand.given[n] == alone(model, prompt, ANSWER)


def test_the_same_prompt_again_computes_nothing_e4(any_model: Any, take: Any, alone: Any) -> None:
    hand = keeping(take(any_model))
    ask(hand, 0, PROMPT)
    hand.add(1, PROMPT, max_tokens=ANSWER)
    assert hand.engine.remaining(1) == 0
    assert hand.engine.reused(1) == len(PROMPT) - 1
    hand.decode(ANSWER)
    assert hand.given[1] == alone(any_model, PROMPT, ANSWER)


def test_the_next_turn_of_a_conversation_has_the_answer_already_e6(
    any_model: Any, take_either: Any, alone: Any
) -> None:
    hand = keeping(take_either(any_model))
    prompt, known = PROMPT[:20], 0
    for turn in range(4):
        reused = ask(hand, turn, prompt)
        assert hand.given[turn] == alone(any_model, prompt, ANSWER)
        assert reused >= known
        known = len(prompt) + ANSWER - 1
        prompt = (*prompt, *hand.given[turn], *tokens_of(300 + turn, 6))


def test_an_answer_is_kept_from_among_others_that_go_on_e3(
    any_model: Any, take_either: Any, alone: Any
) -> None:
    hand = keeping(take_either(any_model))
    prompts = [tokens_of(400 + n, 9 + 4 * n) for n in range(4)]
    for row, prompt in enumerate(prompts):
        hand.enter(row, prompt, max_tokens=30)
        hand.decode(2)
    hand.engine.remove(1)
    hand.decode()
    hand.engine.remove(2)
    for row in (1, 2):
        said = hand.given[row]
        again = (*prompts[row], *said, 5)
        hand.enter(10 + row, again, max_tokens=ANSWER)
        assert hand.engine.reused(10 + row) >= len(prompts[row]) + len(said) - 1
        hand.decode(ANSWER)
        assert hand.given[10 + row] == alone(any_model, again, ANSWER)
    for row in (0, 3):
        assert hand.given[row] == alone(any_model, prompts[row], len(hand.given[row]))


def test_prompts_that_come_together_compute_what_they_share_once(
    tiny_llama: Any, take: Any, alone: Any
) -> None:
    hand = keeping(take(tiny_llama))
    prompts = [(*PROMPT, n, *tokens_of(500 + n, 4)) for n in range(6)]
    for row, prompt in enumerate(prompts):
        hand.add(row, prompt, max_tokens=ANSWER)
    result = hand.engine.prefill([(row, hand.engine.remaining(row)) for row in range(6)])
    assert result.prefilled == len(PROMPT) + 6 * 5 - 6
    hand.decode(ANSWER)
    for row, prompt in enumerate(prompts):
        assert hand.given[row] == alone(tiny_llama, prompt, ANSWER)
    use = hand.engine.cache_use()
    assert (use.hits, use.misses) == (5, 1)
    assert use.tokens_reused == 5 * len(PROMPT)


def test_one_that_waits_moves_on_with_each_chunk_of_another(any_model: Any, take: Any) -> None:
    hand = keeping(take(any_model))
    for row in range(2):
        hand.add(row, (*PROMPT, row), max_tokens=ANSWER)
    while hand.engine.remaining(0):
        hand.prefill(0, 16)
    assert hand.engine.remaining(1) == 0


def test_of_two_equal_prompts_one_is_computed(any_model: Any, take: Any, alone: Any) -> None:
    hand = keeping(take(any_model))
    for row in range(2):
        hand.add(row, PROMPT, max_tokens=ANSWER)
    hand.prefill_together(0, 1)
    hand.decode(ANSWER)
    expected = alone(any_model, PROMPT, ANSWER)
    assert hand.given == {0: expected, 1: expected}
    assert hand.engine.reused(1) == len(PROMPT) - 1


def test_one_that_is_cancelled_in_its_prompt_leaves_what_it_has_done(
    tiny_llama: Any, take: Any
) -> None:
    hand = keeping(take(tiny_llama))
    hand.add(0, PROMPT)
    hand.prefill(0, 20)
    hand.engine.remove(0)
    hand.add(1, PROMPT)
    assert hand.engine.remaining(1) == len(PROMPT) - 1 - 20


def test_what_a_waiting_row_has_found_cannot_be_taken_from_it(
    any_model: Any, take: Any, alone: Any
) -> None:
    hand = keeping(take(any_model))
    ask(hand, 0, PROMPT)
    again = (*PROMPT, *tokens_of(1, 30))
    hand.add(1, again, max_tokens=ANSWER)
    left = hand.engine.remaining(1)
    assert left < len(again) - 1
    held = hand.engine.cache_use().bytes
    hand.engine.free_cache(LIMIT)
    assert 0 < hand.engine.cache_use().bytes <= held
    assert hand.engine.remaining(1) == left
    hand.prefill(1)
    hand.decode(ANSWER)
    assert hand.given[1] == alone(any_model, again, ANSWER)
    hand.engine.remove(1)
    hand.engine.free_cache(LIMIT)
    assert hand.engine.cache_use().bytes == 0


def test_the_bytes_that_are_told_are_those_that_are_held_c4(any_model: Any, take: Any) -> None:
    hand = keeping(take(any_model))
    ask(hand, 9, PROMPT)
    hand.engine.free_cache(LIMIT)
    gc.collect()
    mx.synchronize()
    before = mx.get_active_memory()
    for row in range(6):
        ask(hand, row, (*PROMPT[: 6 * row], *tokens_of(600 + row, 10)))
    mx.synchronize()
    told = hand.engine.cache_use().bytes
    held = mx.get_active_memory() - before
    # Buffers are rounded up, by no more than a page each.
    assert told <= held <= told + 64 * 16384
    assert hand.engine.kv_bytes() == 0
    freed = hand.engine.free_cache(told // 2)
    assert told // 2 <= freed
    assert hand.engine.cache_use().bytes == told - freed
    hand.engine.free_cache(told)
    mx.synchronize()
    assert hand.engine.cache_use().entries == 0
    assert mx.get_active_memory() <= before


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_mamba"])
def test_the_limit_holds_whatever_comes_e5(
    name: str, request: pytest.FixtureRequest, take: Any, alone: Any
) -> None:
    model = request.getfixturevalue(name)
    hand = keeping(take(model), 40_000)
    for row in range(8):
        prompt = tokens_of(700 + row % 5, 30 + row)
        ask(hand, row, prompt)
        assert hand.given[row] == alone(model, prompt, ANSWER)
        assert hand.engine.cache_use().bytes <= 40_000
    assert hand.engine.cache_use().evictions > 0
    hand.engine.limit_cache(0)
    assert hand.engine.cache_use().bytes == 0
    assert ask(hand, 20, prompt) == 0


def test_rows_that_failed_leave_nothing(tiny_llama: Any, take_with: Any) -> None:
    class Breaking(WithCaches):
        broken = False

        def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
            if self.broken:
                raise RuntimeError("broken")
            return super().__call__(tokens, cache)

    model = Breaking(tiny_llama, KVCache)
    hand = keeping(take_with(model, lookahead=False))
    hand.enter(0, PROMPT[:10])
    hand.decode(3)
    kept = hand.engine.cache_use().bytes
    model.broken = True
    hand.decode()
    assert list(hand.failed) == [0]
    assert hand.engine.cache_use().bytes == kept


def test_a_model_whose_prefixes_do_not_do_keeps_none(tiny_llama: Any) -> None:
    class Forgetful(KVCache):
        """Copies of it hold nothing."""

        def __deepcopy__(self, memo: Any) -> Any:
            return type(self)()

    engine = BatchEngine(
        WithCaches(tiny_llama, Forgetful), end_tokens=[0], vocab_size=VOCAB, lookahead=False
    )
    engine.limit_cache(LIMIT)
    assert engine.cache_use().max_bytes == 0


def test_a_closed_engine_keeps_nothing(tiny_llama: Any, take: Any) -> None:
    hand = keeping(take(tiny_llama))
    ask(hand, 0, PROMPT)
    assert hand.engine.cache_use().bytes > 0
    hand.engine.close()
    assert hand.engine.cache_use().bytes == 0


def test_conversations_under_eviction_say_what_they_would_say_alone_e1(
    any_model: Any, take: Any, alone: Any
) -> None:
    """Many conversations at once, each with a secret of its own, where few can be kept."""
    draw = random.Random(1)
    hand = keeping(take(any_model), 60_000)
    system = tokens_of(800, 20)
    said = {n: (*system, *tokens_of(900 + n, 5)) for n in range(8)}
    numbers = iter(range(1000))
    for _ in range(4):
        rows = {next(numbers): n for n in draw.sample(range(8), 4)}
        for row, n in rows.items():
            hand.add(row, said[n], max_tokens=ANSWER)
        for row in draw.sample(list(rows), 4):
            while hand.engine.remaining(row):
                hand.prefill(row, draw.choice([4, 16, 64]))
                hand.decode()
        while any(len(hand.given[row]) < ANSWER for row in rows):
            hand.decode()
        for row, n in rows.items():
            assert hand.given[row][:ANSWER] == alone(any_model, said[n], ANSWER)
            hand.engine.remove(row)
            said[n] = (*said[n], *hand.given[row], *tokens_of(row, 4))
    assert hand.engine.cache_use().evictions > 0
