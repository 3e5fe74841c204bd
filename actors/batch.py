"""The engine's side of the model's loop: rows leave, rows join, one step runs.

Sync, and called on the engine's own thread only, so a row never leaves in the middle of a step.
What the engine cannot contain itself is contained here: a raising step ends the rows of that
step and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs

from headrace.actors.pace import Pace
from headrace.actors.schedule import (
    Decode,
    Kind,
    Prefill,
    Step,
    Waiting,
    candidates,
    in_line,
    next_step,
)
from headrace.actors.troubles import described
from headrace.runtime.ports import CacheUse, Engine, Memory, RowFailed, RowSpec, StepResult

NOTHING: Mapping[int, Sequence[int]] = MappingProxyType({})


@attrs.frozen
class Turn:
    """What one step brought; `kind` is None when there was nothing to do.

    `completed` are the rows whose prompt became complete, so that they decode from now on, or
    have nothing to wait for; each with the tokens of it that did not have to be computed.
    """

    kind: Kind | None
    result: StepResult
    completed: tuple[tuple[int, int], ...] = ()
    rows: int = 0
    # Whether every complete row was given a token, as in a prefill that is mixed with a decode.
    decoded: bool = False


@attrs.frozen
class Held:
    """What the engine holds after a turn: the KV of live rows, and what it keeps for others."""

    kv_bytes: int
    cache: CacheUse
    # What is to be done for the disk, on another thread.
    disk_work: Sequence[Callable[[], str | None]] = ()


class Batch:
    """All rows of one engine. `pace` bounds the prompt tokens of one step."""

    def __init__(self, engine: Engine, pace: Pace) -> None:
        self._engine = engine
        self._pace = pace
        # Row -> chunks given to others while it waited.
        self._waiting: dict[int, int] = {}
        # Row -> tokens of its prompt, while it waits.
        self._lengths: dict[int, int] = {}
        # Row -> rows that begin with it when its prompt is complete.
        self._siblings: dict[int, tuple[int, ...]] = {}
        # Rows that may say nothing: there is only a prompt to compute.
        self._silent: set[int] = set()
        self._decoding: set[int] = set()
        # Rows among these that have said nothing, and chunks since the last decode.
        self._newcomers: set[int] = set()
        self._chunks = 0
        # Rows of low priority, wherever they are.
        self._low: set[int] = set()
        # What may be kept for rows that begin alike, as the engine was told last.
        self.cache_bytes: int | None = None

    def leave(self, rows: Iterable[int]) -> Held:
        """Drop rows with their KV. Answers what is left."""
        for row in rows:
            self._engine.remove(row)
            self._forget(row)
        return attrs.evolve(self.held(), disk_work=self._engine.disk_work())

    def suspend(self, rows: Sequence[int]) -> tuple[list[RowSpec], Held]:
        """Drop rows with their KV, and answer with what goes on from where they stand."""
        led = {sibling for row in rows if row in self._waiting for sibling in self._siblings[row]}
        found = [self._engine.suspend(row) for row in rows if row not in led]
        held = self.leave(rows)
        return [spec for spec in found if spec is not None], held

    def limit_cache(self, max_bytes: int) -> Held:
        """What is kept for rows that begin alike may take so much. Answers what is left."""
        if max_bytes != self.cache_bytes:
            self.cache_bytes = max_bytes
            self._engine.limit_cache(max_bytes)
        return self.held()

    def step(
        self, joining: Sequence[RowSpec], forced: Mapping[int, Sequence[int]] = NOTHING
    ) -> Turn:
        """Take rows in and run the one step that is due. `forced` are the tokens that rows are to
        say next."""
        failed = [failure for spec in joining if (failure := self._join(spec))]
        # A prompt of one token needs no computing.
        complete = self._complete([spec.row for spec in joining])
        for row, tokens in forced.items():
            self._engine.force(row, tokens)
        turn = self._run(self._next())
        if failed:
            result = attrs.evolve(turn.result, failed=(*failed, *turn.result.failed))
            turn = attrs.evolve(turn, result=result)
        return attrs.evolve(turn, completed=(*complete, *turn.completed))

    def _next(self) -> Step | None:
        decoding, pressing = len(self._decoding), len(self._decoding - self._low)
        line = self._line()
        low = bool(line) and all(row.low for row in line)
        chunk_tokens = self._pace.chunk_tokens(pressing, low=low)
        if line:
            first = in_line(candidates(line), chunk_tokens)[0]
            # Several short prompts are not mixed.
            mixed = first.remaining > chunk_tokens and self._can_mix(first.row)
            chunk_tokens = self._pace.chunk_tokens(
                pressing, low=low, depth=first.depth, mixed=mixed
            )
        most_tokens = self._pace.most_tokens
        return next_step(
            line,
            decoding,
            self._chunks,
            chunk_tokens,
            most_tokens,
            pressing=pressing,
            newcomers=len(self._newcomers),
        )

    def held(self) -> Held:
        return Held(self._engine.kv_bytes(), self._engine.cache_use())

    def memory(self) -> Memory:
        return self._engine.memory()

    def _line(self) -> list[Waiting]:
        return [
            Waiting(row, self._engine.remaining(row), passed, row in self._low, self._depth(row))
            for row, passed in self._waiting.items()
        ]

    def _depth(self, row: int) -> int:
        # Rows that are read go on behind their prompts.
        return max(0, self._lengths[row] - self._engine.remaining(row))

    def _join(self, spec: RowSpec) -> RowFailed | None:
        try:
            self._engine.add(spec)
        except Exception as error:
            self._engine.remove(spec.row)
            return RowFailed(spec.row, described(error))
        self._siblings[spec.row] = spec.siblings
        self._waiting[spec.row] = 0
        self._lengths[spec.row] = len(spec.tokens)
        if spec.low:
            self._low.update((spec.row, *spec.siblings))
        if spec.max_tokens == 0:
            self._silent.add(spec.row)
        return None

    def _complete(self, rows: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Let those whose prompt is complete decode, with their siblings."""
        complete = tuple(
            row for row in rows if row in self._waiting and not self._engine.remaining(row)
        )
        for row in complete:
            del self._waiting[row], self._lengths[row]
            siblings = self._siblings.pop(row)
            if row not in self._silent:
                self._decoding.update((row, *siblings))
                self._newcomers.update((row, *siblings))
        return tuple((row, self._engine.reused(row)) for row in complete)

    def _run(self, step: Step | None) -> Turn:
        match step:
            case Prefill(((row, count),)) if self._can_mix(row):
                return self._mixed(row, count)
            case Prefill(chunks):
                return self._prefill(chunks)
            case Decode():
                return self._decode()
            case None:
                return Turn(None, StepResult())

    def _prefill(self, chunks: tuple[tuple[int, int], ...]) -> Turn:
        rows = [row for row, _ in chunks]
        self._passed_over(rows)
        self._chunks += 1
        depth = max(map(self._depth, rows))
        result = self._contained(rows, self._engine.prefill, chunks)
        if not result.failed:
            self._pace.prefilled(result.prefilled, result.seconds, depth)
        # What was computed may complete the prompts of others that begin alike.
        return Turn("prefill", result, self._complete(list(self._waiting)), len(rows))

    def _decode(self) -> Turn:
        rows = sorted(self._decoding)
        self._decoded()
        result = self._contained(rows, self._engine.decode)
        if not result.failed:
            self._pace.decoded(result.seconds)
        return Turn("decode", result, rows=len(rows), decoded=True)

    def _can_mix(self, row: int) -> bool:
        # Where only rows of low priority decode, they wait.
        return bool(self._decoding - self._low) and self._engine.can_mix(row)

    def _mixed(self, row: int, count: int) -> Turn:
        """A piece of a prompt and a token for each complete row."""
        rows, depth = [*sorted(self._decoding), row], self._depth(row)
        self._passed_over({row})
        self._decoded()
        result = self._contained(rows, self._engine.mixed, row, count)
        if not result.failed:
            self._pace.prefilled(result.prefilled, result.seconds, depth, mixed=True)
        complete = self._complete(list(self._waiting))
        return Turn("prefill", result, complete, len(rows), decoded=True)

    def _passed_over(self, rows: Collection[int]) -> None:
        for row in self._waiting.keys() - set(rows):
            self._waiting[row] += 1

    def _decoded(self) -> None:
        self._chunks = 0
        self._newcomers.clear()

    def _contained(
        self, rows: Sequence[int], call: Callable[..., StepResult], *args: object
    ) -> StepResult:
        try:
            result = call(*args)
        except Exception as error:
            reason = described(error)
            # Without a time: what a step that failed took says nothing about the next ones.
            result = StepResult(failed=tuple(RowFailed(row, reason) for row in rows))
            for row in rows:
                self._engine.remove(row)
        for failure in result.failed:
            self._forget(failure.row)
        return result

    def _forget(self, row: int) -> None:
        self._waiting.pop(row, None)
        self._lengths.pop(row, None)
        self._siblings.pop(row, None)
        self._silent.discard(row)
        self._decoding.discard(row)
        self._newcomers.discard(row)
        self._low.discard(row)

    def __repr__(self) -> str:
        return f"<Batch {len(self._waiting)} prefilling, {len(self._decoding)} decoding>"
