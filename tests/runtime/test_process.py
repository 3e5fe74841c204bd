"""Worker processes: real ones, in real time. However either side ends, the other hears of it."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from headrace.runtime.frames import FrameTooLong
from headrace.runtime.process import StopLadder, WorkerExit, WorkerProcess, open_worker
from headrace.runtime.testing.sweep import sweep

CHILD = str(Path(__file__).with_name("worker_child.py"))
SHORT = StopLadder(close_seconds=0.1, term_seconds=0.1, kill_seconds=60.0)
# For one that the second step ends: on a busy machine that may take it a while.
TO_TERM = StopLadder(close_seconds=0.1, term_seconds=60.0, kill_seconds=60.0)
killed_by_kernel = pytest.mark.skipif(
    not hasattr(fcntl, "F_SETSIG"), reason="the system has no signal for a pipe's end"
)


@asynccontextmanager
async def worker(kind: str, ladder: StopLadder | None = None) -> AsyncIterator[WorkerProcess]:
    async with open_worker([sys.executable, CHILD, kind], name=kind, ladder=ladder) as opened:
        yield opened


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


# ---- a life ------------------------------------------------------------------------------------


async def test_a_worker_answers_and_leaves_when_the_link_closes() -> None:
    files = open_files()
    async with worker("echo") as echo:
        payloads = [b"", b"x" * 1_000_000, b"last"]
        for payload in payloads:
            echo.link.send(payload)
        assert [await echo.link.receive() for _ in payloads] == payloads
        assert echo.exit is None
        assert repr(echo) == f"<WorkerProcess echo {echo.pid} running>"
    assert echo.exit == WorkerExit(code=0, signal=None)
    assert open_files() == files


async def test_the_last_words_and_the_code_of_one_that_leaves_are_known() -> None:
    async with worker("leave") as leaving:
        assert await leaving.link.receive() == b"goodbye"
        assert await leaving.link.receive() is None
        assert await leaving.wait() == WorkerExit(code=3, signal=None)
    assert str(leaving.exit) == "exit code 3"


async def test_a_program_that_cannot_be_started_leaves_nothing_behind() -> None:
    files = open_files()
    with pytest.raises(FileNotFoundError):
        async with open_worker(["/no/such/program"], name="none"):
            pass
    assert open_files() == files


async def test_a_worker_is_in_a_process_group_of_its_own() -> None:
    async with worker("echo") as echo:
        assert os.getpgid(echo.pid) == echo.pid


async def test_a_worker_that_writes_no_frames_is_found_out() -> None:
    async with worker("babble") as babbling:
        with pytest.raises(FrameTooLong):
            await babbling.link.receive()


# ---- the worker dies ---------------------------------------------------------------------------


async def test_a_kill_in_the_middle_of_a_stream_ends_the_stream_at_once() -> None:
    async with worker("flood") as flooding:
        assert await flooding.link.receive() is not None
        os.kill(flooding.pid, signal.SIGKILL)
        with trio.fail_after(30):
            while await flooding.link.receive() is not None:
                pass
            assert await flooding.wait() == WorkerExit(code=None, signal=signal.SIGKILL)
    assert str(flooding.exit) == "signal SIGKILL"


async def test_programs_that_a_worker_started_do_not_hide_its_death() -> None:
    async with worker("spawn") as spawning:
        told = await spawning.link.receive()
        assert told is not None
        with trio.fail_after(30):
            assert await spawning.link.receive() is None
        assert is_running(int(told))
        os.kill(int(told), signal.SIGKILL)


# ---- the worker will not leave -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ladder", "last"),
    [("linger", TO_TERM, signal.SIGTERM), ("stay", SHORT, signal.SIGKILL)],
)
async def test_the_ladder_goes_as_far_down_as_it_must(
    kind: str, ladder: StopLadder, last: signal.Signals
) -> None:
    with trio.fail_after(30):
        async with worker(kind, ladder) as staying:
            assert await staying.link.receive() == b"up"
    assert staying.exit == WorkerExit(code=None, signal=last)


async def test_a_stopped_worker_takes_nothing_and_is_killed() -> None:
    async with worker("echo", SHORT) as stopped:
        stopped.link.send(b"up")
        await stopped.link.receive()
        os.kill(stopped.pid, signal.SIGSTOP)
        stopped.link.send(b"x" * 10_000_000)
        with trio.move_on_after(0.1) as patience:
            await stopped.link.receive()
        assert patience.cancelled_caught
        assert stopped.link.broken is None
    assert stopped.exit == WorkerExit(code=None, signal=signal.SIGKILL)


async def test_a_cancelled_owner_leaves_no_process_behind() -> None:
    with trio.CancelScope() as scope:
        async with worker("stay", SHORT) as staying:
            await staying.link.receive()
            scope.cancel()
            await trio.sleep_forever()
    assert staying.exit == WorkerExit(code=None, signal=signal.SIGKILL)


async def test_an_owner_that_is_cancelled_at_any_step_leaves_nothing() -> None:
    files = open_files()

    async def live() -> None:
        async with open_worker(["sh", "-c", "exit 5"], name="brief", ladder=SHORT) as brief:
            brief.link.send(b"hello")
            assert await brief.link.receive() is None
            await brief.wait()
        assert brief.exit == WorkerExit(code=5, signal=None)

    async def check() -> None:
        # The check after each test sees no process left; here are the descriptors.
        assert open_files() == files

    assert await sweep(live, check) > 5


# ---- the parent dies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "sleep",
        "late",
        pytest.param("hold", marks=killed_by_kernel),
        pytest.param("stop", marks=killed_by_kernel),
    ],
)
async def test_a_worker_does_not_outlive_a_parent_that_is_killed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND", kind)
    async with worker("parent") as parent:
        told = await parent.link.receive()
        assert told is not None
        grandchild = int(told)
        if kind == "stop":
            await trio.sleep(0.1)  # it stops itself right after it has told that it is up
        try:
            os.kill(parent.pid, signal.SIGKILL)
            with trio.fail_after(30):
                while is_running(grandchild):  # noqa: ASYNC110 - nobody tells us of its end
                    await trio.sleep(0.01)
        finally:
            with suppress(ProcessLookupError):
                os.kill(grandchild, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether the process still does anything; an ended one may wait for a parent to note it."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # a system without process files: trust the signal
        return not Path("/proc/self").exists()
    return state != "Z"
