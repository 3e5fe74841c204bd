"""The heavy part of a job is a process: its crash is the job's failure, and nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from headrace.actors.jobs import JobContext, JobKind, Result
from headrace.actors.jobs.child import run_child
from headrace.actors.jobs.place import Spot
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader

TALKS = 'import sys, time; sys.stdout.write(\'{"word": "hello"}\\n\'); sys.stdout.flush()'
WAITS = f"{TALKS}; time.sleep(600)"
PARENT = """
import sys
from pathlib import Path
from headrace.actors.library.command import run_command
child = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
run_command([sys.executable, "-c", child], Path(sys.argv[1]), lifeline=True)
"""


class Word(msgspec.Struct):
    word: str


class TalkConfig(msgspec.Struct, forbid_unknown_fields=True):
    code: str


class Talk(JobKind[TalkConfig]):
    """Runs a program and logs the words that it says."""

    name = "talk"
    config = TalkConfig

    async def run(self, context: JobContext[TalkConfig]) -> Result:
        words: list[str] = []

        def told(word: Word) -> None:
            words.append(word.word)
            context.progress(0.5, word.word)

        command = [sys.executable, "-c", context.config.code]
        await run_child(command, context.folder / "said", Word, told)
        return Result(summary={"words": words})


@asynccontextmanager
async def open_talking() -> AsyncIterator[Runtime]:
    settings = Settings(test_jobs=True)
    async with open_runtime(settings, provision=Provision((), ScriptedLoader(), 0)) as runtime:
        runtime.jobs.register(Talk())
        yield runtime


async def test_what_a_program_says_reaches_its_job() -> None:
    async with open_talking() as runtime:
        job = await runtime.jobs.submit("talk", {"code": f"print('no word'); {TALKS}"})
        found = await runtime.jobs.wait(job.id)
        assert found is not None
        assert (found.status, found.summary) == ("done", {"words": ["hello"]})


async def test_cancelling_a_job_ends_its_program() -> None:
    async with open_talking() as runtime:
        job = await runtime.jobs.submit("talk", {"code": WAITS})
        spot, lines = Spot(), [b""]
        with trio.fail_after(60):
            while b"hello" not in b"".join(lines):
                lines, spot = await runtime.jobs.read(job.id, spot)
            ended = await runtime.jobs.cancel(job.id)
        assert ended is not None
        assert ended.status == "cancelled"
    # That no process is left is looked at after every test.


@pytest.mark.parametrize(
    ("how", "told"), [("exit", "exit status 3"), ("signal", "ended by signal 9")]
)
async def test_the_crash_of_a_program_is_the_failure_of_its_job_alone(how: str, told: str) -> None:
    async with open_talking() as runtime:
        crash = await runtime.jobs.submit("crash", {"how": how})
        found = await runtime.jobs.wait(crash.id)
        assert found is not None
        assert found.status == "failed"
        assert told in str(found.error)
        after = await runtime.jobs.submit("noop")
        ended = await runtime.jobs.wait(after.id)
        assert ended is not None
        assert ended.status == "done"


def test_a_program_with_a_lifeline_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(output)]) as parent:
        _until(lambda: output.exists() and output.read_text().endswith("\n"))
        child = int(output.read_text())
        os.kill(parent.pid, signal.SIGKILL)
    _until(lambda: not _runs(child))


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """A zombie, which waits for a parent that may be none of ours, runs no more."""
    try:
        os.kill(pid, 0)
        if not Path("/proc/self/stat").exists():
            return True
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
