"""The engine over an encoder: rows are texts, and each is read by a single pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import mlx.core as mx

from headrace.actors.engine import memory
from headrace.actors.engine.encoder import Encoder
from headrace.actors.engine.pooling import pooled
from headrace.runtime.ports import CacheUse, Memory, Pooling, RowRead, RowSpec, StepResult

# Freed buffers beyond this are given back after a pass.
_SPARE_BYTES = 128 << 20


class EncoderEngine:
    """The `Engine` port for models that only embed. No row decodes and none has KV.

    Texts that are computed together are padded to the longest; who calls groups them by length.
    """

    def __init__(self, encoder: Encoder, vocab_size: int) -> None:
        self._encoder: Encoder | None = encoder
        self._vocab_size = vocab_size
        self._rows: dict[int, RowSpec] = {}
        self._done: set[int] = set()

    def add(self, spec: RowSpec) -> None:
        """Take a text in. Raises ValueError for a row that is here already, for one that is not
        to be pooled and for unknown tokens."""
        if spec.row in self._rows:
            raise ValueError(f"row {spec.row} is in the engine already")
        if spec.pooling is None:
            raise ValueError(f"row {spec.row} is no text to be embedded")
        if not all(0 <= token < self._vocab_size for token in spec.tokens):
            # The device checks no bounds: it would read beyond the table.
            raise ValueError(f"row {spec.row} has tokens outside the vocabulary")
        self._rows[spec.row] = spec

    def remove(self, row: int) -> None:
        self._rows.pop(row, None)
        self._done.discard(row)

    def remaining(self, row: int) -> int:
        return 0 if row in self._done else len(self._rows[row].tokens)

    def prefill(self, chunks: Sequence[tuple[int, int]]) -> StepResult:
        """Texts cannot be computed in parts: whatever the counts, each is computed to its end."""
        started = time.perf_counter()
        rows = [self._rows[row] for row, _ in chunks]
        vectors = self._vectors(rows)
        self._done.update(row.row for row in rows)
        memory.release_buffers(above_bytes=_SPARE_BYTES)
        return StepResult(
            seconds=time.perf_counter() - started,
            prefilled=sum(len(row.tokens) for row in rows),
            read=tuple(
                RowRead(row.row, vector=vector) for row, vector in zip(rows, vectors, strict=True)
            ),
        )

    def _vectors(self, rows: Sequence[RowSpec]) -> list[bytes]:
        assert self._encoder is not None, "the engine is closed"
        hidden = self._encoder([row.tokens for row in rows])
        lengths = [len(row.tokens) for row in rows]
        return pooled(hidden, lengths, [row.pooling or Pooling("mean") for row in rows])

    def decode(self) -> StepResult:
        return StepResult()

    def can_mix(self, row: int) -> bool:
        return False

    def mixed(self, row: int, count: int) -> StepResult:
        """As no row decodes, a prefill."""
        return self.prefill([(row, count)])

    def force(self, row: int, tokens: Sequence[int]) -> None:
        """No row says anything."""

    def suspend(self, row: int) -> RowSpec | None:
        self.remove(row)
        return None

    def kv_bytes(self) -> int:
        return 0

    def limit_cache(self, max_bytes: int) -> None:
        """Nothing is kept."""

    def free_cache(self, nbytes: int) -> int:
        return 0

    def cache_use(self) -> CacheUse:
        return CacheUse()

    def keep_on_disk(self, folder: str, fingerprint: str, max_bytes: int) -> None:
        """Nothing is kept there either."""

    def disk_work(self) -> Sequence[Callable[[], str | None]]:
        return ()

    def reused(self, row: int) -> int:
        return 0

    def memory(self) -> Memory:
        return memory.usage()

    def close(self) -> None:
        self._rows, self._done = {}, set()
        self._encoder = None
        mx.synchronize()
        memory.release_buffers()

    def __repr__(self) -> str:
        return f"<EncoderEngine {len(self._rows) - len(self._done)} of {len(self._rows)} rows left>"
