"""A client that leaves, in each phase and by each way, takes its request with it.

That the row is gone at the very next step is shown on a virtual clock elsewhere; here the ways
are real, and a second is the limit.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
import trio

from headrace.runtime.testing import Script, ScriptedModel, ScriptedTokenizer, Timings
from headrace.runtime.testing.site import Caller, Reply, Site, chat, open_site

Leave: TypeAlias = Callable[[Caller], Awaitable[None]]


async def closing(caller: Caller) -> None:
    await caller.close()


async def resetting(caller: Caller) -> None:
    caller.reset()
    await trio.lowlevel.checkpoint()


async def half_closing(caller: Caller) -> None:
    """The client will send no more, and goes on reading."""
    await caller.stream.send_eof()


each_way = pytest.mark.parametrize(
    "leave", [closing, resetting, half_closing], ids=lambda way: way.__name__
)
each_version = pytest.mark.parametrize("version", ["1.0", "1.1"])


def stages(site: Site) -> list[str]:
    return [report.stage for report in site.scene.runtime.requests()]


def cancelled(site: Site) -> dict[str, int]:
    counts = site.scene.runtime.statistics().cancelled_total
    return {reason: count for reason, count in counts.items() if count}


async def assert_gone(site: Site, *, reason: str = "disconnect") -> None:
    await site.idle()
    assert site.scene.engine.rows == ()
    assert cancelled(site) == {reason: 1}


@each_way
@each_version
async def test_while_decoding_a_stream(leave: Leave, version: str) -> None:
    async with open_site() as site, site.dial() as caller:
        await caller.send(chat(stream=True, version=version))
        await caller.read_until(b'"content":"')
        await leave(caller)
        await site.until(lambda: not stages(site))
        await caller.close()
        await assert_gone(site)


@each_way
@each_version
async def test_while_decoding_a_whole_answer_a1(leave: Leave, version: str) -> None:
    async with open_site() as site, site.dial() as caller:
        await caller.send(chat(version=version))
        await site.until(lambda: stages(site) == ["decoding"])
        await leave(caller)
        await site.until(lambda: not stages(site))
        await caller.close()
        await assert_gone(site)


@each_way
@pytest.mark.parametrize("stream", [False, True])
async def test_while_the_prompt_is_computed_a2(leave: Leave, stream: bool) -> None:
    model = ScriptedModel(load_seconds=0, context_window=8192)
    async with open_site(model, prefill_chunk_tokens=64) as site, site.dial() as caller:
        await caller.send(chat("x" * 4000, stream=stream))
        await site.until(lambda: stages(site) == ["prefilling"])
        await leave(caller)
        await site.until(lambda: not stages(site))
        await caller.close()
        await assert_gone(site)
        assert site.scene.runtime.statistics().decoded_tokens_total == 0


@each_way
async def test_with_a_second_request_already_sent(leave: Leave) -> None:
    async with open_site() as site, site.dial() as caller:
        await caller.send(chat("first", close=False) + chat("second", close=False))
        await site.until(lambda: stages(site) == ["decoding"])
        await leave(caller)
        await site.until(lambda: not stages(site))
        await caller.close()
        await assert_gone(site)


@asynccontextmanager
async def busy_site(**settings: Any) -> AsyncIterator[Site]:
    """The only row is taken, for as long as the story lasts."""
    async with open_site(max_rows=1, **settings) as site, site.dial() as first:
        await first.send(chat("first", stream=True))
        await first.read_until(b'"content":"')
        yield site
        await first.close()
        await site.idle()


@each_way
@pytest.mark.parametrize("stream", [False, True])
async def test_while_queued(leave: Leave, stream: bool) -> None:
    async with busy_site() as site:
        async with site.dial() as caller:
            await caller.send(chat("second", stream=stream))
            await site.until(lambda: stages(site) == ["decoding", "queued"])
            await leave(caller)
            await site.until(lambda: stages(site) == ["decoding"])
        assert cancelled(site) == {"disconnect": 1}


@each_way
async def test_in_the_silence_of_a_stream_that_waits(leave: Leave) -> None:
    async with busy_site(keepalive_s=0.05) as site:
        async with site.dial() as caller:
            await caller.send(chat("second", stream=True))
            await caller.read_until(b": keep-alive")
            await leave(caller)
            await site.until(lambda: stages(site) == ["decoding"])
        assert cancelled(site) == {"disconnect": 1}


def talkative() -> ScriptedModel:
    """Says 20 kB in each token, so that the kernel's buffers are soon full."""
    tokenizer = ScriptedTokenizer(["word " * 4000])
    script = Script(tokens=(257,), end=False)
    return ScriptedModel(
        load_seconds=0,
        tokenizer=tokenizer,
        script_of=lambda spec: script,
        context_window=100_000,
        timings=Timings(seconds_per_decode=0.002),
    )


async def fall_silent(site: Site, caller: Caller) -> None:
    """Ask for a stream and do not read it, until the server can send no more."""
    caller.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await caller.send(chat(stream=True))
    await site.until(lambda: stages(site) == ["decoding"])
    runtime = site.scene.runtime
    await site.until(lambda: runtime.requests()[0].generated_tokens > 300)


@each_way
async def test_a_reader_that_stalls_and_then_leaves(leave: Leave) -> None:
    async with open_site(talkative(), write_stall_s=30) as site, site.dial() as caller:
        await fall_silent(site, caller)
        await leave(caller)
        await site.until(lambda: not stages(site))
        await caller.close()
        await assert_gone(site)


async def test_a_reader_that_stalls_and_stays_is_let_go_in_time() -> None:
    async with open_site(talkative(), write_stall_s=0.5) as site, site.dial() as caller:
        caller.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await caller.send(chat(stream=True))
        await site.until(lambda: stages(site) == ["decoding"])
        await site.until(lambda: not stages(site))
        await site.idle()
        assert sum(cancelled(site).values()) == 1


async def test_a_slow_reader_loses_nothing_and_slows_nobody_g7() -> None:
    script = Script(tokens="abcdefghij" * 6)
    model = ScriptedModel(load_seconds=0, script_of=lambda spec: script)
    async with open_site(model) as site, site.dial() as slow:
        await slow.send(chat(stream=True))
        await site.until(lambda: stages(site) == ["decoding"])
        other = await site.call(chat(stream=True))
        assert other.text == "abcdefghij" * 6
        assert Reply.of(await slow.read_to_end()).text == other.text


async def test_neighbours_of_one_that_leaves_go_on_a9() -> None:
    async with open_site() as site, trio.open_nursery() as nursery:
        answers: list[str] = []

        async def stay() -> None:
            reply = await site.call(chat("stay", stream=True, max_tokens=60))
            answers.append(reply.text)

        async def leave() -> None:
            async with site.dial() as caller:
                await caller.send(chat("leave", stream=True))
                await caller.read_until(b'"content":"')
                caller.reset()

        for _ in range(7):
            nursery.start_soon(stay)
        for _ in range(20):
            await leave()
    assert len(answers) == 7
    assert len(set(answers)) == 1
    assert len(answers[0]) == 60
