"""What a kind of job is, and what a job of it is given to work with.

A kind is an object with a name, the type of its config, and `run`:

    class Count(JobKind[CountConfig]):
        name = "count"
        config = CountConfig            # a msgspec.Struct with forbid_unknown_fields=True

        async def run(self, context: JobContext[CountConfig]) -> Result:
            await context.stage("counting")
            ...
            await context.write("numbers.json", data)
            return Result(output="numbers.json", summary={"numbers": 3})

    runtime.jobs.register(Count())

A job is a scope: whatever cancels it, a client, a shutdown or a failure, `run` ends by the
cancellation of its scope, and what it holds has to be given back on the way out.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
import trio

from headrace.actors.jobs.job import Event, Result
from headrace.actors.jobs.store import JobStore
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.whole_file import write_whole

if TYPE_CHECKING:
    from headrace.actors.runtime import Runtime

C = TypeVar("C", bound=msgspec.Struct)
T = TypeVar("T")

# How often a job that is busy tells how far it is.
PROGRESS_SECONDS = 0.25


class JobKind(ABC, Generic[C]):
    name: ClassVar[str]
    config: type[C]
    # Whether `/v1` tells of it.
    listed: ClassVar[bool] = True

    def check(self, config: C) -> None:
        """What the type does not say of a config. Raises `RequestError`; must not wait."""

    @abstractmethod
    async def run(self, context: JobContext[C]) -> Result:
        """Do the job. A `RequestError` tells why it failed in words for its client; of an
        `OSError` the system's words are told; any other error is a bug and tells nothing."""


def checked(kind: JobKind[C], config: dict[str, Any]) -> C:
    """A config in the kind's own type. Raises `RequestError` (invalid_value)."""
    try:
        found = msgspec.convert(config, kind.config)
    except msgspec.ValidationError as error:
        text = str(error).replace("`$.", "`config.").replace("`$`", "`config`")
        raise RequestError(Code.INVALID_VALUE, f"{text}.", param="config") from None
    kind.check(found)
    return found


class Notebook(Protocol):
    """Who writes down what a job tells."""

    async def note(
        self, name: str, event: Event, progress: float | None = None, message: str | None = None
    ) -> None: ...

    async def call(self, act: Callable[[JobStore], T]) -> T: ...


class JobContext(Generic[C]):
    """One job while it runs. `folder` is its own; files there outlive it.

    What it tells is written down when the call returns. All raise `OSError` where the disk is
    full.
    """

    def __init__(
        self, name: str, config: C, folder: Path, runtime: Runtime, notebook: Notebook
    ) -> None:
        self.id = name
        self.config = config
        self.folder = folder
        self.runtime = runtime
        self._notebook = notebook
        self._stage = ""
        self._progress: tuple[float, str | None] | None = None
        self._progressed = trio.Event()
        self._telling = trio.CancelScope()

    async def stage(
        self, stage: str, progress: float | None = None, message: str | None = None
    ) -> None:
        """What is being done now."""
        self._stage, self._progress = stage, None
        await self._note(progress, message)

    def progress(self, fraction: float, message: str | None = None) -> None:
        """How much of the whole job is done. Cheap and never waits: of what is told in a moment
        the last is written down."""
        self._progress = (fraction, message)
        self._progressed.set()

    async def log(self, line: str) -> None:
        await self._notebook.note(self.id, {"type": "log", "line": line})

    async def metric(self, **figures: float | int | str) -> None:
        await self._notebook.note(self.id, {"type": "metric", **figures})

    async def write(self, name: str, data: bytes) -> Path:
        """A file in the job's folder, which is there whole or not at all."""
        path = self.folder / name
        await self._notebook.call(lambda _: write_whole(path, data))
        return path

    async def tell_progress(self) -> None:
        """Write down what `progress` is told, until `close`. That of which there is no room is
        not told; a job fails of what it must write itself."""
        with self._telling, suppress(RequestError):
            while True:
                await self._progressed.wait()
                self._progressed = trio.Event()
                if self._progress is not None:
                    (progress, message), self._progress = self._progress, None
                    with suppress(OSError, sqlite3.Error):
                        await self._note(progress, message)
                await trio.sleep(PROGRESS_SECONDS)

    def close(self) -> None:
        self._telling.cancel()

    async def _note(self, progress: float | None, message: str | None) -> None:
        event: Event = {"type": "stage", "stage": self._stage}
        if progress is not None:
            event["progress"] = round(min(max(progress, 0.0), 1.0), 4)
        if message is not None:
            event["message"] = message
        await self._notebook.note(self.id, event, progress, message)
