"""The Model actor: it owns the generating batch of one model, and nothing else touches it.

Its loop takes all messages that have come, lets the cancelled rows leave, lets the new rows join,
runs one engine step on the pinned thread, turns sampled tokens into text, and hands everything of
that turn over in one delivery. Messages are taken during a step too, but what they ask of the
engine waits for its end. It runs unchanged in a worker process.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import attrs
import trio

from headrace.actors.answering import Built
from headrace.actors.batch import Batch, Held, Turn, describe
from headrace.actors.building import Building
from headrace.actors.messages import (
    Cancel,
    Decoding,
    Delivery,
    Ended,
    Figures,
    Outgoing,
    Preparation,
    Prepare,
    PrepareDecision,
    PrepareEmbedding,
    Refused,
    Submit,
    Ticket,
    ToModel,
)
from headrace.actors.pace import Pace
from headrace.actors.reading import BuiltReading, ReadingRow
from headrace.actors.row import Row
from headrace.actors.rows import BatchRow, Part
from headrace.runtime.actor import Ref, drain
from headrace.runtime.contracts import Failed, InferenceRequest
from headrace.runtime.errors import Code, ErrorInfo, KernelError, RequestError
from headrace.runtime.ports import LoadedModel, RowFailed, RowSpec
from headrace.runtime.thread import Thread
from headrace.runtime.trace import Trace

MEASURE_SECONDS = 1.0

T = TypeVar("T")


class EngineHung(KernelError):
    """A step made no progress for the watchdog's limit; the engine's thread is lost."""


@attrs.frozen
class _Built:
    """A prompt is ready, or could not be built. Told by the actor's own child."""

    ticket: Ticket
    result: Built | BuiltReading | ErrorInfo


@attrs.frozen
class Threads:
    """Where a model's work runs: its engine's steps, its prompts, and what grammars need."""

    engine: Thread
    text: Thread
    spare: Thread


