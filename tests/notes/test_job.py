"""Notes as a job: the route, what it refuses, and how a job of it ends."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from headrace.actors.notes.order import MOST_SOURCE_BYTES
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Choices, Script, ScriptedModel, explore
from headrace.runtime.testing.fuzzing import Compiling
from headrace.runtime.testing.memory_site import MemorySite, open_memory_site
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.site import Reply, http

PATH = "/v1/memory/synthesize"
MILL = '{"title": "Mills", "topics": [], "facts": ["A mill has a wheel."]}'
TALK = [
    {"role": "user", "content": "What is a mill?"},
    {"role": "assistant", "content": [{"type": "text", "text": "It grinds."}], "name": "bot"},
]


def model() -> ScriptedModel:
    return ScriptedModel(tokenizer=Compiling(), scripts={"": Script(MILL)}, load_seconds=0)


def post(**body: Any) -> bytes:
    return http("POST", PATH, json.dumps(body).encode())


async def submitted(site: MemorySite, **body: Any) -> str:
    reply = await site.call(post(**body))
    assert reply.status == 202, reply.body
    assert reply.json["ok"] is True
    assert reply.json["job"]["kind"] == "synthesize"
    name: str = reply.json["job"]["id"]
    return name


async def ended(site: MemorySite, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A job's row when it has ended, and all that its stream told."""
    stream = await site.call(http("GET", f"/api/jobs/{name}/stream"))
    told = [frame.partition("data: ")[2] for frame in stream.frames if "data: {" in frame]
    row = (await site.call(http("GET", f"/api/jobs/{name}"))).json["job"]
    return row, [json.loads(data) for data in told[:-1]]


