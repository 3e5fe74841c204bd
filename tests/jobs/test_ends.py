"""A job that is killed, cut off from its disk or cancelled anywhere is never half-done in silence.

Each seed picks a piece of the store's work, and what happens there. A kill is what the disk holds
at that moment: a copy of the folder, from which the next server begins.
"""

from __future__ import annotations

import errno
import json
import random
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from headrace.actors.jobs import Job
from headrace.actors.jobs.files import StoredFile
from headrace.actors.jobs.place import LOG
from headrace.actors.jobs.store import JobStore
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.actors.spec import ModelSpec
from headrace.http.batch_kind import Batch
from headrace.http.kept import Kept
from headrace.runtime.errors import RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader, ScriptedModel, inline_threads
from headrace.runtime.thread import Thread, ThreadFactory
from headrace.runtime.whole_file import UNFINISHED

SEEDS = range(21)
FAULTS = ("kill", "full disk", "cancel")
LINES = 6
CHAT = "/v1/chat/completions"
FULL = [OSError(errno.ENOSPC, "No space left on device"), sqlite3.OperationalError("disk is full")]


@attrs.define
class Fault:
    """What happens at one call of the jobs' thread. `begin` comes before it has any effect."""

    at: int
    happens: Callable[[], None]
    calls: int = -1

    def begin(self) -> None:
        if self.calls >= 0:
            self.calls += 1
            if self.calls == self.at:
                self.happens()


def faulty(threads: ThreadFactory, fault: Fault) -> ThreadFactory:
    """The same threads, with a fault in the work of the one that is the jobs'."""

    class Faulty:
        def __init__(self, thread: Thread) -> None:
            self._thread = thread

        async def run(self, fn: Callable[..., Any], *args: Any) -> Any:
            def act() -> Any:
                fault.begin()
                return fn(*args)

            return await self._thread.run(act)

    @asynccontextmanager
    async def open_one(name: str) -> AsyncIterator[Thread]:
        async with threads(name) as thread:
            yield Faulty(thread) if name == "jobs" else thread

    factory: Callable[[str], AbstractAsyncContextManager[Thread]] = open_one
    return factory


@asynccontextmanager
async def open_server(folder: Path, fault: Fault) -> AsyncIterator[Runtime]:
    """A scripted runtime with its jobs in a folder, that knows batches."""
    loader = ScriptedLoader(ScriptedModel(load_seconds=0))
    specs = tuple(ModelSpec(m.id, m.id, m.weights_bytes) for m in loader.models.values())
    provision = Provision(specs, loader, sum(spec.estimate_bytes for spec in specs))
    threads = faulty(inline_threads(loader.device), fault)
    settings = Settings(jobs_folder=str(folder), test_jobs=True, batch_rows=2)
    async with open_runtime(settings, provision=provision, threads=threads) as runtime:
        runtime.jobs.register(Batch(Kept(runtime.history), settings.batch_rows))
        await trio.testing.wait_all_tasks_blocked()
        yield runtime


def no_fault() -> Fault:
    return Fault(0, lambda: None)


