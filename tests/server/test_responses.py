"""Responses that are kept, gone on with, followed, cancelled and deleted, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.site import Reply, Site, http, open_site

PATH = "/v1/responses"
# Long enough to be caught in the middle.
LONG = "word " * 2000


def says(text: str = "Hello there") -> ScriptedModel:
    return ScriptedModel(load_seconds=0, scripts={"": Script(text)})


async def ask(site: Site, text: str = "Hi", **fields: Any) -> Reply:
    return await site.call(asking(text, **fields))


def asking(text: str = "Hi", **fields: Any) -> bytes:
    return http("POST", PATH, json.dumps({"input": text, **fields}).encode())


async def get(site: Site, name: str, rest: str = "") -> Reply:
    return await site.call(http("GET", f"{PATH}/{name}{rest}"))


def events(reply: Reply) -> list[dict[str, Any]]:
    shown = [frame for frame in reply.frames if not frame.startswith(":")]
    return [json.loads(frame.partition("data: ")[2]) for frame in shown]


async def until(site: Site, name: str, *statuses: str) -> dict[str, Any]:
    """Poll, as clients do."""
    with trio.fail_after(60):
        while True:
            body: dict[str, Any] = (await get(site, name)).json
            if body["status"] in statuses:
                return body
            await trio.sleep(0.01)


class TestKept:
    async def test_what_a_stream_ends_with_is_what_is_kept_o4(self) -> None:
        async with open_site(says()) as site:
            last = events(await ask(site, stream=True))[-1]
            assert last["type"] == "response.completed"
            assert (await get(site, last["response"]["id"])).json == last["response"]
            whole = (await ask(site)).json
            assert (await get(site, whole["id"])).json == whole
            await site.idle()

    async def test_a_conversation_goes_on_from_what_was_kept(self) -> None:
        async with open_site(says()) as site:
            first = (await ask(site, "A", instructions="Be kind.")).json
            second = (await ask(site, "B", previous_response_id=first["id"])).json
            assert second["previous_response_id"] == first["id"]
            assert second["instructions"] is None
            said = [
                {"role": "user", "content": "A"},
                {"role": "assistant", "content": "Hello there"},
                {"role": "user", "content": "B"},
            ]
            spelled = (await site.call(asking_items(said))).json
            assert second["usage"]["input_tokens"] == spelled["usage"]["input_tokens"]
            # Of the list, only its own input.
            items = (await get(site, second["id"], "/input_items")).json["data"]
            assert [item["content"][0]["text"] for item in items] == ["B"]

    async def test_single_items_are_found_by_their_ids(self) -> None:
        async with open_site(says()) as site:
            first = (await ask(site, "A")).json
            item = first["output"][0]
            said = [{"role": "user", "content": "Q"}, {"type": "item_reference", "id": item["id"]}]
            said.append({"role": "user", "content": "B"})
            assert (await site.call(asking_items(said))).status == 200
            said[1] = {"type": "item_reference", "id": "msg_none"}
            missing = await site.call(asking_items(said))
            assert (missing.status, missing.code) == (404, "item_not_found")

    @pytest.mark.parametrize("fields", [{"store": False}, {"store": False, "stream": True}])
    async def test_what_is_not_to_be_kept_is_not(self, fields: dict[str, Any]) -> None:
        async with open_site(says()) as site:
            reply = await ask(site, **fields)
            body = events(reply)[-1]["response"] if "stream" in fields else reply.json
            assert body["store"] is False
            assert (await get(site, body["id"])).code == "response_not_found"
            again = await ask(site, previous_response_id=body["id"])
            assert (again.status, again.code) == (404, "previous_response_not_found")

    async def test_a_deleted_response_is_gone(self) -> None:
        async with open_site(says()) as site:
            name = (await ask(site)).json["id"]
            deleted = (await site.call(http("DELETE", f"{PATH}/{name}"))).json
            assert deleted == {"id": name, "object": "response", "deleted": True}
            for method, rest in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
                reply = await site.call(http(method, f"{PATH}/{name}{rest}"))
                assert (reply.status, reply.code) == (404, "response_not_found")

    async def test_a_file_outlives_its_server(self, tmp_path: Path) -> None:
        file = str(tmp_path / "responses.sqlite3")
        async with open_site(says(), responses_file=file) as site:
            first = (await ask(site, "A")).json
        async with open_site(says(), responses_file=file) as site:
            assert (await get(site, first["id"])).json == first
            assert (await ask(site, "B", previous_response_id=first["id"])).status == 200

    async def test_no_more_is_kept_than_allowed(self) -> None:
        async with open_site(says(), responses_store_bytes=6000) as site:
            names = [(await ask(site)).json["id"] for _ in range(8)]
            assert (await get(site, names[0])).status == 404
            assert (await get(site, names[-1])).status == 200
            assert site.scene.runtime.history.usage.bytes <= 6000

    async def test_nothing_is_kept_longer_than_its_time(self) -> None:
        async with open_site(says(), responses_ttl_s=0.2) as site:
            name = (await ask(site)).json["id"]
            await trio.sleep(0.25)
            assert (await get(site, name)).code == "response_not_found"

    async def test_input_items_come_in_pages(self) -> None:
        async with open_site(says()) as site:
            said = [{"role": "user", "content": str(i), "id": f"msg_{i}"} for i in range(5)]
            name = (await site.call(asking_items(said))).json["id"]
            newest = (await get(site, name, "/input_items?limit=2")).json
            assert [item["id"] for item in newest["data"]] == ["msg_4", "msg_3"]
            assert (newest["first_id"], newest["last_id"], newest["has_more"]) == (
                "msg_4",
                "msg_3",
                True,
            )
            rest = (await get(site, name, "/input_items?order=asc&after=msg_2")).json
            assert [item["id"] for item in rest["data"]] == ["msg_3", "msg_4"]
            for bad in ("limit=0", "limit=101", "order=up", "after=msg_9"):
                assert (await get(site, name, f"/input_items?{bad}")).code == "invalid_value"


def asking_items(items: list[dict[str, Any]], **fields: Any) -> bytes:
    return http("POST", PATH, json.dumps({"input": items, **fields}).encode())


@asynccontextmanager
async def begun(site: Site, **fields: Any) -> AsyncIterator[str]:
    """A response in the middle of its stream; its client leaves on the way out."""
    async with site.dial() as caller:
        await caller.send(asking(stream=True, **fields))
        head = await caller.read_until(b"response.output_text.delta")
        created = head.partition(b"data: ")[2].partition(b"\n")[0]
        yield json.loads(created)["response"]["id"]


class TestUnfinished:
    async def test_a_running_response_is_shown_but_not_gone_on_with(self) -> None:
        async with open_site(says(LONG)) as site:
            async with begun(site) as name:
                assert (await get(site, name)).json["status"] == "in_progress"
                reply = await ask(site, previous_response_id=name)
                assert (reply.status, reply.code) == (400, "previous_response_not_usable")
            await site.idle()

    async def test_whose_client_left_is_never_gone_on_with_a6(self) -> None:
        async with open_site(says(LONG)) as site:
            async with begun(site) as name:
                pass
            await site.idle()
            body = (await get(site, name)).json
            assert (body["status"], body["output"][0]["status"]) == ("cancelled", "incomplete")
            reply = await ask(site, previous_response_id=name)
            assert reply.code == "previous_response_not_usable"

    async def test_a_stream_that_is_cancelled_says_so_o4(self) -> None:
        async with open_site(says(LONG)) as site:
            async with site.dial() as caller:
                await caller.send(asking(stream=True))
                head = await caller.read_until(b"response.output_text.delta")
                created = json.loads(head.partition(b"data: ")[2].partition(b"\n")[0])
                name = created["response"]["id"]
                cancelled = await site.call(http("POST", f"{PATH}/{name}/cancel"))
                rest = await caller.read_to_end()
            assert cancelled.json["status"] == "cancelled"
            last = json.loads(rest.rpartition(b"data: ")[2].partition(b"\n")[0])
            assert (last["type"], last["response"]["status"]) == ("response.failed", "cancelled")
            assert last["response"]["error"]["code"] == "server_error"
            await site.idle()
            assert (await get(site, name)).json == last["response"]

    async def test_a_worker_that_dies_in_mid_stream_is_told_of_in_both_ways_o4_b1(self) -> None:
        model = ScriptedModel(load_seconds=0, scripts={"": Script(LONG, raise_at=40)})
        async with open_site(model) as site:
            told = events(await ask(site, stream=True))
            assert [event["type"] for event in told[-2:]] == ["error", "response.failed"]
            assert told[-2]["code"] in ("engine_unavailable", "generation_failed")
            name = told[-1]["response"]["id"]
            assert (await get(site, name)).json["status"] == "failed"
            reply = await ask(site, previous_response_id=name)
            assert reply.code == "previous_response_not_usable"

    async def test_a_refusal_leaves_nothing_behind_h6(self) -> None:
        async with open_site(says()) as site:
            reply = await ask(site, "word " * 2000, stream=True)
            assert (reply.status, reply.code) == (400, "context_length_exceeded")
            assert site.scene.runtime.history.usage.entries == 0


class TestBackground:
    async def test_it_runs_by_itself_and_can_be_polled(self) -> None:
        async with open_site(says()) as site:
            begun_as = (await ask(site, background=True)).json
            assert begun_as["status"] in ("queued", "in_progress")
            body = await until(site, begun_as["id"], "completed")
            assert (body["background"], body["output"][0]["status"]) == (True, "completed")
            after = await ask(site, "B", previous_response_id=body["id"])
            assert after.status == 200
            await site.idle()

    async def test_its_stream_can_be_followed_from_anywhere(self) -> None:
        async with open_site(says()) as site:
            whole = await ask(site, background=True, stream=True)
            told = events(whole)
            assert [event["sequence_number"] for event in told] == list(range(len(told)))
            assert told[-1]["type"] == "response.completed"
            name = told[0]["response"]["id"]
            again = events(await get(site, name, "?stream=true"))
            assert again == told
            rest = events(await get(site, name, "?stream=true&starting_after=4"))
            assert rest == told[5:]

    async def test_a_follower_that_leaves_ends_nothing(self) -> None:
        async with open_site(says()) as site:
            async with begun(site, background=True) as name:
                pass
            assert (await until(site, name, "completed"))["status"] == "completed"
            await site.idle()

    async def test_it_can_be_cancelled_and_holds_nothing_then(self) -> None:
        async with open_site(says(LONG)) as site:
            async with begun(site, background=True) as name:
                reply = await site.call(http("POST", f"{PATH}/{name}/cancel"))
                assert reply.json["status"] == "cancelled"
                await site.until(lambda: site.scene.runtime.statistics().rows_running == 0)
            await site.idle()
            again = await site.call(http("POST", f"{PATH}/{name}/cancel"))
            assert again.json["status"] == "cancelled"
            assert (await ask(site, previous_response_id=name)).code == (
                "previous_response_not_usable"
            )

    async def test_it_is_among_the_live_requests_and_can_be_ended_there(self) -> None:
        async with open_site(says(LONG)) as site:
            name = (await ask(site, background=True)).json["id"]
            await until(site, name, "in_progress")
            (live,) = (await site.call(http("GET", "/v1/requests"))).json["data"]
            assert live["response_id"] == name
            ended = await site.call(http("DELETE", f"/v1/requests/{name}"))
            assert ended.json["status"] == "cancelled"
            await site.idle()
            assert (await get(site, name)).json["status"] == "cancelled"

    async def test_one_that_runs_is_cancelled_before_it_is_deleted(self) -> None:
        async with open_site(says(LONG)) as site:
            name = (await ask(site, background=True)).json["id"]
            deleted = await site.call(http("DELETE", f"{PATH}/{name}"))
            assert deleted.json["deleted"]
            await site.idle()
            assert (await get(site, name)).status == 404

    async def test_other_responses_cannot_be_streamed_again(self) -> None:
        async with open_site(says()) as site:
            name = (await ask(site)).json["id"]
            reply = await get(site, name, "?stream=true")
            assert (reply.status, reply.code) == (400, "not_streamable")

    async def test_what_is_wrong_with_it_is_told_at_once(self) -> None:
        async with open_site(says()) as site:
            long = await ask(site, "word " * 2000, background=True)
            assert (long.status, long.code) == (400, "context_length_exceeded")
            unknown = await ask(site, background=True, model="mini")
            assert (unknown.status, unknown.code) == (404, "model_not_found")

    async def test_there_is_room_for_a_bounded_number(self) -> None:
        async with open_site(says(LONG), max_rows=1, queue_limit=1) as site:
            replies = [await ask(site, background=True) for _ in range(3)]
            assert [reply.status for reply in replies] == [200, 200, 429]
            assert "retry-after" in replies[-1].headers
            for reply in replies[:2]:
                await site.call(http("POST", f"{PATH}/{reply.json['id']}/cancel"))
            await site.idle()

    async def test_a_shutdown_ends_it_and_says_how(self, tmp_path: Path) -> None:
        file = str(tmp_path / "responses.sqlite3")
        async with open_site(says(LONG), responses_file=file, shutdown_timeout_s=0.1) as site:
            name = (await ask(site, background=True)).json["id"]
            await until(site, name, "in_progress")
        async with open_site(says(), responses_file=file) as site:
            body = (await get(site, name)).json
            assert (body["status"], body["error"]["code"]) == ("failed", "server_error")
            reply = await ask(site, previous_response_id=name)
            assert reply.code == "previous_response_not_usable"


class TestRoom:
    async def test_the_oldest_items_are_left_out_where_that_was_allowed_k2(self) -> None:
        said = [{"role": "user", "content": "word " * 400} for _ in range(40)]
        said.append({"role": "user", "content": "the question"})
        async with open_site(says()) as site:
            window = site.scene.runtime.statistics().models[0].info
            assert window is not None
            refused = await site.call(asking_items(said))
            assert (refused.status, refused.code) == (400, "context_length_exceeded")
            reply = await site.call(asking_items(said, truncation="auto", max_output_tokens=4))
            assert reply.status == 200
            assert reply.json["usage"]["input_tokens"] < window.context_window
            assert reply.json["warnings"][0]["code"] == "input_truncated"
            assert "input_truncated" not in reply.headers["warning"]
            assert "left out" in reply.headers["warning"]

    async def test_counting_is_exact_o7(self) -> None:
        async with open_site(says()) as site:
            counted = await site.call(
                http("POST", f"{PATH}/input_tokens", json.dumps({"input": "Hi you"}).encode())
            )
            sent = await ask(site, "Hi you")
            assert counted.json == {
                "object": "response.input_tokens",
                "input_tokens": sent.json["usage"]["input_tokens"],
            }

    async def test_compaction_is_not_built(self) -> None:
        async with open_site(says()) as site:
            reply = await site.call(http("POST", f"{PATH}/compact", b"{}"))
            assert (reply.status, reply.code) == (501, "not_implemented")
