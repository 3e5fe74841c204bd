"""The heavy part of a job as a process of its own: its crash is a failure of the job alone.

It writes lines of JSON to its output. Those are kept in the job's folder and followed there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import trio

from headrace.actors.jobs.job import Result
from headrace.actors.jobs.kind import JobContext
from headrace.actors.library.command import CommandFailed, run_command
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.told import Told

OUTPUT = "program.ndjson"

L = TypeVar("L", bound=msgspec.Struct)


class Lines(Generic[L]):
    """The lines of a growing file, of one type; others, such as warnings, are left out."""

    def __init__(self, file: Path, kind: type[L]) -> None:
        self._file = file
        self._read_bytes = 0
        self._decoder = msgspec.json.Decoder(kind)

    def new(self) -> list[L]:
        with self._file.open("rb") as opened:
            opened.seek(self._read_bytes)
            data = opened.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        found = []
        for line in whole.split(b"\n"):
            try:
                found.append(self._decoder.decode(line))
            except msgspec.DecodeError:
                continue
        return found


async def run_child(
    arguments: Sequence[str], output: Path, kind: type[L], told: Callable[[L], None]
) -> None:
    """Run a program of ours to its end. However this ends, the program has ended too.

    `told` is called with each line, in this task's thread and a moment later. Raises
    `RequestError` with the program's last words, or with the signal that ended it.
    """
    lines = Lines(output, kind)

    def look() -> None:
        trio.from_thread.check_cancelled()
        if new := lines.new():
            trio.from_thread.run_sync(_tell, told, new)

    try:
        await trio.to_thread.run_sync(_run, arguments, output, look)
    except CommandFailed as error:
        _tell(told, lines.new())
        raise RequestError(Code.INTERNAL_ERROR, f"The job's process failed: {error}") from None
    _tell(told, lines.new())


def _run(arguments: Sequence[str], output: Path, look: Callable[[], None]) -> None:
    run_command(arguments, output, look, lifeline=True)


def _tell(told: Callable[[L], None], lines: Sequence[L]) -> None:
    for line in lines:
        told(line)


class _Progress:
    """What a program that makes a model tells, handed on to its job."""

    def __init__(self, context: JobContext[Any]) -> None:
        self.last = Told()
        self._context = context
        self._doing = ""

    def told(self, line: Told) -> None:
        self.last = line
        if line.doing is not None:
            self._doing = line.doing
            self._context.progress(line.fraction or 0.0, line.doing)
        elif line.total:
            amount = f"{line.bytes} of {line.total} bytes"
            self._context.progress((line.bytes or 0) / line.total, f"{self._doing}: {amount}")


async def run_model_program(context: JobContext[Any], arguments: Sequence[str]) -> Result:
    """Run a program that makes a model, and let the model be asked for from then on."""
    progress = _Progress(context)
    try:
        await run_child(arguments, context.folder / OUTPUT, Told, progress.told)
    except RequestError:
        if (error := progress.last.error) is not None:
            raise RequestError(Code.LOAD_FAILED, error) from None
        raise
    last = progress.last
    await context.runtime.look_for_models()
    return Result(
        summary={"model": last.model, "path": last.path, "bytes": last.bytes, "made": last.made}
    )
