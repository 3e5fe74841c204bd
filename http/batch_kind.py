"""The kind of job that answers the lines of a file, as requests of low priority.

Answers are written in the order of the lines. A few lines run at a time; one beside clients whose
answers have begun; and none begins while a client waits for the beginning.
"""

from __future__ import annotations

from typing import Literal

import attrs
import msgspec
import trio

from headrace.actors.jobs import JobContext, JobKind, Result
from headrace.actors.jobs.store import JobStore
from headrace.http.batch_output import Outputs
from headrace.http.batch_row import ROUTE, Answer, Row
from headrace.http.kept import Kept
from headrace.http.wire.batch_lines import read_line, read_lines
from headrace.runtime.errors import Code, RequestError

# Lines that may be answered before one in front of them, for each that runs.
AHEAD = 4
LOOK_SECONDS = 0.02
# Batches whose counts are remembered.
MOST_COUNTED = 1000


class BatchConfig(msgspec.Struct, forbid_unknown_fields=True):
    """As the official route takes it. The window is for clients that send it: a batch takes as
    long as it takes."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"]
    completion_window: Literal["24h"] = "24h"
    metadata: dict[str, str] | None = None


@attrs.define
class Counts:
    total: int = 0
    completed: int = 0
    failed: int = 0

    @property
    def message(self) -> str:
        return f"{self.completed + self.failed} of {self.total} answered, {self.failed} failed"


class Batch(JobKind[BatchConfig]):
    """`width` lines run at a time."""

    name = "batch"
    config = BatchConfig

    def __init__(self, kept: Kept, width: int) -> None:
        self._kept = kept
        self._width = width
        # Of the batches that this server has run.
        self.counts: dict[str, Counts] = {}

    async def run(self, context: JobContext[BatchConfig]) -> Result:
        jobs, config = context.runtime.jobs, context.config
        counts = self._remember(context.id)

        def read(store: JobStore) -> list[bytes]:
            data = store.files.read(config.input_file_id)
            if data is None:
                raise RequestError(Code.NOT_FOUND, "The file of the batch is not there any more.")
            return read_lines(data, config.endpoint)

        await context.stage("validating", 0.0)
        lines = await jobs.call(read)
        counts.total = len(lines)
        await context.stage("answering", 0.0, counts.message)
        outputs = Outputs(context.folder, context.id)
        run = _Run(context, self._kept, self._width, outputs, counts)
        await run.answer_all(lines)
        await context.stage("finalizing", 1.0, counts.message)
        now = jobs.stamps.now() // 1000

        def keep(store: JobStore) -> dict[str, str]:
            made = outputs.complete(now)
            store.files.adopt(made.values())
            return {f"{which}_file_id": file.id for which, (file, _) in made.items()}

        names = await jobs.call(keep)
        return Result(summary={"counts": attrs.asdict(counts), **names})

    def counted(self, name: str) -> dict[str, int] | None:
        """How far a batch is, where this server has run it."""
        counts = self.counts.get(name)
        return None if counts is None else attrs.asdict(counts)

    def _remember(self, name: str) -> Counts:
        counts = self.counts[name] = Counts()
        while len(self.counts) > MOST_COUNTED:
            del self.counts[next(iter(self.counts))]
        return counts


class _Run:
    """The lines of one batch on their way."""

    def __init__(
        self,
        context: JobContext[BatchConfig],
        kept: Kept,
        width: int,
        outputs: Outputs,
        counts: Counts,
    ) -> None:
        config, self._runtime = context.config, context.runtime
        created = self._runtime.jobs.stamps.now() // 1000
        self._row = Row(self._runtime, kept, config.endpoint, config.input_file_id, created)
        self._context = context
        self._width = width
        self._outputs = outputs
        self._counts = counts
        # Lines that were begun and are not written yet.
        self._window = trio.Semaphore(width * AHEAD)
        self._running = 0
        self._answers: dict[int, Answer] = {}
        self._written = 0
        self._writing = trio.Lock()

    async def answer_all(self, lines: list[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            for number, line in enumerate(lines, start=1):
                await self._window.acquire()
                await self._turn()
                self._running += 1
                nursery.start_soon(self._answer, number, line)

    async def _turn(self) -> None:
        """Until another line may run: a client that waits for its answer goes first."""
        while self._running >= self._room():  # noqa: ASYNC110 - others' requests set no event
            await trio.sleep(LOOK_SECONDS)

    def _room(self) -> int:
        """How many lines may run, as it looks now."""
        reports = self._runtime.requests()
        stages = {r.stage for r in reports if not r.route.startswith(ROUTE)}
        if stages <= {"ended"}:
            return self._width
        return 1 if stages <= {"ended", "decoding"} else 0

    async def _answer(self, number: int, data: bytes) -> None:
        line = read_line(number, data, self._context.config.endpoint)
        self._answers[number] = await self._row.answer(line)
        self._running -= 1
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        """The answers that are there, up to the first that is not."""
        ready: list[Answer] = []
        while (answer := self._answers.pop(self._written + len(ready) + 1, None)) is not None:
            ready.append(answer)
        if not ready:
            return
        await self._runtime.jobs.call(lambda _: self._outputs.append(ready))
        self._written += len(ready)
        counts = self._counts
        counts.failed += sum(answer.failed for answer in ready)
        counts.completed = self._written - counts.failed
        self._context.progress(self._written / counts.total, counts.message)
        for _ in ready:
            self._window.release()
