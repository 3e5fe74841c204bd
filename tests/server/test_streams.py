"""When a stream commits, what it says while there is nothing to say, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from quart import Quart
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.http.wire.chat_stream import ChatStream
from headrace.runtime.contracts import Delta, Event
from headrace.runtime.testing import Script, ScriptedModel, Timings
from headrace.runtime.testing.memory_site import MemoryCaller, MemorySite, open_memory_site
from headrace.runtime.testing.site import Reply, chat, open_site


def model_that(says: str | None = None, **script: Any) -> ScriptedModel:
    plan = Script(tokens=says, **script)
    return ScriptedModel(load_seconds=0, script_of=lambda spec: plan)


async def test_the_headers_of_a_stream() -> None:
    async with open_site() as site:
        reply = await site.call(chat(stream=True, max_tokens=2))
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reply.headers["cache-control"] == "no-cache, no-transform"
        assert reply.headers["x-accel-buffering"] == "no"
        assert "content-length" not in reply.headers


@pytest.mark.parametrize("text", ["Hello, world.", "ďábel 👩‍👩‍👧 日本", " leading\n\nand more "])
async def test_a_stream_says_what_the_whole_answer_says_p7(text: str) -> None:
    async with open_site(model_that(text)) as site:
        whole = await site.call(chat())
        streamed = await site.call(chat(stream=True, stream_options={"include_usage": True}))
        assert whole.json["choices"][0]["message"]["content"] == streamed.text == text
        assert whole.json["usage"]["completion_tokens"] == len(text.encode())
        assert streamed.frames[-1] == "data: [DONE]"


async def test_a_clamp_is_told_in_header_and_body_k3() -> None:
    model = ScriptedModel(load_seconds=0, context_window=60)
    async with open_site(model) as site:
        for stream in (False, True):
            reply = await site.call(chat(max_tokens=1000, stream=stream))
            assert reply.status == 200
            assert reply.headers["warning"].startswith('299 headrace "')
            assert b'"code":"max_tokens_clamped"' in reply.body


@asynccontextmanager
async def queued_caller(
    **settings: Any,
) -> AsyncIterator[tuple[MemorySite, MemoryCaller, MemoryCaller]]:
    """(site, the one that runs, one that waits behind it for a stream). Time has to be virtual."""
    async with (
        open_memory_site(max_rows=1, **settings) as site,
        site.dial() as first,
        site.dial() as second,
    ):
        await first.send(chat("first", stream=True))
        await first.read_until(b'"content":"')
        await second.send(chat("second", stream=True, max_tokens=3))
        yield site, first, second


class TestCommit:
    @pytest.mark.parametrize(
        ("fields", "status", "code"),
        [
            ({"model": "nobody"}, 404, "model_not_found"),
            ({"temperature": 5}, 400, "invalid_value"),
            ({"messages": []}, 400, "invalid_value"),
            ({"adapter": "a"}, 400, "adapter_not_found"),
            (
                {"messages": [{"role": "user", "content": "x" * 9000}]},
                400,
                "context_length_exceeded",
            ),
        ],
    )
    async def test_what_can_be_checked_is_a_plain_answer_h6(
        self, fields: dict[str, Any], status: int, code: str
    ) -> None:
        async with open_site() as site:
            reply = await site.call(chat(**{"stream": True} | fields))
            assert (reply.status, reply.code) == (status, code)
            assert reply.headers["content-type"] == "application/json"

    async def test_a_full_queue_is_a_plain_answer_q5(self, virtual_clock: MockClock) -> None:
        async with queued_caller(queue_limit=1) as (site, _, _):
            await wait_all_tasks_blocked()
            assert site.scene.runtime.statistics().queue_depth == 1
            reply = await site.call(chat(stream=True))
            assert (reply.status, reply.code) == (429, "queue_full")
            assert int(reply.headers["retry-after"]) >= 1
            assert int(reply.headers["retry-after-ms"]) >= 1000

    async def test_a_row_that_fails_before_it_speaks_is_a_plain_answer(self) -> None:
        async with open_site(model_that(fail_at=1)) as site:
            reply = await site.call(chat(stream=True))
            assert (reply.status, reply.code) == (500, "generation_failed")

    async def test_waiting_in_silence_commits_and_then_a_failure_is_a_frame(
        self, virtual_clock: MockClock
    ) -> None:
        settings = {"keepalive_s": 0.05, "queue_timeout_s": 0.3}
        async with queued_caller(**settings) as (_, _, second):
            head = await second.read_until(b": keep-alive\n\n")
            assert head.startswith(b"HTTP/1.1 200")
            await second.read_until(b'"code":"queue_timeout"}}\n\n')
            # The end of the body, and nothing else: no [DONE] after an error.
            assert (await second.read_to_end()).split(b"\r\n")[1:3] == [b"0", b""]

    async def test_without_signs_of_life_nothing_is_sent_until_there_is_something_h3(
        self, virtual_clock: MockClock
    ) -> None:
        settings = {"keepalive_s": 0, "queue_timeout_s": 0.3}
        async with queued_caller(**settings) as (_, _, second):
            reply = Reply.of(await second.read_to_end())
            assert (reply.status, reply.code) == (503, "queue_timeout")


class TestSignsOfLife:
    async def test_they_come_while_queued_and_the_answer_follows_h5_h4(
        self, virtual_clock: MockClock
    ) -> None:
        async with queued_caller(keepalive_s=0.05) as (_, first, second):
            for _ in range(3):
                await second.read_until(b": keep-alive\n\n")
            first.hang_up()
            rest = await second.read_to_end()
            assert b'"role":"assistant"' in rest
            assert b"data: [DONE]" in rest
            assert b"data: :" not in rest

    async def test_they_come_between_texts(self, virtual_clock: MockClock) -> None:
        timings = Timings(seconds_per_decode=0.3)
        model = ScriptedModel(load_seconds=0, timings=timings)
        async with open_memory_site(model, keepalive_s=0.05) as site:
            reply = await site.call(chat(stream=True, max_tokens=3))
            comments = [frame for frame in reply.frames if frame == ": keep-alive"]
            assert len(comments) >= 12
            assert len(reply.text) == 3

    async def test_none_come_where_text_flows(self, virtual_clock: MockClock) -> None:
        async with open_memory_site(keepalive_s=0.5) as site:
            reply = await site.call(chat(stream=True, max_tokens=80))
            assert ": keep-alive" not in reply.frames


async def test_no_limit_of_the_framework_cuts_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    # Quart ends a response after this long unless it is told otherwise; a minute by default.
    limits = {"RESPONSE_TIMEOUT": 0.1, "BODY_TIMEOUT": 0.1}
    monkeypatch.setattr(Quart, "default_config", Quart.default_config | limits)
    async with open_site() as site:
        reply = await site.call(chat(stream=True, max_tokens=50))
        assert len(reply.text) == 50
        assert reply.frames[-1] == "data: [DONE]"


async def test_an_engine_that_dies_in_mid_stream_is_one_frame() -> None:
    async with open_site(model_that("abcdef", fail_at=4)) as site:
        reply = await site.call(chat(stream=True))
        assert reply.status == 200
        assert reply.text == "abc"
        assert '"code":"generation_failed"' in reply.frames[-1]
        assert sum("error" in frame for frame in reply.frames) == 1
        await site.idle()


async def test_a_fault_of_the_writer_is_told_in_the_stream_and_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    feed = ChatStream.feed

    def faulty(writer: ChatStream, event: Event) -> list[bytes]:
        if isinstance(event, Delta) and "D" in event.text:
            raise KeyError("inside")
        return feed(writer, event)

    monkeypatch.setattr(ChatStream, "feed", faulty)
    async with open_site(model_that("ABCDEF")) as site:
        reply = await site.call(chat(stream=True))
        assert '"code":"internal_error"' in reply.frames[-1]
        assert reply.headers["x-request-id"] in reply.frames[-1]
        assert b"inside" not in reply.body
        assert "inside" in caplog.text
        await site.idle()