async def bring_input(runtime: Runtime) -> None:
    """The file of a batch; one of its lines fails."""
    bodies = [
        {"messages": [{"role": "user", "content": f"Text {n}"}], "max_tokens": 3, "temperature": 1}
        for n in range(LINES)
    ]
    bodies[2]["temperature"] = "hot"
    lines = [
        {"custom_id": f"n{n}", "method": "POST", "url": CHAT, "body": body}
        for n, body in enumerate(bodies)
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    file = StoredFile(id="file-in", filename="in", purpose="batch", bytes=len(data), created_at=0)
    await runtime.jobs.call(lambda store: store.files.add(file, data))


async def run_batch(runtime: Runtime) -> Job:
    job = await runtime.jobs.submit("batch", {"input_file_id": "file-in", "endpoint": CHAT})
    found = await runtime.jobs.wait(job.id)
    assert found is not None
    return found


async def answers(runtime: Runtime, job: Job) -> dict[str, Any]:
    """The two files of a batch that is done, without the times in them."""
    found = {}
    for which in ("output", "error"):
        data = await content(runtime, (job.summary or {})[f"{which}_file_id"])
        found[which] = [json.loads(line) for line in data.splitlines()]
        for line in found[which]:
            line["response"]["body"].pop("created", None)
    return found


async def content(runtime: Runtime, name: str) -> bytes:
    data = await runtime.jobs.call(lambda store: store.files.read(name))
    assert data is not None
    return data


def check_disk(folder: Path) -> None:
    """What a server that begins here makes of the folder: nothing in it is half there."""
    store = JobStore(folder, 1, files_bytes=1 << 30)
    try:
        jobs = store.newest(100)
        assert all(job.ended for job in jobs)
        known = {job.id for job in jobs}
        assert {path.name for path in folder.glob("job_*")} <= known
        assert not list(folder.rglob(f"*{UNFINISHED}"))
        files = {file.id: file for file in store.files.newest(100, oldest=True)}
        there = {path.name: path.stat().st_size for path in (folder / "files").glob("*")}
        assert there == {name: file.bytes for name, file in files.items()}
        done = {job.id for job in jobs if job.status == "done"}
        assert {file.job for file in files.values() if file.job is not None} <= done
        for job in jobs:
            check_log(folder / job.id / LOG, job)
    finally:
        store.close()


def check_log(log: Path, job: Job) -> None:
    lines = log.read_bytes().split(b"\n") if log.exists() else [b""]
    kinds = [json.loads(line)["type"] for line in lines[:-1]]
    assert lines[-1] == b""
    ends = [kind for kind in kinds if kind in ("done", "failed")]
    assert ends in ([], kinds[-1:])
    assert not ends or (ends == ["done"]) == (job.status == "done")


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """What the batch answers where nothing happens, and how much work that takes the store."""
    return {}


async def expected(undisturbed: dict[str, Any], folder: Path) -> dict[str, Any]:
    if not undisturbed:
        fault = no_fault()
        async with open_server(folder / "undisturbed", fault) as runtime:
            await bring_input(runtime)
            fault.calls = 0
            job = await run_batch(runtime)
            assert job.status == "done"
            undisturbed["calls"] = fault.calls
            undisturbed["answers"] = await answers(runtime, job)
    return undisturbed


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_a_batch_is_whole_or_told_to_be_none(
    autojump_clock: MockClock, seed: int, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    known = await expected(undisturbed, tmp_path)
    chance = random.Random(seed)
    kind, at = FAULTS[seed % len(FAULTS)], chance.randint(1, known["calls"])
    folder, killed = tmp_path / "jobs", tmp_path / "killed"
    error = chance.choice(FULL)
    async with open_server(folder, fault := no_fault()) as runtime:
        await bring_input(runtime)

        def happens() -> None:
            if kind == "kill":
                shutil.copytree(folder, killed)
            elif kind == "full disk":
                raise error
            else:
                trio.lowlevel.spawn_system_task(cancel_all, runtime)

        fault.at, fault.happens, fault.calls = at, happens, 0
        check_end(kind, await run_or_refused(runtime))
    folder = killed if kind == "kill" else folder
    check_disk(folder)
    async with open_server(folder, no_fault()) as runtime:
        again = await run_batch(runtime)
        assert again.status == "done"
        assert await answers(runtime, again) == known["answers"]
    check_disk(folder)


async def run_or_refused(runtime: Runtime) -> Job | None:
    try:
        return await run_batch(runtime)
    except RequestError:
        return None


def check_end(kind: str, job: Job | None) -> None:
    """What the client of a batch is told in the end; a refusal, None, may come of a full disk."""
    if job is None:
        assert kind == "full disk"
    elif kind == "kill":
        assert job.status == "done"
    elif kind == "cancel":
        assert job.status in ("done", "cancelled")
    else:
        assert job.status in ("done", "failed")
        assert job.error is None or "unexpectedly" not in job.error


async def cancel_all(runtime: Runtime) -> None:
    # It may come as late as at the end of the runtime.
    with suppress(RequestError):
        for job in await runtime.jobs.newest(10):
            await runtime.jobs.cancel(job.id)


async def test_jobs_that_a_server_left_are_zombies_and_their_streams_end(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    folder, killed = tmp_path / "jobs", tmp_path / "killed"
    async with open_server(folder, no_fault()) as runtime:
        await bring_input(runtime)
        running = await runtime.jobs.submit("noop", {"seconds": 100})
        queued = await runtime.jobs.submit("noop")
        await trio.testing.wait_all_tasks_blocked()
        shutil.copytree(folder, killed)
    async with open_server(killed, no_fault()) as runtime:
        assert runtime.jobs.zombies == 2
        for left in (running, queued):
            found = await runtime.jobs.get(left.id)
            assert found is not None
            assert (found.status, found.error) == ("zombie", "The server ended before the job did.")
            assert (await runtime.jobs.cancel(left.id)) == found


async def test_a_folder_serves_one_server_at_a_time(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with open_server(tmp_path, no_fault()):
        with pytest.raises(ValueError, match="in use by another server"):
            async with open_server(tmp_path, no_fault()):
                pass
