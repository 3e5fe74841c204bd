"""Task completions of the real model."""

from __future__ import annotations

import attrs
import pytest
import trio

from headrace.actors.completing import Completions
from headrace.actors.runtime import open_runtime
from headrace.runtime.contracts import InferenceRequest
from headrace.runtime.settings import Settings
from headrace.runtime.testing.runtime import asking


def endless(row: InferenceRequest) -> InferenceRequest:
    sampling = attrs.evolve(row.sampling, ignore_eos=True)
    return attrs.evolve(row, sampling=sampling, max_tokens=1500)


@pytest.mark.slow  # the model is loaded for it alone; tests/sdk/test_synthesize.py is in the gate
async def test_rows_together_say_what_each_says_alone() -> None:
    rows = [
        asking(text, max_tokens=8)
        for text in ("What is a mill?", "Name three rivers, and where they begin.", "Hi")
    ]
    async with open_runtime(Settings(in_process=True)) as runtime:
        client = Completions(runtime)
        together = await client.complete_batch(rows)
        texts = [completion.text for completion in together]
        assert texts == [(await client.complete(row)).text for row in rows]
        assert len(set(texts)) == 3
        assert all(0 < completion.usage.completion_tokens <= 8 for completion in together)

        with trio.move_on_after(0.2) as scope:
            await client.complete_batch([endless(row) for row in rows])
        assert scope.cancelled_caught
        state = runtime.statistics()
        assert (state.rows_running, state.kv_bytes, state.leases) == (0, 0, 0)
