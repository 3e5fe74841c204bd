"""Files and batches as the official client sees them, over the scripted runtime."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.testing.loader import ScriptedModel
from headrace.runtime.testing.memory_site import MemorySite, open_memory_site
from headrace.runtime.testing.site import CHAT, Reply, chat, http


def form(purpose: str, data: bytes, name: str = "in.jsonl", **more: str) -> bytes:
    fields = {"purpose": purpose, **more}
    parts = [
        f'--cut\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--cut\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join(parts) + head.encode() + data + b"\r\n--cut--\r\n"
    headers = {
        "Content-Type": "multipart/form-data; boundary=cut",
        "Content-Length": str(len(body)),
    }
    return http("POST", "/v1/files", headers=headers) + body


def post(path: str, **body: Any) -> bytes:
    return http("POST", path, json.dumps(body).encode())


def line(name: str, text: str = "Hi", url: str = CHAT, **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    asked = {"messages": messages, "max_tokens": 4, **body}
    return {"custom_id": name, "method": "POST", "url": url, "body": asked}


def jsonl(*lines: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in lines)


async def uploaded(site: MemorySite, *lines: Any) -> str:
    reply = await site.call(form("batch", jsonl(*lines)))
    assert reply.status == 200, reply.body
    name: str = reply.json["id"]
    return name


async def created(site: MemorySite, *lines: Any, endpoint: str = CHAT) -> dict[str, Any]:
    name = await uploaded(site, *lines)
    body = {"input_file_id": name, "endpoint": endpoint, "completion_window": "24h"}
    reply = await site.call(post("/v1/batches", **body))
    assert reply.status == 200, reply.body
    batch: dict[str, Any] = reply.json
    return batch


async def batch(site: MemorySite, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await site.call(http("GET", f"/v1/batches/{name}"))).json
    return found


async def ended(site: MemorySite, name: str, *, within: float = 600) -> dict[str, Any]:
    with trio.fail_after(within):
        await site.scene.runtime.jobs.wait(name.replace("batch_", "job_"))
    return await batch(site, name)


async def content(site: MemorySite, name: str) -> list[dict[str, Any]]:
    reply = await site.call(http("GET", f"/v1/files/{name}/content"))
    assert reply.status == 200
    return [json.loads(text) for text in reply.body.decode().splitlines()]


async def test_a_file_is_brought_shown_listed_given_and_deleted(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site:
        data = jsonl(line("a"))
        reply = await site.call(form("batch", data))
        file = reply.json
        assert (file["object"], file["bytes"], file["filename"]) == ("file", len(data), "in.jsonl")
        assert (file["purpose"], file["status"]) == ("batch", "processed")
        path = f"/v1/files/{file['id']}"
        assert (await site.call(http("GET", path))).json == file
        assert (await site.call(http("GET", f"{path}/content"))).body == data
        listed = (await site.call(http("GET", "/v1/files"))).json
        assert (listed["data"], listed["has_more"]) == ([file], False)
        gone = (await site.call(http("DELETE", path))).json
        assert gone == {"id": file["id"], "object": "file", "deleted": True}
        for call in (http("GET", path), http("GET", f"{path}/content"), http("DELETE", path)):
            assert (await site.call(call)).status == 404
        assert (await site.call(http("GET", "/v1/files"))).json["data"] == []


async def test_files_are_listed_in_pages_in_either_order(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site:
        names = [await uploaded(site, line("a")) for _ in range(5)]

        async def listed(query: str) -> tuple[list[str], bool]:
            found = (await site.call(http("GET", f"/v1/files?{query}"))).json
            return [file["id"] for file in found["data"]], found["has_more"]

        assert await listed("limit=2") == (names[:2:-1], True)
        assert await listed(f"limit=2&after={names[3]}") == ([names[2], names[1]], True)
        assert await listed(f"limit=2&order=asc&after={names[3]}") == ([names[4]], False)
        assert await listed("purpose=batch_output") == ([], False)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (form("assistants", b"{}"), "purpose"),
        (form("batch", b"{}", **{"expires_after[seconds]": "60"}), "expires_after"),
        (http("POST", "/v1/files", b"{}"), "content type"),
    ],
)
async def test_what_is_no_upload_is_refused(
    autojump_clock: MockClock, call: bytes, named: str
) -> None:
    async with open_memory_site() as site:
        reply = await site.call(call)
        assert reply.status in (400, 415)
        assert named in reply.json["error"]["message"]


async def test_files_take_no_more_room_than_they_may(autojump_clock: MockClock) -> None:
    async with open_memory_site(files_store_bytes=1000) as site:
        first = (await site.call(form("batch", b"x" * 600))).json["id"]
        assert (await site.call(form("batch", b"x" * 600))).status == 413
        await site.call(http("DELETE", f"/v1/files/{first}"))
        assert (await site.call(form("batch", b"x" * 600))).status == 200


async def test_a_batch_answers_each_line_in_order_and_keeps_failures_apart(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site() as site:
        lines = [line(f"n{number}", f"Text {number}") for number in range(9)]
        lines[4]["body"]["temperature"] = "hot"
        found = await created(site, *lines)
        assert found["object"] == "batch"
        assert found["status"] in ("validating", "in_progress")
        done = await ended(site, found["id"])
        assert done["status"] == "completed"
        assert done["request_counts"] == {"total": 9, "completed": 8, "failed": 1}
        answers = await content(site, done["output_file_id"])
        names = [f"n{number}" for number in range(9) if number != 4]
        assert [answer["custom_id"] for answer in answers] == names
        for answer in answers:
            assert (answer["response"]["status_code"], answer["error"]) == (200, None)
            assert answer["response"]["body"]["object"] == "chat.completion"
            assert answer["response"]["body"]["usage"]["completion_tokens"] == 4
        (failure,) = await content(site, done["error_file_id"])
        assert (failure["custom_id"], failure["response"]["status_code"]) == ("n4", 400)
        assert failure["response"]["body"]["error"]["param"] == "temperature"
        # The files tell whose they are, and the job tells of both.
        kinds = (await site.call(http("GET", "/v1/files?purpose=batch_output"))).json["data"]
        assert {file["id"] for file in kinds} == {done["output_file_id"], done["error_file_id"]}
        await site.idle()


async def test_the_same_file_brings_the_same_answers_again(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site:
        name = await uploaded(site, *[line(f"n{i}", temperature=1.0) for i in range(5)])
        answers = []
        for _ in range(2):
            body = {"input_file_id": name, "endpoint": CHAT, "completion_window": "24h"}
            found = (await site.call(post("/v1/batches", **body))).json
            done = await ended(site, found["id"])
            answers.append(await content(site, done["output_file_id"]))
        for one, other in zip(*answers, strict=True):
            one["response"]["body"].pop("created")
            other["response"]["body"].pop("created")
            assert one == other


@pytest.mark.parametrize(
    ("endpoint", "body", "object_"),
    [
        ("/v1/completions", {"prompt": ["One", "Two"], "max_tokens": 4}, "text_completion"),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 16}, "response"),
    ],
)
async def test_lines_may_be_of_other_routes(
    autojump_clock: MockClock, endpoint: str, body: Any, object_: str
) -> None:
    async with open_memory_site() as site:
        asked = line("a", url=endpoint)
        asked["body"] = body
        found = await created(site, asked, endpoint=endpoint)
        done = await ended(site, found["id"])
        assert done["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
        (answer,) = await content(site, done["output_file_id"])
        assert answer["response"]["body"]["object"] == object_


@pytest.mark.parametrize(
    ("lines", "code", "number"),
    [
        ([line("a"), line("a")], "duplicate_custom_id", 2),
        ([line("a"), "no object"], "invalid_json_line", 2),
        ([line("a", url="/v1/embeddings")], "invalid_request", 1),
        ([line("a") | {"method": "GET"}], "invalid_request", 1),
        ([line("a") | {"urgent": True}], "invalid_request", 1),
        ([line("")], "invalid_request", 1),
        ([], "invalid_file", None),
    ],
)
async def test_a_file_with_a_bad_line_fails_as_a_whole_before_anything_runs(
    autojump_clock: MockClock, lines: list[Any], code: str, number: int | None
) -> None:
    async with open_memory_site() as site:
        found = await created(site, *lines)
        done = await ended(site, found["id"])
        assert (done["status"], done["output_file_id"]) == ("failed", None)
        (fault,) = done["errors"]["data"]
        assert (fault["code"], fault["line"]) == (code, number)
        site.scene.story().never("request.accepted")


async def test_a_line_that_wants_a_stream_fails_alone(autojump_clock: MockClock) -> None:
    async with open_memory_site() as site:
        found = await created(site, line("a", stream=True), line("b"))
        done = await ended(site, found["id"])
        assert done["request_counts"] == {"total": 2, "completed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"input_file_id": "file-0", "endpoint": CHAT}, 404, "file"),
        ({"endpoint": CHAT}, 400, "input_file_id"),
        ({"input_file_id": None, "endpoint": "/v1/messages"}, 400, "endpoint"),
        ({"input_file_id": None, "endpoint": CHAT, "completion_window": "1h"}, 400, "window"),
    ],
)
async def test_what_is_no_batch_is_refused(
    autojump_clock: MockClock, body: Any, status: int, named: str
) -> None:
    async with open_memory_site() as site:
        if "input_file_id" in body and body["input_file_id"] is None:
            body = {**body, "input_file_id": await uploaded(site, line("a"))}
        reply = await site.call(post("/v1/batches", **body))
        assert reply.status == status
        assert named in reply.json["error"]["message"]


async def test_batches_are_listed_and_cancelled_and_leave_no_file(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(load_seconds=0)
    async with open_memory_site(model) as site:
        lines = [line(f"n{number}", max_tokens=200) for number in range(20)]
        first = await created(site, *lines)
        second = await created(site, line("a"))
        await trio.sleep(0.5)
        listed = (await site.call(http("GET", "/v1/batches"))).json
        assert [found["id"] for found in listed["data"]] == [second["id"], first["id"]]
        path = f"/v1/batches?limit=1&after={second['id']}"
        assert [b["id"] for b in (await site.call(http("GET", path))).json["data"]] == [first["id"]]
        reply = await site.call(post(f"/v1/batches/{first['id']}/cancel"))
        assert (reply.json["status"], reply.json["output_file_id"]) == ("cancelled", None)
        assert (await ended(site, second["id"]))["status"] == "completed"
        outputs = (await site.call(http("GET", "/v1/files?purpose=batch_output"))).json["data"]
        assert len(outputs) == 1
        assert (await site.call(http("GET", "/v1/batches/batch_0"))).status == 404
        await site.idle()


async def test_interactive_requests_go_before_the_lines_of_a_batch(
    autojump_clock: MockClock,
) -> None:
    """With rows for two, one line runs beside the requests of clients, whoever came first."""
    async with open_memory_site(max_rows=2, batch_rows=2) as site:
        lines = [line(f"n{number}", max_tokens=50) for number in range(10)]
        found = await created(site, *lines)
        await trio.sleep(0.2)
        async with trio.open_nursery() as nursery:
            replies: list[Reply] = []

            async def ask() -> None:
                replies.append(await site.call(chat(max_tokens=5)))

            for _ in range(6):
                nursery.start_soon(ask)
        assert [reply.status for reply in replies] == [200] * 6
        early = await batch(site, found["id"])
        assert early["request_counts"]["completed"] < 5
        done = await ended(site, found["id"])
        assert done["request_counts"]["completed"] == 10
        await site.idle()


async def test_a_batch_waits_where_its_model_is_busy_or_newcomers_are_refused(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(max_rows=1, queue_limit=0) as site:
        site.scene.runtime.close_to_new()
        found = await created(site, line("a"), line("b"))
        await trio.sleep(30)
        assert (await batch(site, found["id"]))["request_counts"]["completed"] == 0
        site.scene.runtime.open_to_new()
        done = await ended(site, found["id"])
        assert done["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
