"""Computing prompts: one row by a chunk, or several short rows to their ends at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.actors.engine import forward, kv
from headrace.actors.engine.rows import Row


def chunk(model: Any, row: Row, count: int) -> None:
    """Compute the row's next `count` prompt tokens into its own cache."""
    if row.cache is None:
        row.cache = kv.fresh(model)
    forward.advance(model, row.cache, _next(row, count))
    row.computed += count


def remainders(model: Any, rows: Sequence[Row]) -> None:
    """Compute all that is left of these rows' prompts in one right-padded pass.

    Their caches have to be mergeable. Each row has a cache of its own afterwards.
    """
    batch = kv.merged([row.cache or kv.fresh(model) for row in rows])
    forward.advance_together(model, batch, [_next(row, row.remaining) for row in rows])
    for index, row in enumerate(rows):
        row.cache = kv.extracted(batch, index)
        row.computed += row.remaining


def _next(row: Row, count: int) -> tuple[int, ...]:
    return row.spec.tokens[row.computed : row.computed + count]
