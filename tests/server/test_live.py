"""What the live view is told: snapshots while somebody looks, and nothing left when they leave."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import trio
import trio.testing
from trio.testing import MockClock

from headrace.http.watch import ENDED_SECONDS, MOST_ENDED, MOST_ROWS, MOST_WATCHERS
from headrace.http.watching import TICK_SECONDS
from headrace.runtime.testing import ScriptedModel, Timings
from headrace.runtime.testing.memory_site import MemoryCaller, MemorySite, open_memory_site
from headrace.runtime.testing.site import Reply, chat, http

LIVE = http("GET", "/live", close=False)


STEP_SECONDS = 0.1


def slow_model() -> ScriptedModel:
    return ScriptedModel(timings=Timings(seconds_per_decode=STEP_SECONDS))


async def look(caller: MemoryCaller) -> dict[str, Any]:
    """The next snapshot."""
    frame = await caller.read_until(b"\n\n\r\n")
    found: dict[str, Any] = json.loads(frame[frame.index(b"data: ") + 6 :])
    return found


async def look_once(site: MemorySite) -> dict[str, Any]:
    async with site.dial() as caller:
        await caller.send(LIVE)
        return await look(caller)


async def test_a_snapshot_comes_four_times_a_second(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site, site.dial() as caller:
        await caller.send(LIVE)
        times = [(await look(caller))["at"] for _ in range(5)]
        gaps = [round(b - a, 3) for a, b in pairwise(times)]
        assert gaps == [TICK_SECONDS] * 4
        caller.hang_up()
        await site.idle()


async def test_a_row_is_told_of_while_it_lives(autojump_clock: MockClock) -> None:
    async with open_memory_site(slow_model()) as site, site.dial() as asker:
        await asker.send(chat("a secret", stream=True, max_tokens=50))
        await trio.sleep(1.05)
        told = await look_once(site)
        (row,) = told["rows"]
        assert row["state"] == "decoding"
        assert row["generated_tokens"] == told["tokens"]["decoded"] > 5
        assert (row["most_tokens"], row["rows"]) == (50, 1)
        assert told["rows_running"] == told["models"][0]["running_rows"] == 1
        assert told["memory"]["kv_bytes"] > 0
        assert "secret" not in json.dumps(told)
        asker.hang_up()
        await trio.sleep(STEP_SECONDS)
        await site.idle()


async def test_a_row_that_was_cut_is_told_of_a_little_longer(autojump_clock: MockClock) -> None:
    async with open_memory_site(slow_model()) as site, site.dial() as asker:
        await asker.send(chat(stream=True))
        await asker.read_until(b'"content":"')
        (row,) = (await look_once(site))["rows"]
        asker.hang_up()
        await trio.sleep(0.3)
        told = await look_once(site)
        (ended,) = told["ended"]
        assert told["rows"] == []
        assert ended["ticket"] == row["ticket"]
        assert (ended["outcome"], ended["reason"]) == ("cancelled", "disconnect")
        # The row goes at the end of the step that runs.
        assert 0 <= ended["freed_ms"] <= 1000 * STEP_SECONDS
        await trio.sleep(ENDED_SECONDS)
        assert (await look_once(site))["ended"] == []
        await site.idle()


async def test_requests_of_one_id_have_a_lane_each(autojump_clock: MockClock) -> None:
    async with open_memory_site(slow_model()) as site, site.dial() as asker:
        body = json.dumps({"prompt": ["a", "b"], "max_tokens": 20, "stream": True}).encode()
        await asker.send(http("POST", "/v1/completions", body))
        await asker.read_until(b'"text":"')
        rows = (await look_once(site))["rows"]
        assert len({row["id"] for row in rows}) == 1
        assert len({row["ticket"] for row in rows}) == 2
        asker.hang_up()
        await trio.sleep(STEP_SECONDS)
        await site.idle()


async def test_there_is_a_bound_on_rows_ends_and_watchers(autojump_clock: MockClock) -> None:
    async with (
        open_memory_site(slow_model(), max_rows=1, queue_limit=200) as site,
        trio.open_nursery() as nursery,
    ):
        many = max(MOST_ROWS, MOST_ENDED) + 6
        for _ in range(many):
            nursery.start_soon(site.call, chat(max_tokens=5))
        await trio.testing.wait_all_tasks_blocked()
        told = await look_once(site)
        assert (len(told["rows"]), told["rows_left_out"]) == (MOST_ROWS, many - MOST_ROWS)
        site.scene.runtime.close_to_new()
        for report in site.scene.runtime.requests():
            site.scene.runtime.cancel(report.id)
        await trio.sleep(1)
        site.scene.runtime.open_to_new()
        assert len((await look_once(site))["ended"]) == MOST_ENDED


async def test_a_crowd_of_watchers_is_refused_until_one_leaves(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site, trio.open_nursery() as nursery:
        await trio.testing.wait_all_tasks_blocked()
        watchers = [await nursery.start(watch, site) for _ in range(MOST_WATCHERS)]
        refused = await site.call(http("GET", "/live"))
        assert (refused.status, refused.code) == (429, "queue_full")
        assert refused.headers["retry-after"] == "5"
        watchers[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert (await look_once(site))["rows"] == []
        nursery.cancel_scope.cancel()


async def watch(
    site: MemorySite, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope() as scope:
        async with site.dial() as caller:
            await caller.send(LIVE)
            await look(caller)
            task_status.started(scope)
            await trio.sleep_forever()


async def test_it_ends_when_the_server_has_nothing_left_to_do(autojump_clock: MockClock) -> None:
    async with open_memory_site(slow_model()) as site, site.dial() as asker, site.dial() as caller:
        await asker.send(chat(max_tokens=10))
        await caller.send(http("GET", "/live"))
        assert (await look(caller))["draining"] is False
        site.scene.runtime.close_to_new()
        rest = await caller.read_to_end()
        last = json.loads(rest.decode().rpartition("data: ")[2].partition("\n")[0])
        assert (last["draining"], last["rows"]) == (True, [])
        assert Reply.of(await asker.read_to_end()).json["usage"]["completion_tokens"] == 10


async def test_to_have_looked_is_no_cancelled_request(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site:
        await look_once(site)
        await trio.testing.wait_all_tasks_blocked()
        text = (await site.call(http("GET", "/metrics"))).body.decode()
        (line,) = [
            line for line in text.splitlines() if 'route="/live"' in line and "_total" in line
        ]
        assert 'outcome="ok"' in line
