"""Jobs as their clients see them: rows, order, bounds, logs that are replayed, ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.runtime.testing.memory_site import MemoryCaller, MemorySite, open_memory_site
from headrace.runtime.testing.site import Reply, http


def post(kind: Any, config: Any = None, **more: Any) -> bytes:
    body = {"kind": kind, **({} if config is None else {"config": config}), **more}
    return http("POST", "/api/jobs", json.dumps(body).encode())


def get(path: str, **headers: str) -> bytes:
    return http("GET", path, headers=headers)


async def submitted(site: MemorySite, kind: str = "noop", **config: Any) -> str:
    reply = await site.call(post(kind, config))
    assert reply.status == 201, reply.body
    name: str = reply.json["job"]["id"]
    return name


async def row(site: MemorySite, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await site.call(get(f"/api/jobs/{name}"))).json["job"]
    return found


async def delete(site: MemorySite, name: str) -> Reply:
    return await site.call(http("DELETE", f"/api/jobs/{name}"))


@asynccontextmanager
async def open_stream(site: MemorySite, name: str) -> AsyncIterator[MemoryCaller]:
    async with site.dial() as caller:
        await caller.send(get(f"/api/jobs/{name}/stream"))
        yield caller


def events(reply: Reply) -> list[dict[str, Any]]:
    """The events of a whole stream; their ids are numbered without a gap."""
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    first, *frames, end = reply.frames
    assert first == "retry: 1500"
    assert end == "event: end\ndata: {}"
    told = [frame.split("\n") for frame in frames if frame != ": keep-alive"]
    numbers = [int(lines[0].removeprefix("id: ")) for lines in told]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    return [json.loads(lines[1].removeprefix("data: ")) for lines in told]


async def test_a_job_goes_from_queued_to_done_and_its_stream_tells_all_of_it(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(test_jobs=True) as site:
        reply = await site.call(post("noop", {"steps": 2, "seconds": 1}))
        job = reply.json["job"]
        assert reply.json["ok"] is True
        assert (job["status"], job["progress"], job["started_at"]) == ("queued", 0.0, None)
        name = job["id"]
        assert name.startswith("job_")
        assert len(name) == len("job_") + 16
        told = events(await site.call(get(f"/api/jobs/{name}/stream")))
        kinds = [event["type"] for event in told]
        assert kinds[0] == "started"
        assert kinds[-1] == "done"
        assert [event["line"] for event in told if event["type"] == "log"] == ["step 1", "step 2"]
        assert {"type": "metric", "steps": 2} in told
        assert told[-1]["summary"] == {"steps": 2}
        ended = await row(site, name)
        assert (ended["status"], ended["progress"], ended["error"]) == ("done", 1.0, None)
        assert ended["config"] == {"steps": 2, "seconds": 1}
        assert ended["log_path"] == f"{name}/log.ndjson"
        assert ended["output_path"] == f"{name}/lines.txt"
        assert ended["started_at"] <= ended["ended_at"]
        await site.idle()


async def test_a_reader_that_comes_back_gets_what_it_has_not_seen(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(test_jobs=True) as site:
        name = await submitted(site, steps=3)
        whole = events(await site.call(get(f"/api/jobs/{name}/stream")))
        for seen in range(len(whole) + 1):
            path = f"/api/jobs/{name}/stream"
            rest = await site.call(get(path, **{"Last-Event-ID": str(seen)}))
            assert events(rest) == whole[seen:]
        again = await site.call(get(path, **{"Last-Event-ID": "none of ours"}))
        assert events(again) == whole


async def test_a_stream_follows_a_job_with_signs_of_life_while_it_is_silent(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(test_jobs=True, keepalive_s=2) as site:
        name = await submitted(site, steps=1, seconds=5)
        reply = await site.call(get(f"/api/jobs/{name}/stream"))
        assert reply.frames.count(": keep-alive") == 2
        assert events(reply)[-1]["type"] == "done"
        await site.idle()


async def test_a_reader_that_leaves_ends_nothing(autojump_clock: MockClock) -> None:
    async with open_memory_site(test_jobs=True) as site:
        name = await submitted(site, steps=3, seconds=1)
        async with open_stream(site, name) as caller:
            await caller.read_until(b'"started"')
        assert (await row(site, name))["status"] == "running"
        await trio.sleep(5)
        assert (await row(site, name))["status"] == "done"
        await site.idle()


async def test_one_job_of_a_kind_runs_at_a_time_and_in_order(autojump_clock: MockClock) -> None:
    async with open_memory_site(test_jobs=True) as site:
        names = [await submitted(site, steps=1, seconds=10) for _ in range(3)]
        await trio.sleep(5)
        listed = (await site.call(get("/api/jobs"))).json
        assert listed["ok"] is True
        assert [job["id"] for job in listed["jobs"]] == names[::-1]
        assert [job["status"] for job in listed["jobs"]] == ["queued", "queued", "running"]
        await trio.sleep(30)
        rows = [await row(site, name) for name in names]
        assert [job["status"] for job in rows] == ["done"] * 3
        assert [job["started_at"] for job in rows] == sorted(job["started_at"] for job in rows)


async def test_too_many_that_wait_are_refused_by_name(autojump_clock: MockClock) -> None:
    async with open_memory_site(test_jobs=True, job_queue_limit=1) as site:
        first = await submitted(site, seconds=100)
        await submitted(site)
        reply = await site.call(post("noop"))
        assert reply.status == 429
        assert reply.json["ok"] is False
        assert "'noop'" in reply.json["error"]
        # Another kind has a queue of its own.
        await submitted(site, "crash", how="refuse")
        await delete(site, first)
        await submitted(site)


async def test_cancelling_a_running_job_ends_its_scope_and_starts_the_next(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(test_jobs=True) as site:
        first = await submitted(site, seconds=100)
        second = await submitted(site, seconds=1, steps=1)
        await trio.sleep(50)
        reply = await delete(site, first)
        assert reply.json["job"]["status"] == "cancelled"
        assert reply.json["job"]["error"] == "The job was cancelled."
        assert reply.json["job"]["output_path"] is None
        told = events(await site.call(get(f"/api/jobs/{first}/stream")))
        assert told[-1]["type"] == "failed"
        assert (await row(site, second))["status"] == "running"
        await trio.sleep(2)
        assert (await row(site, second))["status"] == "done"
        await site.idle()


async def test_a_queued_job_that_is_cancelled_never_runs_and_an_ended_one_stays_as_it_is(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(test_jobs=True) as site:
        first, second = await submitted(site, seconds=1), await submitted(site)
        assert (await delete(site, second)).json["job"]["status"] == "cancelled"
        await trio.sleep(10)
        never = await row(site, second)
        assert (never["status"], never["started_at"]) == ("cancelled", None)
        done = await row(site, first)
        assert done["status"] == "done"
        assert (await delete(site, first)).json["job"] == done
        told = events(await site.call(get(f"/api/jobs/{second}/stream")))
        assert [event["type"] for event in told] == ["failed"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (post("bake"), "'bake'"),
        (post(None), "kind"),
        (post("noop", {"steps": "three"}), "config.steps"),
        (post("noop", {"stops": 3}), "stops"),
        (post("noop", [3]), "config"),
        (post("noop", configuration={}), "configuration"),
    ],
)
async def test_a_job_that_cannot_be_is_refused(
    autojump_clock: MockClock, body: bytes, named: str
) -> None:
    async with open_memory_site(test_jobs=True) as site:
        reply = await site.call(body)
        assert reply.status == 400
        assert reply.json["ok"] is False
        assert named in reply.json["error"]
        assert (await site.call(get("/api/jobs"))).json["jobs"] == []


async def test_what_is_unknown_is_told_so(autojump_clock: MockClock) -> None:
    async with open_memory_site(test_jobs=True) as site:
        for call in (get("/api/jobs/job_0"), http("DELETE", "/api/jobs/job_0")):
            reply = await site.call(call)
            assert (reply.status, reply.json) == (404, {"ok": False, "error": "job not found"})
        told = events(await site.call(get("/api/jobs/job_0/stream")))
        assert [(event["type"], event["error"]) for event in told] == [("failed", "job not found")]


async def test_a_list_is_bounded_and_of_one_kind_where_asked(autojump_clock: MockClock) -> None:
    async with open_memory_site(test_jobs=True) as site:
        names = [await submitted(site) for _ in range(3)]
        crash = await submitted(site, "crash", how="raise")
        listed = (await site.call(get("/api/jobs?limit=2"))).json["jobs"]
        assert [job["id"] for job in listed] == [crash, names[2]]
        listed = (await site.call(get("/api/jobs?kind=noop"))).json["jobs"]
        assert [job["id"] for job in listed] == names[::-1]
        assert (await site.call(get("/api/jobs?limit=0"))).status == 400
        assert (await site.call(get("/api/jobs?limit=201"))).status == 400


async def test_a_job_that_fails_says_why_as_far_as_that_was_foreseen(
    autojump_clock: MockClock,
) -> None:
    async with open_memory_site(test_jobs=True) as site:
        refused = await submitted(site, "crash", how="refuse")
        bug = await submitted(site, "crash", how="raise")
        await wait_all_tasks_blocked()
        assert (await row(site, refused))["error"] == "This job always fails."
        failed = await row(site, bug)
        assert (failed["status"], failed["error"]) == ("failed", "The job failed unexpectedly.")
        site.scene.story().tells("job.crashed")


async def test_the_kinds_for_tests_are_there_only_if_wanted_and_never_listed(
    autojump_clock: MockClock,
) -> None:
    for wanted in (True, False):
        async with open_memory_site(test_jobs=wanted) as site:
            kinds = (await site.call(get("/v1"))).json["job_kinds"]
            assert {"batch", "convert", "pull"} <= set(kinds)
            assert not {"noop", "crash"} & set(kinds)
            assert (await site.call(post("noop"))).status == (201 if wanted else 400)


async def test_a_drain_ends_jobs_and_sends_their_readers_away(autojump_clock: MockClock) -> None:
    async with open_memory_site(test_jobs=True) as site:
        name = await submitted(site, seconds=100)
        waiting = await submitted(site)
        async with open_stream(site, name) as caller:
            await caller.read_until(b'"stage"')
            site.scene.runtime.jobs.close()
            rest = await caller.read_to_end()
        # A client of the next server asks for the rest with the id that it has seen last.
        assert b"event: end" not in rest
        for job in (name, waiting):
            ended = await row(site, job)
            assert (ended["status"], ended["error"]) == ("cancelled", "The server was stopped.")
        assert (await site.call(post("noop"))).status == 503
        await site.idle()
