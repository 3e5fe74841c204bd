"""Messages over real sockets: waiting, leaving, failing and counting, in their own protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.site import Reply, Site, http, open_site

PATH = "/v1/messages"
LONG = "word " * 2000
VERSION = {"anthropic-version": "2023-06-01"}


def says(text: str = "Hello there", **script: Any) -> ScriptedModel:
    return ScriptedModel(load_seconds=0, scripts={"": Script(text, **script)})


def asking(text: str = "Hi", path: str = PATH, **fields: Any) -> bytes:
    body = {"max_tokens": 64, "messages": [{"role": "user", "content": text}], **fields}
    return http("POST", path, json.dumps(body).encode(), headers=VERSION)


async def ask(site: Site, text: str = "Hi", **fields: Any) -> Reply:
    return await site.call(asking(text, **fields))


def events(reply: Reply) -> list[dict[str, Any]]:
    shown = [frame for frame in reply.frames if not frame.startswith(":")]
    return [json.loads(frame.partition("data: ")[2]) for frame in shown]


async def count(site: Site, text: str = "Hi") -> int:
    reply = await site.call(asking(text, f"{PATH}/count_tokens"))
    tokens: int = reply.json["input_tokens"]
    return tokens


async def test_a_stream_that_waits_begins_with_its_count_and_is_kept_alive_h5_o2() -> None:
    async with open_site(says(LONG), max_rows=1, keepalive_s=0.05) as site:
        async with site.dial() as first, site.dial() as second:
            await first.send(asking(stream=True, max_tokens=4000))
            await first.read_until(b"content_block_delta")
            await second.send(asking("Hi you", stream=True))
            head = await second.read_until(b'{"type":"ping"}')
            assert b"message_start" in head
            assert f'"input_tokens":{await count(site, "Hi you")}'.encode() in head
            # Signs of life, and still no row.
            await second.read_until(b'{"type":"ping"}')
            await second.read_until(b'{"type":"ping"}')
            assert site.scene.runtime.statistics().rows_running == 1
            await first.close()
            rest = await second.read_to_end()
            assert b"message_start" not in rest
            assert b"event: message_stop" in rest
        await site.idle()


async def test_counting_takes_no_row_and_no_prompt_is_too_long_to_be_counted_o7() -> None:
    async with open_site(says(LONG), max_rows=1) as site:
        async with site.dial() as busy:
            await busy.send(asking(stream=True, max_tokens=4000))
            await busy.read_until(b"content_block_delta")
            assert await count(site, "word " * 2000) > 4096
        await site.idle()
        assert site.scene.runtime.statistics().models[0].batch.submitted_rows == 1


async def test_who_leaves_holds_nothing_a6() -> None:
    async with open_site(says(LONG)) as site, site.dial() as caller:
        await caller.send(asking(stream=True, max_tokens=4000))
        await caller.read_until(b"content_block_delta")
        caller.reset()
        await site.idle()


async def test_a_stream_that_somebody_else_cancels_ends_with_an_error() -> None:
    async with open_site(says(LONG)) as site, site.dial() as caller:
        await caller.send(asking(stream=True, max_tokens=4000))
        head = await caller.read_until(b"content_block_delta")
        start = json.loads(head.partition(b"data: ")[2].partition(b"\n")[0])
        name = start["message"]["id"]
        cancelled = await site.call(http("DELETE", f"/v1/requests/{name}"))
        assert cancelled.json["status"] == "cancelled"
        rest = await caller.read_to_end()
        last = json.loads(rest.rpartition(b"data: ")[2].partition(b"\n")[0])
        assert (last["type"], last["error"]["code"]) == ("error", "request_cancelled")
        assert b"message_stop" not in rest


@pytest.mark.parametrize("fields", [{"raise_at": 40}, {"fail_at": 40}])
async def test_a_failure_in_mid_stream_is_the_last_frame_b1(fields: dict[str, Any]) -> None:
    async with open_site(says(LONG, **fields)) as site:
        reply = await ask(site, stream=True, max_tokens=4000)
        told = events(reply)
        assert [event["type"] for event in told[-2:]] == ["content_block_delta", "error"]
        assert told[-1]["error"]["type"] == "api_error"
        assert told[-1]["request_id"] == reply.headers["request-id"]
        await site.idle()


async def test_a_cap_of_nought_only_reads_the_prompt() -> None:
    async with open_site(says()) as site:
        reply = await ask(site, max_tokens=0)
        assert reply.status == 200, reply.body
        body = reply.json
        assert (body["content"], body["stop_reason"]) == ([], "max_tokens")
        assert body["usage"]["output_tokens"] == 0


async def test_a_full_queue_and_a_drain_are_told_in_its_envelope_q5() -> None:
    async with open_site(says(LONG), max_rows=1, queue_limit=0) as site:
        async with site.dial() as busy:
            await busy.send(asking(stream=True, max_tokens=4000))
            await busy.read_until(b"content_block_delta")
            full = await ask(site)
            assert (full.status, full.json["error"]["type"]) == (429, "rate_limit_error")
            assert int(full.headers["retry-after"]) >= 1
        await site.idle()
        site.scene.runtime.close_to_new()
        for path in (PATH, f"{PATH}/count_tokens"):
            reply = await site.call(asking(path=path))
            assert (reply.status, reply.json["error"]["type"]) == (503, "overloaded_error")


async def test_what_was_left_out_is_told_in_header_and_body() -> None:
    async with open_site(says()) as site:
        tools = [{"type": "web_search_20250305", "name": "web_search"}]
        reply = await ask(site, tools=tools)
        assert [warning["code"] for warning in reply.json["warnings"]] == ["tool_dropped"]
        assert reply.headers["warning"].startswith("299 headrace")


async def test_models_come_in_pages_in_its_shape_o3() -> None:
    async with open_site(says()) as site:

        async def look(query: str = "") -> Reply:
            return await site.call(http("GET", f"/v1/models{query}", headers=VERSION))

        page = (await look()).json
        (row,) = page["data"]
        assert (row["type"], row["id"], row["max_input_tokens"]) == ("model", "scripted", 4096)
        assert (page["first_id"], page["last_id"], page["has_more"]) == (
            "scripted",
            "scripted",
            False,
        )
        assert (await look("?after_id=scripted")).json["data"] == []
        for bad in ("?limit=0", "?after_id=x"):
            refused = await look(bad)
            assert (refused.status, refused.json["type"]) == (400, "error")


async def test_a_cold_model_is_waited_for_with_comments_alone_h5() -> None:
    model = ScriptedModel(load_seconds=0.3, scripts={"": Script("Hi")})
    async with open_site(model, keepalive_s=0.05) as site:
        with trio.fail_after(60):
            reply = await ask(site, stream=True)
        told = events(reply)
        assert told[0]["type"] == "message_start"
        assert told[-1]["type"] == "message_stop"
