"""What rows of a model may share, found out by trying.

Some caches cannot be merged, some models take a cache's offset for one number, some do not look
at the padding of a prompt. Which ones changes with every release of mlx-lm, so nothing is listed
by name: two short rows are computed alone and together, and the answers compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import mlx.core as mx

from headrace.actors.engine import forward, kv
from headrace.actors.engine.kv import Cache

Rows: TypeAlias = tuple[list[int], ...]

# The largest difference that rounding may make, as a share of the largest difference between the
# logits of two rows. Rounding depends on the width of a batch: with bfloat16 it makes differences
# well below this; a padding that is not masked makes them several times larger.
_TOLERANCE = 0.03


@attrs.frozen
class Sharing:
    """Whether rows of different lengths can decode, and compute their prompts, in one pass."""

    decode: bool
    prompts: bool


def sharing(model: Any, vocab_size: int) -> Sharing:
    """Costs some forward passes over a few tokens, which also warm the model up."""
    if not kv.mergeable(kv.fresh(model)):
        return Sharing(decode=False, prompts=False)
    rows: Rows = tuple(
        [token % vocab_size for token in tokens] for tokens in (range(1, 3), range(3, 8))
    )
    alone = mx.concatenate([_last_logits(model, _computed(model, row), [row]) for row in rows])
    mx.eval(alone)

    def agrees(prefixes: Callable[[Any, Rows], list[Cache]]) -> bool:
        try:
            cache = kv.joined(prefixes(model, rows))
            return _close(_last_logits(model, cache, rows), alone)
        except Exception:
            return False

    decode = agrees(lambda model, rows: [_computed(model, row) for row in rows])
    return Sharing(decode=decode, prompts=decode and agrees(_computed_together))


def _computed(model: Any, row: Sequence[int]) -> Cache:
    cache = kv.fresh(model)
    forward.advance(model, cache, row[:-1])
    return cache


def _computed_together(model: Any, rows: Rows) -> list[Cache]:
    batch = kv.merged([kv.fresh(model) for _ in rows])
    forward.advance_together(model, batch, [row[:-1] for row in rows])
    return [kv.extracted(batch, index) for index in range(len(rows))]


def _last_logits(model: Any, cache: Cache, rows: Sequence[Sequence[int]]) -> mx.array:
    return forward.next_logits(model, cache, mx.array([row[-1] for row in rows]))


def _close(together: mx.array, alone: mx.array) -> bool:
    error, scale = mx.abs(together - alone).max(), mx.abs(alone[0] - alone[1]).max()
    return bool((error <= _TOLERANCE * scale).item())
