"""A worker process: started by exec, joined by one socket pair, and never left behind.

The child's end of the pair is closed here at once, so that end-of-file means death in both
directions, also when a process was killed. Workers are never forked: Metal does not survive it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.link import Link, open_link

PARENT_POLL_SECONDS = 0.25


@attrs.frozen
class WorkerExit:
    """How a process ended: by a code of its own or by a signal."""

    code: int | None
    signal: int | None

    @classmethod
    def of(cls, returncode: int) -> WorkerExit:
        return cls(None, -returncode) if returncode < 0 else cls(returncode, None)

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        return f"signal {signal.Signals(self.signal).name}"


@attrs.frozen
class StopLadder:
    """Seconds for each rung on the way down: link closed, SIGTERM, then SIGKILL."""

    close_seconds: float = 5.0
    term_seconds: float = 2.0
    kill_seconds: float = 5.0


class WorkerProcess:
    """See `open_worker`."""

    def __init__(self, name: str, process: trio.Process, link: Link) -> None:
        self.name = name
        self.link = link
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit(self) -> WorkerExit | None:
        """How it ended, once it has."""
        code = self._process.poll()
        return None if code is None else WorkerExit.of(code)

    async def wait(self) -> WorkerExit:
        return WorkerExit.of(await self._process.wait())

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self, ladder: StopLadder) -> None:
        """Down the ladder, until the process is gone. Each rung has its bound."""
        await self._gone_within(ladder.close_seconds)
        if self.exit is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._gone_within(ladder.term_seconds)
        if self.exit is None:
            self.kill()
            await self._gone_within(ladder.kill_seconds)

    async def _gone_within(self, seconds: float) -> None:
        with bounded_cleanup(seconds):
            await self._process.wait()

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.name} {self.pid} {self.exit or 'running'}>"


@asynccontextmanager
async def open_worker(
    argv: Sequence[str], *, name: str, ladder: StopLadder | None = None
) -> AsyncIterator[WorkerProcess]:
    """Start `argv` with the number of its inherited socket as one more argument.

    The worker is in a process group of its own, so a Ctrl-C in the terminal is the parent's to
    handle. On the way out the link closes, which asks the worker to leave; the ladder does the
    rest. Raises `OSError` where the program cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await trio.lowlevel.open_process(
                [*argv, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
    link = Link(ours)
    worker = WorkerProcess(name, process, link)
    try:
        # Left first, so that the link is closed before the process is waited for.
        async with open_link(link):
            yield worker
    finally:
        await worker.stop(ladder or StopLadder())


def inherited_socket(number: str) -> socket.socket:
    """The worker's end of its link, by the number that its parent gave it."""
    return socket.socket(fileno=int(number))


def leave_with_parent() -> None:
    """End this process hard when its parent has gone, even if its own loop is stuck.

    A poll, because end-of-file is seen only by a loop that runs, and a signal on the parent's
    death is tied on Linux to the thread that started the child.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()
