"""Models whose rows cannot share everything are served all the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import gpt_bigcode, llama, mamba
from mlx_lm.models.cache import CacheList, ConcatenateKVCache, KVCache, QuantizedKVCache

from headrace.actors.engine import kv
from headrace.actors.engine.probe import Sharing, sharing

VOCAB = 97
PROMPTS = [random.Random(n).choices(range(VOCAB), k=n) for n in (6, 1, 19, 3)]


class WithCaches:
    """A model that wants caches of another kind."""

    def __init__(self, model: Any, make: Callable[[], Any]) -> None:
        self.model = model
        self.layers = model.layers
        self.make = make

    def make_cache(self) -> list[Any]:
        return [self.make() for _ in self.layers]

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        logits: mx.array = self.model(tokens, cache=cache)
        return logits


class BreakingOnce(WithCaches):
    """One whose next pass but `passes_left` fails."""

    passes_left = -2

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        self.passes_left -= 1
        if self.passes_left == -1:
            raise RuntimeError("broken")
        return super().__call__(tokens, cache)


class InLists(WithCaches):
    """One whose caches come in lists, as those of hybrid models do."""

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        logits: mx.array = self.model(tokens, cache=[layer[0] for layer in cache])
        return logits


def made(model_type: Any, args: Any) -> Any:
    mx.random.seed(3)
    model = model_type(args)
    mx.eval(model.parameters())
    return model


def concatenating(tiny_llama: Any) -> Any:
    return WithCaches(tiny_llama, ConcatenateKVCache)


def in_lists(tiny_llama: Any) -> Any:
    return InLists(tiny_llama, lambda: CacheList(KVCache()))


def quantized(_: Any) -> Any:
    model = llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=64,
            num_hidden_layers=2,
            intermediate_size=64,
            num_attention_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCAB,
        )
    )
    mx.eval(model.parameters())
    return WithCaches(model, lambda: QuantizedKVCache(group_size=32, bits=8))


def taking_one_offset(_: Any) -> Any:
    return made(
        gpt_bigcode.Model,
        gpt_bigcode.ModelArgs(
            model_type="gpt_bigcode",
            n_embd=32,
            n_layer=2,
            n_inner=64,
            n_head=4,
            n_positions=128,
            layer_norm_epsilon=1e-5,
            vocab_size=VOCAB,
        ),
    )


def blind_to_padding(_: Any) -> Any:
    return made(
        mamba.Model,
        mamba.ModelArgs(
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
        ),
    )


KINDS = {
    concatenating: Sharing(decode=False, prompts=False),
    quantized: Sharing(decode=False, prompts=False),
    taking_one_offset: Sharing(decode=False, prompts=False),
    blind_to_padding: Sharing(decode=True, prompts=False),
    in_lists: Sharing(decode=True, prompts=True),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_rows_may_share_is_found_out(kind: Callable[[Any], Any], tiny_llama: Any) -> None:
    assert sharing(kind(tiny_llama), VOCAB) == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_model_serves_many_rows(
    kind: Callable[[Any], Any], tiny_llama: Any, take: Callable[..., Any], alone: Any
) -> None:
    model = kind(tiny_llama)
    expected = [alone(model, prompt, 12) for prompt in PROMPTS]
    hand = take(model)
    hand.enter(0, PROMPTS[0])
    hand.decode(2)
    hand.enter(1, PROMPTS[1])
    hand.decode(2)
    for row in (2, 3):
        hand.add(row, PROMPTS[row])
    hand.prefill_together(2, 3)
    hand.decode(3)
    hand.engine.remove(1)
    hand.decode(9)
    assert not hand.failed
    assert hand.given == dict(enumerate([expected[0], expected[1][:5], *expected[2:]]))
    for row in range(4):
        hand.engine.remove(row)
    assert repr(hand.engine) == "<BatchEngine 0 rows, 0 ready, 0 in 0 batches>"


def test_one_broken_row_of_a_model_that_cannot_batch_leaves_the_others_be(
    tiny_llama: Any, take: Callable[..., Any]
) -> None:
    model = BreakingOnce(tiny_llama, ConcatenateKVCache)
    hand = take(model)
    for row in range(3):
        hand.enter(row, PROMPTS[0])
    hand.decode(2)
    model.passes_left = 1
    hand.decode()
    assert list(hand.failed) == [1]
    assert [len(hand.given[row]) for row in range(3)] == [3, 2, 3]


def test_caches_without_a_size_of_their_own_are_measured_by_their_arrays() -> None:
    class Sizeless(KVCache):
        @property
        def nbytes(self) -> int:
            raise NotImplementedError

    kind: Any = Sizeless
    cache = kind()
    cache.update_and_fetch(mx.zeros((1, 2, 3, 4)), mx.zeros((1, 2, 3, 4)))
    assert kv.nbytes([cache]) == 2 * 2 * 256 * 4 * 4