class Model:
    """`publish` takes each delivery; it must not wait or raise.

    `step_seconds` is the watchdog's limit for one step; `pace` sizes the prefill chunks. With
    `measures` the device's memory is read once a second and when the batch is empty.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        threads: Threads,
        publish: Callable[[Delivery], None],
        *,
        pace: Pace,
        step_seconds: float,
        measures: bool,
        trace: Trace,
    ) -> None:
        self._loaded = loaded
        self._batch = Batch(loaded.engine, pace)
        self._threads = threads
        self._publish = publish
        self._step_seconds = step_seconds
        self._measures = measures
        self._measured_at = -math.inf
        self._trace = trace
        self._building = Building(loaded.tokenizer, loaded.info)
        send, self._mailbox = trio.open_memory_channel[ToModel | _Built](math.inf)
        self.ref: Ref[ToModel | _Built] = Ref(f"model {loaded.info.id}", send)
        self._work = trio.Event()
        # Grammars can be compiled without delay.
        self._warmed = trio.Event()
        self._row_numbers = itertools.count(1)
        # Every ticket that is known here, in whatever phase.
        self._rows: dict[Ticket, BatchRow] = {}
        # What is in the engine, by the engine's number.
        self._running: dict[int, tuple[BatchRow, Part]] = {}
        self._joining: list[BatchRow] = []
        self._leaving: list[tuple[BatchRow, Part]] = []
        # What rows are to say with their next tokens.
        self._forced: dict[int, tuple[int, ...]] = {}
        self._items: list[tuple[Ticket, Outgoing]] = []
        self._figures = Figures()
        self._published = Figures()

    async def serve(self) -> NoReturn:
        """Run until cancelled. Raises `EngineHung`, or what the engine could not contain."""
        async with trio.open_nursery() as self._builders:
            self._builders.start_soon(self._listen)
            self._builders.start_soon(self._warm)
            while True:
                # What has come by the boundary counts before anything else runs, also what has
                # just been handed to the listener.
                await trio.lowlevel.checkpoint()
                for message in drain(self._mailbox):
                    self._take(message)
                self._deliver()
                if self._running or self._joining or self._leaving:
                    await self._turn()
                else:
                    self._work = trio.Event()
                    await self._work.wait()

    async def _listen(self) -> None:
        """Take messages while a step runs: prompts are built meanwhile, and whoever has no row
        in the engine is let go at once."""
        async for message in self._mailbox:
            self._take(message)
            self._deliver()

    async def _turn(self) -> None:
        if self._leaving:
            await self._let_leave()
            self._deliver()
        if self._running or self._joining:
            await self._step()
            self._deliver()

    # ---- messages ------------------------------------------------------------------------

    def _take(self, message: ToModel | _Built) -> None:
        match message:
            case Prepare(ticket, request):
                self._begin(Row(ticket, request), message)
            case PrepareEmbedding(ticket, request) | PrepareDecision(ticket, request):
                self._begin(ReadingRow(ticket, request), message)
            case _Built():
                self._on_built(message)
            case Submit():
                self._on_submit(message)
            case Cancel():
                self._on_cancel(message.ticket)
        if self._joining or self._leaving:
            self._work.set()

    def _begin(self, row: BatchRow, message: Preparation) -> None:
        self._rows[row.ticket] = row
        self._builders.start_soon(self._build, message)

    async def _warm(self) -> None:
        """Make ready for grammars beside all else: neither steps nor plain prompts wait for it."""
        try:
            await self._threads.spare.run(self._loaded.tokenizer.warm)
        except Exception as error:
            # Whoever needs it is told what is wrong.
            self._trace.emit("model.not_warmed", error=describe(error))
        self._warmed.set()

    async def _build(self, message: Preparation) -> None:
        result: Built | BuiltReading | ErrorInfo
        if isinstance(message, Prepare) and _may_be_held(message.request):
            await self._warmed.wait()
        try:
            result = await self._threads.text.run(self._building.build, message.request)
        except RequestError as error:
            result = error.info
        except Exception as error:
            self._trace.emit("model.build_failed", message.ticket, error=describe(error))
            result = ErrorInfo(Code.INTERNAL_ERROR, "The prompt could not be built.")
        self.ref.tell(_Built(message.ticket, result))

    def _on_built(self, message: _Built) -> None:
        row = self._rows.get(message.ticket)
        if row is None:  # cancelled meanwhile
            return
        if isinstance(message.result, ErrorInfo):
            self._emit(row, Refused(message.result))
            self._end(row)
        else:
            self._emit(row, row.on_built(message.result))

    def _on_submit(self, message: Submit) -> None:
        row = self._rows.get(message.ticket)
        if row is None:  # cancelled meanwhile
            return
        numbers = [next(self._row_numbers) for _ in range(row.width)]
        row.begin(numbers, message.max_tokens, self._loaded.tokenizer)
        self._joining.append(row)
        submitted = self._figures.submitted_rows + 1
        self._figures = attrs.evolve(self._figures, submitted_rows=submitted)

    def _on_cancel(self, ticket: Ticket) -> None:
        row = self._rows.get(ticket)
        if row is None or row.over:
            return
        row.cancelled = True
        if any(choice.number in self._running for choice in row.choices):
            self._leave(row)
        else:
            self._joining = [other for other in self._joining if other is not row]
            self._end(row)

    # ---- turns of the engine -------------------------------------------------------------

    async def _let_leave(self) -> None:
        leaving, self._leaving = self._leaving, []
        numbers = [choice.number for _, choice in leaving]
        held = await self._on_engine(self._batch.leave, numbers)
        self._figures = attrs.evolve(self._figures, kv_bytes=held.kv_bytes, cache=held.cache)
        for number in numbers:
            del self._running[number]
        for row, _ in leaving:
            if row.ticket in self._rows and not self._in_engine(row):
                self._end(row)
        if not self._running:
            await self._measure()

    def _in_engine(self, row: BatchRow) -> bool:
        return any(choice.number in self._running for choice in row.choices)

    async def _measure(self) -> None:
        if self._measures:
            self._measured_at = trio.current_time()
            memory = await self._on_engine(self._batch.memory)
            # Rows are charged by admission; what they take must not send another model away.
            others = self._figures.kv_bytes + self._figures.cache.bytes
            model_bytes = max(0, memory.active_bytes - others)
            self._figures = attrs.evolve(self._figures, memory=memory, model_bytes=model_bytes)

    async def _step(self) -> None:
        joining, self._joining = self._joining, []
        for row in joining:
            for choice in row.choices:
                self._running[choice.number] = (row, choice)
        forced, self._forced = self._forced, {}
        specs = [spec for row in joining for spec in row.specs()]
        turn, held = await self._on_engine(self._run_step, specs, forced)
        self._after(turn, held)
        if trio.current_time() >= self._measured_at + MEASURE_SECONDS:
            await self._measure()

    def _run_step(
        self, joining: list[RowSpec], forced: dict[int, tuple[int, ...]]
    ) -> tuple[Turn, Held]:
        return self._batch.step(joining, forced), self._batch.held()

    async def _on_engine(self, fn: Callable[..., T], *args: Any) -> T:
        with trio.move_on_after(self._step_seconds):
            return await self._threads.engine.run(fn, *args)
        raise EngineHung(self._loaded.info.id)

    def _after(self, turn: Turn, held: Held) -> None:
        result = turn.result
        self._figures = attrs.evolve(
            self._figures,
            kv_bytes=held.kv_bytes,
            cache=held.cache,
            decoded_tokens=self._figures.decoded_tokens + len(result.tokens),
            prompt_tokens=self._figures.prompt_tokens + result.prefilled,
            step=turn.kind,
            step_rows=turn.rows,
            step_tokens=result.prefilled or len(result.tokens),
            step_seconds=result.seconds,
        )
        for scored in result.prompt_scores:
            row, _ = self._running[scored.row]
            self._emit_all(row, row.on_prompt_scores(scored))
        for number, cached_tokens in turn.completed:
            self._on_prompt(self._running[number][0], cached_tokens)
        for drawn in result.tokens:
            row, choice = self._running[drawn.row]
            self._emit_all(row, row.on_token(choice, drawn))
            if choice.ended is not None:
                self._leave_one(row, choice)
            elif forced := choice.take_forced():
                self._forced[choice.number] = forced
        for read in result.read:
            row, part = self._running[read.row]
            self._emit_all(row, row.on_read(part, read))
            self._leave_one(row, part)
        for failure in result.failed:
            self._on_failed(failure)

    def _on_prompt(self, row: BatchRow, cached_tokens: int) -> None:
        row.cached_tokens += cached_tokens
        self._emit(row, Decoding(cached_tokens))
        self._emit_all(row, row.on_prompt())
        if row.over:
            self._leave(row)

    def _on_failed(self, failure: RowFailed) -> None:
        row, _ = self._running[failure.row]
        if row.over:
            return
        self._trace.emit("row.failed", row.ticket, reason=failure.reason)
        self._emit(row, Failed(ErrorInfo(Code.GENERATION_FAILED, "The generation failed.")))
        self._leave(row)

    # ---- ends ----------------------------------------------------------------------------

    def _leave(self, row: BatchRow) -> None:
        """The row goes with all its answers, whether or not they are complete."""
        row.over = True
        for choice in row.choices:
            self._leave_one(row, choice)

    def _leave_one(self, row: BatchRow, choice: Part) -> None:
        if not choice.leaving and choice.number in self._running:
            choice.leaving = True
            self._leaving.append((row, choice))

    def _end(self, row: BatchRow) -> None:
        """The last word on a ticket: nothing of it is left here."""
        del self._rows[row.ticket]
        figures = self._figures
        if row.choices:
            self._figures = attrs.evolve(
                figures,
                finished_rows=figures.finished_rows + (not row.cancelled),
                cancelled_rows=figures.cancelled_rows + row.cancelled,
            )
        self._emit(row, Ended(row.sampled))

    def _emit(self, row: BatchRow, item: Outgoing) -> None:
        self._items.append((row.ticket, item))

    def _emit_all(self, row: BatchRow, items: Iterable[Outgoing]) -> None:
        self._items += ((row.ticket, item) for item in items)

    def _deliver(self) -> None:
        self._figures = attrs.evolve(self._figures, running_rows=len(self._running))
        if self._items or self._figures != self._published:
            items, self._items = tuple(self._items), []
            self._published = self._figures
            self._publish(Delivery(items, self._figures))
            self._figures = self._published = attrs.evolve(self._figures, step=None)

    def __repr__(self) -> str:
        return (
            f"<Model {self._loaded.info.id} | {len(self._rows)} tickets, "
            f"{len(self._running)} rows, {len(self._leaving)} leaving>"
        )


def _may_be_held(request: InferenceRequest) -> bool:
    """Whether its answers may have to follow a grammar."""
    return request.constraint is not None or request.tools is not None
