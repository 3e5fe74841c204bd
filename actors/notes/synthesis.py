"""From sources to notes in four stages: segment, extract, merge, write.

What is decided is decided by the pure files beside this one. Until the last stage nothing is
written, and there one whole file after the other, so that a run which is cut short anywhere has
lost no more than its time: the next one finds what is written, and goes on to the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from headrace.actors.completing import Completions
from headrace.actors.notes.extracting import extract_of, row_for
from headrace.actors.notes.folder import NoteFolder
from headrace.actors.notes.merging import Found
from headrace.actors.notes.planning import Change, changes
from headrace.actors.notes.roots import Spot
from headrace.actors.notes.segmenting import Limits, limits, segments
from headrace.actors.notes.source import Segment, Source
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.errors import ActorDied, RequestError
from headrace.runtime.thread import Thread, ThreadFactory

if TYPE_CHECKING:
    from headrace.actors.runtime import Runtime

# Rows of one job at a time, and how many are asked for together.
ROWS, ROWS_TOGETHER = 4, 8
# What a template may take more for a text than for none.
SPARE_TOKENS = 16
CLOSE_SECONDS = 2.0
# Of the whole, when everything has been read.
READ_SHARE = 0.9


class Teller(Protocol):
    """Who is told how far it is."""

    async def stage(
        self, stage: str, progress: float | None = None, message: str | None = None
    ) -> None: ...

    def progress(self, fraction: float, message: str | None = None) -> None: ...


@attrs.frozen
class Order:
    """`id` begins the ids of its rows."""

    id: str
    spot: Spot
    sources: Sequence[Source]
    model: str | None = None
    dry_run: bool = False
    segment_tokens: int = 512
    segment_turns: int = 20
    answer_tokens: int = 384


@attrs.frozen
class Outcome:
    """`segments` are all that the sources have, `new` were in no note, and the answers to `unread`
    of those could not be read. The changes have been made, unless it was a dry run."""

    segments: int
    new: int
    unread: int
    changes: tuple[Change, ...]

    def summary(self) -> dict[str, Any]:
        made = [change.action for change in self.changes]
        return {
            "segments": self.segments,
            "new_segments": self.new,
            "unread_segments": self.unread,
            "created": made.count("create"),
            "updated": made.count("update"),
        }


class Synthesis:
    """`folder_at` opens the folder of a spot; tests give one that fails."""

    def __init__(
        self,
        runtime: Runtime,
        threads: ThreadFactory,
        teller: Teller,
        folder_at: Callable[[Spot], NoteFolder] = NoteFolder,
    ) -> None:
        self._runtime = runtime
        self._threads = threads
        self._teller = teller
        self._folder_at = folder_at
        self._completions = Completions(runtime, width=min(ROWS, runtime.settings.max_rows))

    async def run(self, order: Order) -> Outcome:
        """Raises `RequestError`, and `OSError` where the disk does not do."""
        folder = self._folder_at(order.spot)
        failure: RequestError | OSError | None = None
        async with self._threads("notes") as thread:
            try:
                await thread.run(partial(folder.open, writes=not order.dry_run))
                outcome = await self._run(order, folder, thread)
            except (RequestError, OSError) as error:
                # Raised below, as the thread's nursery would wrap it.
                failure = error
            finally:
                with bounded_cleanup(CLOSE_SECONDS), suppress(ActorDied):
                    await thread.run(folder.close)
        if failure is not None:
            raise failure
        return outcome

    async def _run(self, order: Order, folder: NoteFolder, thread: Thread) -> Outcome:
        await self._teller.stage("segment", 0.0)
        model, most = await self._limits(order)
        parts = [part for source in order.sources for part in segments(source, most)]
        known = (await thread.run(folder.read)).known()
        new = {part.fingerprint: part for part in parts if part.fingerprint not in known}
        await self._teller.stage("extract", 0.0, f"{len(new)} of {len(parts)} segments are new")
        found = await self._extract(attrs.evolve(order, model=model), list(new.values()))
        await self._teller.stage("merge", READ_SHARE)
        # The folder is read anew, since people may have written there in the meantime.
        planned = await thread.run(lambda: changes(folder.read(), found))
        if not order.dry_run:
            await self._write(planned, folder, thread)
        unread = sum(not one.extract.read for one in found)
        return Outcome(len(parts), len(new), unread, tuple(planned))

    async def _limits(self, order: Order) -> tuple[str, Limits]:
        """The model, and how much of a text it can read at a time beside all else."""
        asked = row_for("", f"{order.id}-0", order.model, order.answer_tokens)
        counted = await self._runtime.count(asked)
        report = self._runtime.model(counted.model)
        window = 0 if report.info is None else report.info.context_window
        window = min(window, report.safe_context or window)
        room = window - counted.prompt_tokens - order.answer_tokens - SPARE_TOKENS
        return counted.model, limits(order.segment_tokens, order.segment_turns, room)

    async def _extract(self, order: Order, parts: Sequence[Segment]) -> list[Found]:
        found: list[Found] = []
        for begin in range(0, len(parts), ROWS_TOGETHER):
            together = parts[begin : begin + ROWS_TOGETHER]
            rows = [
                row_for(part.text, f"{order.id}-{number}", order.model, order.answer_tokens)
                for number, part in enumerate(together, begin + 1)
            ]
            said = await self._completions.complete_batch(rows)
            for part, completion in zip(together, said, strict=True):
                found.append(Found(part, extract_of(part, completion.text)))
            done = f"{len(found)} of {len(parts)} segments read"
            self._teller.progress(READ_SHARE * len(found) / len(parts), done)
        return found

    async def _write(self, planned: Sequence[Change], folder: NoteFolder, thread: Thread) -> None:
        await self._teller.stage("write", READ_SHARE, f"{len(planned)} files")
        for number, change in enumerate(planned, 1):
            await thread.run(folder.write, change.path, change.text)
            share = number / len(planned)
            self._teller.progress(READ_SHARE + (1 - READ_SHARE) * share, change.path)
