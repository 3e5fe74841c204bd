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

from headrace.actors.batch import Batch, Held, Turn
from headrace.actors.ledger import Allot
from headrace.actors.life import EngineHung
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
from headrace.actors.preparing import Preparing, Ready, Threads
from headrace.actors.rations import Claim, Rations, renumbered
from headrace.actors.reading import ReadingRow
from headrace.actors.row import Row
from headrace.actors.rows import BatchRow, Part
from headrace.actors.saving import Saving
from headrace.runtime.actor import Ref, drain
from headrace.runtime.contracts import Failed
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.ports import LoadedModel, RowFailed, RowSpec
from headrace.runtime.trace import Trace

MEASURE_SECONDS = 1.0
# After so long without an answer from the ledger there is no more memory to be had.
ANSWER_SECONDS = 1.0

T = TypeVar("T")


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
        rations: Rations,
        step_seconds: float,
        measures: bool,
        trace: Trace,
    ) -> None:
        self._loaded = loaded
        self._batch = Batch(loaded.engine, pace)
        self._rations = rations
        self._asked_at = -math.inf
        self._threads = threads
        self._publish = publish
        self._step_seconds = step_seconds
        self._measures = measures
        self._measured_at = -math.inf
        self._trace = trace
        send, self._mailbox = trio.open_memory_channel[ToModel | Ready](math.inf)
        self.ref: Ref[ToModel | Ready] = Ref(f"model {loaded.info.id}", send)
        self._saving = Saving(threads.spare, trace)
        self._preparing = Preparing(loaded, threads, self.ref.tell, trace)
        self._work = trio.Event()
        self._row_numbers = itertools.count(1)
        # Every ticket that is known here, in whatever phase.
        self._rows: dict[Ticket, BatchRow] = {}
        # What is in the engine, by the engine's number.
        self._running: dict[int, tuple[BatchRow, Part]] = {}
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
            self._builders.start_soon(self._preparing.warm)
            self._builders.start_soon(self._saving.serve)
            while True:
                # What has come by the boundary counts before anything else runs, also what has
                # just been handed to the listener.
                await trio.lowlevel.checkpoint()
                for message in drain(self._mailbox):
                    self._take(message)
                self._deliver()
                if self._running or self._leaving or self._rations.waiting:
                    await self._turn()
                elif self._keeps_too_much:
                    await self._keep_less()
                else:
                    await self._wait()

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
        joining = self._rations.admit()
        if not (self._running or joining):
            await self._be_held_back()
        elif self._rations.can_step() or joining:
            await self._step(joining)
            self._deliver()
        else:
            await self._stand_still()

    @property
    def _keeps_too_much(self) -> bool:
        limit_bytes = self._rations.cache_limit_bytes
        return self._figures.cache.bytes > limit_bytes != self._batch.cache_bytes

    async def _keep_less(self) -> None:
        self._note(await self._on_engine(self._batch.limit_cache, self._rations.cache_limit_bytes))

    async def _wait(self, until: float = math.inf) -> None:
        """Until something has come that may change what can be done."""
        self._work = trio.Event()
        with trio.move_on_at(until):
            await self._work.wait()

    # ---- messages ------------------------------------------------------------------------

    def _take(self, message: ToModel | Ready) -> None:
        match message:
            case Prepare(ticket, request):
                self._begin(Row(ticket, request), message)
            case PrepareEmbedding(ticket, request) | PrepareDecision(ticket, request):
                self._begin(ReadingRow(ticket, request), message)
            case Ready():
                self._on_built(message)
            case Submit():
                self._on_submit(message)
            case Cancel():
                self._on_cancel(message.ticket)
            case Allot():
                self._rations.obey(message)
        if self._rations.waiting or self._leaving or isinstance(message, Allot):
            self._work.set()

    def _begin(self, row: BatchRow, message: Preparation) -> None:
        self._rows[row.ticket] = row
        self._builders.start_soon(self._preparing.build, message)

    def _on_built(self, message: Ready) -> None:
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
        self._rations.line_up(row, [attrs.evolve(s, low=message.low) for s in row.specs()])
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
            self._rations.withdraw(row)
            self._end(row)

    # ---- turns of the engine -------------------------------------------------------------

    async def _let_leave(self) -> None:
        leaving, self._leaving = self._leaving, []
        numbers = [choice.number for _, choice in leaving]
        self._note(await self._on_engine(self._batch.leave, numbers))
        self._rations.leave(numbers)
        for number in numbers:
            del self._running[number]
        for row, _ in leaving:
            if row.ticket in self._rows and not self._in_engine(row):
                self._end(row)
        if not self._running:
            await self._measure()

    def _note(self, held: Held) -> None:
        self._figures = self._figures.with_held(held.kv_bytes, held.cache)
        self._saving.take(held.disk_work)

    def _in_engine(self, row: BatchRow) -> bool:
        return any(choice.number in self._running for choice in row.choices)

    async def _measure(self) -> None:
        if self._measures:
            self._measured_at = trio.current_time()
            memory = await self._on_engine(self._batch.memory)
            self._figures = attrs.evolve(self._figures, memory=memory)
            # What rows take, and their steps, is not the model's: it is weighed when none runs.
            if not self._running:
                self._figures = attrs.evolve(self._figures, model_bytes=self._figures.loose_bytes)

    async def _be_held_back(self) -> None:
        """Nothing runs, and there is too little memory for the first in line."""
        if (claim := self._rations.hopeless()) is None:
            self._deliver()
            await self._wait()
            return
        text = "There is not enough memory for this request beside the models that are loaded."
        failed = Failed(ErrorInfo(Code.CONTEXT_OVER_BUDGET, text))
        self._emit_all(claim.row, claim.row.cut_short() or [failed])
        self._end(claim.row)

    async def _stand_still(self) -> None:
        """There is no memory for the next step: ask for more, and if there is none, let who came
        last go back to the line."""
        if not self._rations.asking:
            self._rations.ask()
            self._asked_at = trio.current_time()
            self._deliver()
        answer_by = self._asked_at + ANSWER_SECONDS
        if not self._rations.answered and trio.current_time() < answer_by:
            await self._wait(answer_by)
        elif (claim := self._rations.youngest()) is not None:
            await self._suspend(claim)
        else:
            self._rations.overdraw()

    async def _suspend(self, claim: Claim) -> None:
        """The request gives up its rows, and goes on from where they stand when it can."""
        row = claim.row
        specs, held = await self._on_engine(self._batch.suspend, sorted(claim.numbers))
        self._note(held)
        if row.over:  # cancelled meanwhile: it leaves as any other
            return
        fresh = {number: next(self._row_numbers) for number in sorted(claim.numbers)}
        forced = {number: self._forced.pop(number, ()) for number in fresh}
        for part in row.choices:
            if part.number in fresh:
                del self._running[part.number]
                part.number = fresh[part.number]
        self._rations.suspend(claim, [renumbered(spec, fresh, forced) for spec in specs])
        self._trace.emit("row.suspended", row.ticket, rows=len(fresh), tokens=row.sampled)
        self._deliver()

    async def _step(self, joining: list[Claim]) -> None:
        for claim in joining:
            for choice in claim.row.choices:
                if choice.number in claim.numbers:
                    self._running[choice.number] = (claim.row, choice)
        forced, self._forced = self._forced, {}
        specs = [spec for claim in joining for spec in claim.specs]
        cache_bytes = self._rations.cache_limit_bytes
        turn, held = await self._on_engine(self._run_step, specs, forced, cache_bytes)
        if turn.decoded:
            self._rations.stepped()
        self._note(held)
        self._after(turn)
        if trio.current_time() >= self._measured_at + MEASURE_SECONDS:
            await self._measure()

    def _run_step(
        self, joining: list[RowSpec], forced: dict[int, tuple[int, ...]], cache_bytes: int
    ) -> tuple[Turn, Held]:
        self._batch.limit_cache(cache_bytes)
        return self._batch.step(joining, forced), self._batch.held()

    async def _on_engine(self, fn: Callable[..., T], *args: Any) -> T:
        with trio.move_on_after(self._step_seconds):
            return await self._threads.engine.run(fn, *args)
        raise EngineHung(self._loaded.info.id)

    def _after(self, turn: Turn) -> None:
        result = turn.result
        self._figures = attrs.evolve(
            self._figures,
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
            if self._rations.completed(number):
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
        if row.choices:
            finished = self._figures.finished_rows + (not row.cancelled)
            cancelled = self._figures.cancelled_rows + row.cancelled
            self._figures = attrs.evolve(
                self._figures, finished_rows=finished, cancelled_rows=cancelled
            )
        self._emit(row, Ended(row.sampled))

    def _emit(self, row: BatchRow, item: Outgoing) -> None:
        self._items.append((row.ticket, item))

    def _emit_all(self, row: BatchRow, items: Iterable[Outgoing]) -> None:
        self._items += ((row.ticket, item) for item in items)

    def _deliver(self) -> None:
        use = self._rations.use(self._figures.cache.bytes)
        self._figures = self._figures.with_use(len(self._running), use)
        if self._items or self._figures != self._published:
            items, self._items = tuple(self._items), []
            self._publish(Delivery(items, self._figures))
            self._figures = self._published = self._figures.without_step()

    def __repr__(self) -> str:
        rows = f"{len(self._running)} rows, {len(self._leaving)} leaving"
        return f"<Model {self._loaded.info.id} | {len(self._rows)} tickets, {rows}>"
