"""What a client meets at the limits of time and of the queue."""

from __future__ import annotations

import json

import trio
from trio.testing import MockClock

from headrace.runtime.testing import ScriptedModel, Timings
from headrace.runtime.testing.memory_site import MemorySite, open_memory_site
from headrace.runtime.testing.site import chat


async def test_a_time_limit_gives_the_text_so_far_and_says_so_q4(
    virtual_clock: MockClock,
) -> None:
    async with open_memory_site(request_timeout_s=0.5) as site:
        whole = await site.call(chat(max_tokens=4000))
        assert whole.status == 200
        (choice,) = whole.json["choices"]
        assert choice["message"]["content"]
        assert choice["finish_reason"] == "length"
        assert [warning["code"] for warning in whole.json["warnings"]] == ["stopped_early"]
        assert whole.headers["warning"].startswith('299 headrace "')
        stream = await site.call(chat(max_tokens=4000, stream=True))
        assert stream.text
        assert stream.frames[-1] == "data: [DONE]"
        last = json.loads(stream.frames[-2].removeprefix("data: "))
        assert last["choices"][0]["finish_reason"] == "length"
        assert [warning["code"] for warning in last["warnings"]] == ["stopped_early"]
        await site.idle()
        assert site.scene.runtime.statistics().cancelled_total["timeout"] == 2


async def test_whoever_comes_again_when_told_is_served_q5(virtual_clock: MockClock) -> None:
    model = ScriptedModel(load_seconds=0, timings=Timings(seconds_per_decode=0.02))
    async with open_memory_site(model, queue_limit=2, max_rows=1) as site:

        async def ask() -> None:
            assert (await site.call(chat(max_tokens=15))).status == 200

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.sleep(0.05)
            assert full(site)
            refused = await site.call(chat(max_tokens=15))
            assert (refused.status, refused.code) == (429, "queue_full")
            seconds = int(refused.headers["retry-after-ms"]) / 1000
            assert 1 <= seconds <= int(refused.headers["retry-after"]) <= 120
            await trio.sleep(seconds)
            assert (await site.call(chat(max_tokens=15))).status == 200
        await site.idle()


def full(site: MemorySite) -> bool:
    now = site.scene.runtime.statistics()
    return (now.rows_running, now.queue_depth) == (1, 2)
