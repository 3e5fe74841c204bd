"""A worker process: started by exec, joined by one socket pair, and never left behind.

The child's end of the pair is closed here at once, so that end-of-file means death in both
directions, also when a process was killed. Workers are never forked: Metal does not survive it.
The worker's standard input is its lifeline: a pipe that only this process holds open and that
nobody writes to (`worker_side.leave_with_parent` watches it).
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

import attrs
import trio

from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.link import Link, open_link


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

    close_seconds: float = 4.0
    term_seconds: float = 1.0
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
    read_end, write_end = os.pipe()
    life, lifeline = os.fdopen(read_end, "rb", 0), os.fdopen(write_end, "wb", 0)
    with lifeline:
        process, end = await _start(argv, life)
        worker = WorkerProcess(name, process, Link(end))
        try:
            # Left first, so that the link is closed before the process is waited for.
            async with open_link(worker.link):
                yield worker
        finally:
            await worker.stop(ladder or StopLadder())


async def _start(argv: Sequence[str], life: IO[bytes]) -> tuple[trio.Process, socket.socket]:
    """The process and our end of its link. Both ends that are the child's are closed here."""
    ours, theirs = socket.socketpair()
    with life, theirs:
        try:
            process = await trio.lowlevel.open_process(
                [*argv, str(theirs.fileno())],
                stdin=life,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
    return process, ours