async def test_a_conversation_is_kept_as_notes(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with open_memory_site(model(), home=tmp_path) as site:
        name = await submitted(site, folder="talks/may", messages=TALK)
        row, told = await ended(site, name)
        assert row["status"] == "done"
        assert row["summary"] == {
            "dry_run": False,
            "segments": 1,
            "new_segments": 1,
            "unread_segments": 0,
            "created": 1,
            "updated": 0,
        }
        stages = dict.fromkeys(event["stage"] for event in told if event["type"] == "stage")
        assert list(stages) == ["segment", "extract", "merge", "write"]
        note = (tmp_path / "memory/talks/may/mills.md").read_text()
        assert "user:\nWhat is a mill?\n\nbot:\nIt grinds.\n" in note
        assert "- A mill has a wheel.\n" in note
        await site.idle()


async def test_a_dry_run_tells_the_texts_and_writes_nothing(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    home, jobs = tmp_path / "home", tmp_path / "jobs"
    async with open_memory_site(model(), home=home, jobs_folder=str(jobs)) as site:
        name = await submitted(site, folder=".", messages=TALK, dry_run=True)
        row, _ = await ended(site, name)
        (change,) = json.loads((jobs / row["output_path"]).read_text())
    assert not home.exists()
    assert (change["path"], change["action"]) == ("mills.md", "create")
    assert change["bytes"] == len(change["text"].encode())


async def test_text_files_are_named_in_their_notes(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_memory_site(model(), home=tmp_path) as site:
        files = [{"name": "a.txt", "text": "One."}, {"name": "b.txt", "text": "One."}]
        await ended(site, await submitted(site, folder="x", files=files))
    note = (tmp_path / "memory/x/mills.md").read_text()
    assert "## a.txt, part 1\n" in note
    assert "## b.txt, part 1\n" in note


async def test_it_is_a_kind_of_job_like_any_other(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_memory_site(model(), home=tmp_path) as site:
        assert "synthesize" in (await site.call(http("GET", "/v1"))).json["job_kinds"]
        body = {"kind": "synthesize", "config": {"folder": "x", "messages": TALK}}
        reply = await site.call(http("POST", "/api/jobs", json.dumps(body).encode()))
        assert reply.status == 201
        row, _ = await ended(site, reply.json["job"]["id"])
        assert row["status"] == "done"


async def test_a_list_of_jobs_is_without_their_texts(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_memory_site(model(), home=tmp_path) as site:
        files = [{"name": "a.txt", "text": "One. " * 1000}]
        name = await submitted(site, folder="x", files=files, segment_tokens=8192)
        (listed,) = (await site.call(http("GET", "/api/jobs"))).json["jobs"]
        assert listed["config"] == {"folder": "x", "segment_tokens": 8192}
        row, _ = await ended(site, name)
        assert row["config"]["files"] == files


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"messages": TALK}, "folder"),
        ({"folder": "x"}, "messages or files"),
        ({"folder": "x", "messages": []}, "messages or files"),
        ({"folder": "x", "messages": [{"role": "user", "content": ""}]}, "some text"),
        ({"folder": "x", "messages": "Hi"}, "`messages`"),
        ({"folder": "x", "messages": [{"role": "user"}]}, "content"),
        ({"folder": "x", "messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"folder": "x", "messages": [{"role": "\t", "content": "Hi"}]}, "visible"),
        ({"folder": "x", "messages": TALK, "colour": "red"}, "colour"),
        ({"folder": "x", "messages": TALK, "segment_tokens": 1}, "segment_tokens"),
        ({"folder": "x", "messages": TALK, "answer_tokens": 0}, "answer_tokens"),
        ({"folder": "x", "messages": TALK, "dry_run": "yes"}, "dry_run"),
        ({"folder": 3, "messages": TALK}, "`folder`"),
        ({"folder": "../x", "messages": TALK}, "folder"),
        ({"folder": "x/../../y", "messages": TALK}, "folder"),
        ({"folder": "/etc", "messages": TALK}, "folder"),
        ({"folder": "~/x", "messages": TALK}, "folder"),
        ({"folder": "x", "files": [{"name": "a", "text": "x" * (MOST_SOURCE_BYTES + 1)}]}, "bytes"),
        ({"folder": "x", "files": [{"name": "", "text": "x"}]}, "name"),
        ({"folder": "x", "files": [{"path": "/etc/passwd"}]}, "path"),
    ],
)
async def test_what_is_refused_before_there_is_a_job(
    autojump_clock: MockClock, tmp_path: Path, body: dict[str, Any], word: str
) -> None:
    async with open_memory_site(model(), home=tmp_path) as site:
        reply = await site.call(post(**body))
        assert (reply.status, reply.code) == (400, "invalid_value"), reply.body
        assert word in reply.json["error"]["message"]
        assert "config" not in reply.json["error"]["message"]
        jobs = await site.call(http("GET", "/api/jobs"))
        assert jobs.json["jobs"] == []
    assert list_of(tmp_path) == []


def list_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_link_that_leads_out_fails_the_job(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    make(home / "memory", elsewhere)
    (home / "memory/out").symlink_to(elsewhere)
    async with open_memory_site(model(), home=home) as site:
        row, _ = await ended(site, await submitted(site, folder="out/x", messages=TALK))
    assert (row["status"], row["error"]) == (
        "failed",
        "folder must not lead through links or files.",
    )
    assert list_of(elsewhere) == []


def make(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True)


async def test_other_folders_are_for_the_operator_to_allow(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    home, vault = tmp_path / "home", tmp_path / "vault"
    async with open_memory_site(model(), home=home) as site:
        assert (await site.call(post(folder=str(vault), messages=TALK))).status == 400
    async with open_memory_site(model(), home=home, memory_folders=[str(vault)]) as site:
        name = await submitted(site, folder=str(vault / "x"), messages=TALK)
        row, _ = await ended(site, name)
        assert row["status"] == "done"
    assert list_of(vault / "x") == ["mills.md"]


async def test_a_job_that_is_cancelled_has_no_row_left(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_memory_site(model(), home=tmp_path) as site:
        replies: list[Reply] = []
        name = await submitted(site, folder="x", messages=TALK)
        await until(lambda: site.scene.engine.rows != ())
        replies.append(await site.call(http("DELETE", f"/api/jobs/{name}")))
        assert site.scene.engine.rows == ()
        assert replies[0].json["job"]["status"] == "cancelled"
        await site.idle()
    assert not list((tmp_path / "memory/x").iterdir())


@pytest.mark.explore
def test_a_job_that_is_cancelled_at_any_time_and_ordered_again(tmp_path: Path) -> None:
    numbers = itertools.count()
    whole: list[dict[str, bytes]] = []
    ends = Counter[str]()

    async def scenario(choices: Choices) -> None:
        home = tmp_path / str(next(numbers))
        async with open_scene(model(), Settings(home=home)) as scene:
            jobs = scene.runtime.jobs
            config = {"folder": "x", "messages": TALK, "segment_turns": 1}
            job = await jobs.submit("synthesize", config)
            await trio.sleep(choices.seconds(2.5))
            cancelled = await jobs.cancel(job.id)
            assert cancelled is not None
            ends[cancelled.status] += 1
            await scene.baseline.settle()
            again = await jobs.wait((await jobs.submit("synthesize", config)).id)
            assert again is not None
            assert (again.status, again.error) == ("done", None)
        whole.append({path.name: path.read_bytes() for path in (home / "memory/x").iterdir()})

    explore(scenario, range(20))
    assert set(ends) == {"cancelled", "done"}
    assert [list(files) for files in whole] == [["mills.md"]] * 20
    assert all(files == whole[0] for files in whole)


async def until(holds: Callable[[], bool]) -> None:
    await trio.lowlevel.checkpoint()
    while not holds():  # noqa: ASYNC110 - the engine sets no event for tests
        await trio.sleep(0.01)
