"""Rows that leave a worker in the midst of its steps, again and again: it is the same worker."""

from __future__ import annotations

import random

import trio

from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import chat
from headrace.runtime.testing.workers import WorkerSite, open_workers

STEADY = WorkerModel(id="one", decode_seconds=0.005)
# A prompt of the story is computed in 15 seconds, a step of it in a third of one.
SLOW_READER = WorkerModel(id="one", decode_seconds=0.005, prefill_token_seconds=0.005)
CHUNK_TOKENS = 64


async def drops(site: WorkerSite, text: str, after: float) -> None:
    async with site.dial() as caller:
        await caller.send(chat(text, model="one", stream=True, close=False))
        await trio.sleep(after)


async def assert_as_before(site: WorkerSite, pid: int) -> None:
    await site.idle()
    assert site.pid("one") == pid
    assert (await site.call(chat(model="one", max_tokens=2))).status == 200


async def test_streams_that_are_dropped_at_any_moment_a4() -> None:
    draw = random.Random(4)
    async with open_workers(STEADY) as site:
        pid = site.pid("one")
        for _ in range(6):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(drops, site, "Hi", draw.uniform(0.0, 0.1))
        await assert_as_before(site, pid)


async def test_long_prompts_that_are_dropped_while_they_are_computed_a5() -> None:
    async with open_workers(SLOW_READER, prefill_chunk_tokens=CHUNK_TOKENS) as site:
        pid = site.pid("one")
        decoded = site.runtime.statistics().decoded_tokens_total
        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(drops, site, "x" * 3000, 0.05)
        assert site.runtime.statistics().decoded_tokens_total == decoded
        await assert_as_before(site, pid)
