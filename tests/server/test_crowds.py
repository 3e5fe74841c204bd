"""Many clients who leave, through the whole server: nothing adds up, and the next one is served."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import trio
from trio.testing import MockClock

from headrace.runtime.testing import Script, ScriptedModel, Timings
from headrace.runtime.testing.leftovers import CACHED_THREADS
from headrace.runtime.testing.memory_site import open_memory_site
from headrace.runtime.testing.site import Site, chat, open_site

QUICK = Timings(seconds_per_prefill_token=0.0, seconds_per_decode=0.002)
# Says the alphabet until somebody stops it.
ENDLESS = 4000
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def quick_model(**more: Any) -> ScriptedModel:
    return ScriptedModel(load_seconds=0, timings=QUICK, context_window=8192, **more)


async def drops(site: Site, after: float, *, reset: bool = False, text: str = "Hi") -> None:
    """A stream whose client leaves after a while."""
    async with site.dial() as caller:
        await caller.send(chat(text, stream=True, max_tokens=ENDLESS, close=False))
        await trio.sleep(after)
        if reset:
            caller.reset()


async def test_twenty_resets_end_their_own_requests_only_a3() -> None:
    async with open_site(quick_model()) as site:
        for _ in range(20):
            await drops(site, 0.01, reset=True)
        assert (await site.call(chat(max_tokens=3))).status == 200
        await site.idle()


async def test_who_leaves_right_behind_the_request_keeps_no_connection_a1() -> None:
    """The end of the connection comes together with the request, before anybody has read it."""
    async with open_site(quick_model()) as site:
        for _ in range(20):
            await drops(site, 0.0)
        await site.idle()


async def test_no_row_is_lost_to_those_who_left_a6() -> None:
    draw = random.Random(1)
    async with open_site(quick_model(), max_rows=4) as site:
        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(drops, site, draw.uniform(0, 0.03))
        statuses: list[int] = []

        async def ask() -> None:
            statuses.append((await site.call(chat(max_tokens=3))).status)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(ask)
        assert statuses == [200] * 4
        await site.idle()


async def test_resets_give_back_their_kv_a7() -> None:
    async with open_site(quick_model()) as site:
        for _ in range(10):
            await drops(site, 0.02, reset=True, text="x" * 500)
        await site.idle()
        assert site.scene.runtime.statistics().kv_bytes == 0
        assert site.scene.engine.kv_bytes() == 0
        assert site.scene.device.active_bytes == site.scene.model.weights_bytes


@asynccontextmanager
async def forwarder(port: int) -> AsyncIterator[int]:
    """A proxy in front: it closes its leg to the server when its client leaves. Its own port."""

    async def forward(client: trio.SocketStream) -> None:
        async with (
            client,
            await trio.open_tcp_stream("127.0.0.1", port) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(pump, server, client, nursery.cancel_scope)
            await pump(client, server, nursery.cancel_scope)

    async def pump(
        source: trio.SocketStream, to: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        with suppress(trio.BrokenResourceError):
            async for data in source:
                await to.send_all(data)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, forward, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_who_hangs_up_on_a_proxy_hangs_up_on_us_a11() -> None:
    async with open_site(quick_model()) as site, forwarder(site.port) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(chat(stream=True, max_tokens=ENDLESS, close=False))
            assert b"200" in await client.receive_some()
        await site.until(lambda: site.scene.runtime.statistics().leases == 0)
        assert site.scene.runtime.statistics().cancelled_total["disconnect"] == 1


async def test_decoding_that_never_begins_is_found_by_the_same_watchdog_b4(
    virtual_clock: MockClock,
) -> None:
    model = ScriptedModel(load_seconds=0, timings=Timings(0.0, 0.001))
    async with open_memory_site(model, step_timeout_s=3) as site:
        model.at_step(1, site.scene.device.hang, kind="decode")
        reply = await site.call(chat("x" * 3000))
        assert (reply.status, reply.code) == (502, "engine_unavailable")
        for _ in range(3):
            whole = await site.call(chat("x" * 3000, stream=True, max_tokens=2))
            assert len(whole.text) == 2


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def own_threads() -> int:
    """Without trio's idle ones, which end when nobody has needed them for a while."""
    return sum(not thread.name.startswith(CACHED_THREADS) for thread in threading.enumerate())


async def test_nothing_of_a_request_stays_b5() -> None:
    async with open_site(quick_model()) as site:
        for _ in range(20):
            await site.call(chat(max_tokens=2))
        await site.idle()
        before = descriptors(), own_threads()
        for _ in range(150):
            await site.call(chat(max_tokens=2))
        await site.idle()
        assert (descriptors(), own_threads()) == before
        assert site.scene.device.active_bytes == site.scene.model.weights_bytes


async def test_tools_make_no_difference_to_who_is_served_b6() -> None:
    model = quick_model(scripts={"": Script("No tool is needed.")})
    async with open_site(model, max_rows=4, queue_limit=64) as site:
        statuses: list[int] = []

        async def ask(number: int) -> None:
            tools: dict[str, Any] = {"tools": [TOOL]} if number % 2 else {}
            statuses.append((await site.call(chat(max_tokens=8, **tools))).status)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(ask, number)
        assert statuses == [200] * 50
        await site.idle()
