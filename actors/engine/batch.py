"""The engine over an mlx-lm model: rows, their prompts, and the batch that generates.

One OS thread owns an engine for life. Nothing here sets process-wide MLX state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module

from headrace.actors.engine import kv, memory
from headrace.actors.engine.cpu import compute_on_cpu
from headrace.actors.engine.decode import Batch, LookaheadBatch
from headrace.actors.engine.prefixes import Prefixes
from headrace.actors.engine.probe import sharing
from headrace.actors.engine.prompts import Prompts
from headrace.actors.engine.reading import Readings
from headrace.actors.engine.rows import Row
from headrace.actors.engine.sampling import Vocabulary
from headrace.runtime.ports import (
    CacheUse,
    Memory,
    RowFailed,
    RowRead,
    RowSpec,
    RowToken,
    StepResult,
)

# Freed buffers beyond this are given back after a prefill, whose transients are the largest.
_SPARE_BYTES = 128 << 20
# Attention grows by a token a step, so buffers of sizes that never come again pile up.
_STEPS_BETWEEN_RELEASES = 256


class BatchEngine:
    """The `Engine` port over one model, which is its own from here on.

    `lookahead` keeps the next step in flight on the device while the host handles this one; it
    pays where submitting work does not block, which rules out MLX's CPU backend. Rows with a
    grammar or with scores are kept out of it, in a batch beside. The tokens are the same either
    way.
    """

    def __init__(
        self,
        model: Any,
        *,
        end_tokens: Iterable[int],
        vocab_size: int,
        lookahead: bool,
        newline_tokens: Iterable[int] = (),
    ) -> None:
        self._model = model
        if mx.default_device().type == mx.DeviceType.cpu and isinstance(model, Module):
            compute_on_cpu(model)
        self._vocabulary = Vocabulary(
            vocab_size, tuple(sorted(end_tokens)), tuple(sorted(newline_tokens))
        )
        self._lookahead = lookahead
        # Where rows cannot decode together, each is a batch of its own.
        self.sharing = sharing(model, vocab_size)
        self._prefixes = Prefixes(model, vocab_size)
        together = self.sharing.prompts
        self._prompts = Prompts(model, self._prefixes, vocab_size, together=together)
        self._readings = Readings(model)
        self._rows: dict[int, Row] = {}
        # Row -> the rows that begin with it when its prompt is complete.
        self._siblings: dict[int, list[Row]] = {}
        # Rows whose prompts are complete, to be admitted by the next decode.
        self._ready: list[Row] = []
        self._running: list[Batch] = []
        self._steps = 0

    def add(self, spec: RowSpec) -> None:
        """Take a row in. Raises ValueError for a row that is here and for unknown tokens."""
        if spec.row in self._rows or self._readings.remaining(spec.row):
            raise ValueError(f"row {spec.row} is in the engine already")
        if not self._vocabulary.has(_tokens(spec)):
            # The device checks no bounds: it would read or write another row's numbers.
            raise ValueError(f"row {spec.row} has tokens outside the vocabulary")
        if self._readings.add(spec):
            return
        row = Row(spec)
        self._prefixes.recall(row)
        self._prefixes.meet(row, self._waiting())
        self._prefixes.look(row)
        self._rows[spec.row] = row
        self._siblings[spec.row] = row.siblings()
        self._rows |= {sibling.spec.row: sibling for sibling in self._siblings[spec.row]}
        self._complete([row])

    def _waiting(self) -> list[Row]:
        """Rows whose prompts are not complete."""
        return [self._rows[row] for row in self._siblings]

    def _complete(self, rows: Iterable[Row]) -> None:
        """Let those whose prompt is computed decode, with the other rows of the same prompt."""
        for row in rows:
            if row.remaining == 0:
                self._prefixes.take(row)
            if row.remaining == 0:
                self._prefixes.count(row)
                siblings = self._siblings.pop(row.spec.row, ())
                if not row.spec.max_tokens:
                    continue
                self._ready.append(row)
                for sibling in siblings:
                    if not sibling.gone:
                        sibling.begin_like(row)
                        self._ready.append(sibling)

    def remove(self, row: int) -> None:
        """Drop a row. Its slot in a running batch is given up at the next `decode`."""
        self._readings.remove(row)
        removed = self._rows.get(row)
        if removed is not None:
            for batch in self._running:
                if removed in batch.rows:
                    batch.hand_in(removed)
            self._drop(removed)

    def suspend(self, row: int) -> RowSpec | None:
        suspended = self._rows.get(row)
        if suspended is None or suspended.spec.is_read:
            self.remove(row)
            return None
        spec = suspended.continued(complete=row not in self._siblings)
        self.remove(row)
        return spec

    def _drop(self, dropped: Row) -> None:
        """The same for a row of whose KV nothing is to be kept."""
        self._rows.pop(dropped.spec.row, None)
        self._siblings.pop(dropped.spec.row, None)
        self._readings.remove(dropped.spec.row)
        self._prefixes.let_go(dropped)
        dropped.gone, dropped.cache = True, None
        self._ready = [row for row in self._ready if not row.gone]
        self._running = [b for b in self._running if not all(row.gone for row in b.rows)]

    def remaining(self, row: int) -> int:
        behind = self._readings.remaining(row)
        return behind if self._readings.is_pooled(row) else self._rows[row].remaining + behind

    def prefill(self, chunks: Sequence[tuple[int, int]]) -> StepResult:
        started = time.perf_counter()
        self._check(chunks)
        pooling = [(row, count) for row, count in chunks if row not in self._rows]
        rows = [(self._rows[row], count) for row, count in chunks if row in self._rows]
        todo = [(row, min(count, row.remaining)) for row, count in rows if row.remaining]
        behind = [(row, count - min(count, row.remaining)) for row, count in rows]
        before = {row: row.computed - row.reused for row, _ in todo}
        failed, scores = self._prompts.compute(todo, self._lose)
        self._completed()
        left = self._readings.left(row.spec.row for row, _ in behind)
        read = [*self._pool(pooling, failed), *self._go_on(behind, before, failed)]
        continued = left - self._readings.left(row.spec.row for row, _ in behind)
        memory.release_buffers(above_bytes=_SPARE_BYTES)
        prompts = sum(
            row.computed - row.reused - done for row, done in before.items() if not row.gone
        )
        return StepResult(
            failed=tuple(failed),
            seconds=time.perf_counter() - started,
            prefilled=prompts + continued + sum(count for _, count in pooling),
            read=tuple(read),
            prompt_scores=tuple(scores),
        )

    def _check(self, chunks: Sequence[tuple[int, int]]) -> None:
        """Refuse chunks that break the port's terms; a mistake of the caller, not of a row."""
        for row, count in chunks:
            left = self.remaining(row)
            if not 0 < count <= left or (len(chunks) > 1 and count != left):
                raise ValueError(f"cannot prefill {count} of {left} tokens of row {row}")

    def decode(self) -> StepResult:
        started = time.perf_counter()
        tokens: list[RowToken] = []
        failed: list[RowFailed] = []
        for batch, joining in self._due():
            said, lost = self._step(batch, joining, (), batch.step)
            tokens, failed = tokens + said, failed + lost
        self._stepped()
        return StepResult(tuple(tokens), tuple(failed), time.perf_counter() - started)

    def can_mix(self, row: int) -> bool:
        found = self._rows.get(row)
        if found is None or found.spec.is_read or found.spec.scores_prompt:
            return False
        one = len(self._running) == 1 and not self._lookahead and self.sharing.mixed
        return one and any(not each.gone for each in self._running[0].rows)

    def mixed(self, row: int, count: int) -> StepResult:
        started = time.perf_counter()
        beside = self._rows[row]
        self._prefixes.take(beside)
        before = beside.computed
        batch, joining = next(self._due())
        step = partial(batch.step_beside, beside, count)
        tokens, failed = self._step(batch, joining, (beside,), step)
        prefilled = 0 if beside.gone else beside.computed - before
        self._stepped()
        failed += self._kept(beside)
        self._completed()
        memory.release_buffers(above_bytes=_SPARE_BYTES)
        seconds = time.perf_counter() - started
        return StepResult(tuple(tokens), tuple(failed), seconds, prefilled=prefilled)

    def _step(
        self,
        batch: Batch,
        joining: Sequence[Row],
        beside: Sequence[Row],
        step: Callable[[], list[tuple[Row, int]]],
    ) -> tuple[list[RowToken], list[RowFailed]]:
        """What a step of a batch and of rows beside it brings; all of them are lost where it
        raises."""
        rows = [*batch.rows, *joining, *beside]
        try:
            batch.take(joining)
            tokens = _spoken(step() if batch.rows else [])
            return tokens, self._broken(batch.rows)
        except Exception as error:
            batch.rows = []
            return [], self._lose(rows, error)

    def _kept(self, row: Row) -> list[RowFailed]:
        """Keep what was computed of its prompt for others; that it fails is no other row's loss."""
        try:
            self._prefixes.keep_prompt(row)
        except Exception as error:
            return self._lose([row], error)
        return []

    def _stepped(self) -> None:
        self._running = [batch for batch in self._running if batch.rows]
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_RELEASES == 0:
            memory.release_buffers()

    def _completed(self) -> None:
        """Look whose prompts are complete with what has just been computed."""
        waiting = self._waiting()
        for row in waiting:
            self._prefixes.look(row)
        self._complete(waiting)

    def force(self, row: int, tokens: Sequence[int]) -> None:
        if row in self._rows:
            self._rows[row].forced += tokens

    def kv_bytes(self) -> int:
        prompts = sum(kv.nbytes(row.cache) for row in self._rows.values() if row.cache)
        running = sum(batch.nbytes for batch in self._running)
        return prompts + running + self._readings.nbytes

    def memory(self) -> Memory:
        return memory.usage()

    def limit_cache(self, max_bytes: int) -> None:
        """Costs some forward passes over a few tokens at the first time."""
        self._prefixes.limit(max_bytes)

    def free_cache(self, nbytes: int) -> int:
        freed = self._prefixes.free(nbytes)
        memory.release_buffers()
        return freed

    def cache_use(self) -> CacheUse:
        return self._prefixes.use()

    def keep_on_disk(self, folder: str, fingerprint: str, max_bytes: int) -> None:
        self._prefixes.keep_on_disk(Path(folder), fingerprint, max_bytes)

    def disk_work(self) -> Sequence[Callable[[], str | None]]:
        return self._prefixes.work()

    def reused(self, row: int) -> int:
        found = self._rows.get(row)
        # One that goes on has computed, before, what it finds.
        return 0 if found is None or found.spec.resumed else found.reused

    def close(self) -> None:
        self._rows, self._siblings, self._ready, self._running = {}, {}, [], []
        self._model = None
        self._prompts.close()
        self._prefixes.close()
        self._readings.close()
        mx.synchronize()
        memory.release_buffers()

    def _pool(self, chunks: Sequence[tuple[int, int]], failed: list[RowFailed]) -> list[RowRead]:
        """Texts that become vectors. What cannot be computed is told in `failed`."""
        try:
            return self._readings.pool(chunks) if chunks else []
        except Exception as error:
            for row, _ in chunks:
                self._readings.remove(row)
            failed += [RowFailed(row, f"{type(error).__name__}: {error}") for row, _ in chunks]
            return []

    def _go_on(
        self, behind: Sequence[tuple[Row, int]], late: Container[Row], failed: list[RowFailed]
    ) -> list[RowRead]:
        """What is read behind prompts that are complete. The `late` have just become so."""
        read = list[RowRead]()
        for row, count in behind:
            if not count or row.gone or row.remaining:
                continue
            try:
                read += self._readings.go_on(row, count, partly=row not in late)
            except Exception as error:
                self._readings.remove(row.spec.row)
                failed += self._lose([row], error)
        return read

    def _due(self) -> Iterator[tuple[Batch, list[Row]]]:
        """Each batch that is to step, with the rows that join it."""
        joining, self._ready = self._ready, []
        ahead = [row for row in joining if self._looks_ahead(row)]
        beside = [row for row in joining if not self._looks_ahead(row)]
        for batch in list(self._running):
            mates = ahead if isinstance(batch, LookaheadBatch) else beside
            taken = mates[:] if self.sharing.decode else []
            del mates[: len(taken)]
            yield batch, taken
        for rows in (ahead, beside):
            for group in [rows] if self.sharing.decode else [[row] for row in rows]:
                if group:
                    kind = LookaheadBatch if rows is ahead else Batch
                    banded = self.sharing.bands
                    batch = kind(self._model, self._vocabulary, self._prefixes, banded=banded)
                    self._running.append(batch)
                    yield batch, group

    def _looks_ahead(self, row: Row) -> bool:
        return self._lookahead and not row.host_only

    def _broken(self, rows: Sequence[Row]) -> list[RowFailed]:
        """Give up the rows whose grammar can no longer be followed."""
        broken = [(row, reason) for row in rows if (reason := row.broken) is not None]
        for row, _ in broken:
            self._drop(row)
        return [RowFailed(row.spec.row, reason) for row, reason in broken]

    def _lose(self, rows: Sequence[Row], error: Exception) -> list[RowFailed]:
        """Remove the rows that still want something; what was computed for them is unsound."""
        lost = [row for row in rows if not (row.gone or row.satisfied)]
        for row in lost:
            self._drop(row)
        memory.release_buffers()
        reason = f"{type(error).__name__}: {error}"
        return [RowFailed(row.spec.row, reason) for row in lost]

    def __repr__(self) -> str:
        running = sum(len(batch.rows) for batch in self._running)
        waiting = f"{len(self._rows)} rows, {len(self._ready)} ready"
        return f"<BatchEngine {waiting}, {running} in {len(self._running)} batches>"


def _spoken(drawn: Sequence[tuple[Row, int]]) -> list[RowToken]:
    return [RowToken(row.spec.row, token, row.scores) for row, token in drawn if not row.broken]


def _tokens(spec: RowSpec) -> Iterator[int]:
    """Every token that a row names."""
    yield from spec.tokens
    yield from (token for token, _ in spec.sampling.logit_bias)
    for more in spec.continuations:
        yield from more.tokens
        yield from more.labels
