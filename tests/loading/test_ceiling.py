"""A ceiling of weights plus a little: a model waits, clamps and refuses, and never passes it."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import trio

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.load import MlxLoader
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.actors.spec import ModelSpec
from headrace.runtime.contracts import InferenceRequest, Prompt, Sampling
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing.runtime import Answer, ask

WINDOW = 2048
# One row of 256 tokens takes 131 kB of keys and values, and a chunk of its prompt about 300 kB.
ROWS_BYTES = 1_000_000


@asynccontextmanager
async def ceiling(folder: Path) -> AsyncIterator[Runtime]:
    expected = estimate(folder, "float32")
    spec = ModelSpec(folder.name, str(folder), expected.weights_bytes, expected)
    limit = expected.weights_bytes + ROWS_BYTES
    provision = Provision((spec,), MlxLoader(), limit, memory_bytes=limit)
    settings = Settings(prefill_chunk_tokens=32, prompt_cache_bytes=100_000)
    async with open_runtime(settings, provision=provision) as runtime:
        await runtime.load(spec.id)
        yield runtime


def request(name: str, prompt_tokens: int, max_tokens: int) -> InferenceRequest:
    tokens = tuple(5 + (ord(name[0]) * n) % 300 for n in range(prompt_tokens))
    return InferenceRequest(
        id=name,
        model=None,
        prompt=Prompt(tokens=tokens),
        sampling=Sampling(seed=1, temperature=0.8, ignore_eos=True),
        max_tokens=max_tokens,
    )


async def test_more_than_memory_holds_is_all_answered(model_folder: Any) -> None:
    folder = model_folder(max_position_embeddings=WINDOW)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    answers: dict[str, Answer] = {}
    async with ceiling(folder) as runtime:
        ledger = runtime.statistics().ledger
        assert ledger.limit_bytes is not None
        mx.reset_peak_memory()

        async def client(name: str, prompt_tokens: int, max_tokens: int) -> None:
            answers[name] = await ask(runtime, request(name, prompt_tokens, max_tokens))

        async with trio.open_nursery() as nursery:
            for name in "abcdefgh":
                nursery.start_soon(client, name, 190, 90)
            nursery.start_soon(client, "long", WINDOW - 1, 5)
            nursery.start_soon(client, "greedy", 100, 10_000)
        peak = mx.get_peak_memory() - before
        ended = runtime.statistics().ledger
        suspended = runtime.trace.events("row.suspended")
    assert all(answers[name].code is None for name in "abcdefgh")
    for name in "abcdefgh":
        assert answers[name].end.usage.completion_tokens == 90  # type: ignore[union-attr]
    assert suspended, "memory was never short"
    assert answers["long"].code is Code.CONTEXT_OVER_BUDGET
    assert [w.code for w in answers["greedy"].accepted.warnings] == ["max_tokens_clamped"]
    # While buffers grow a layer is there twice. Here that is half of all keys and values, since
    # there are two layers; of a real model it is a thirtieth. All rows at once would take 3 MB.
    assert peak <= ledger.limit_bytes + ROWS_BYTES
    assert (ended.reserved_bytes, ended.transient_bytes, ended.held_back) == (0, 0, 0)
