"""What rows of a model may share, found out by trying.

Some caches cannot be merged, some models take a cache's offset for one number, some do not look
at the padding of a prompt. Which ones changes with every release of mlx-lm, so nothing is listed
by name: two short rows are computed alone and together, and the answers compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs
import mlx.core as mx

from headrace.actors.engine import forward, kv
from headrace.actors.engine.kv import Cache
from headrace.actors.engine.mixed import logits_beside

T = TypeVar("T")
Rows: TypeAlias = tuple[list[int], ...]

# The largest difference that rounding may make, as a share of the largest difference between the
# logits of two rows. Rounding depends on the width of a batch: with bfloat16 it makes differences
# well below this; a padding that is not masked makes them several times larger.
_TOLERANCE = 0.03


@attrs.frozen
class Sharing:
    """Whether rows of different lengths can decode, and compute their prompts, in one pass; and
    whether they can lie in bands then, which takes an attention that knows them, and a piece of a
    prompt can be computed beside them."""

    decode: bool
    prompts: bool
    bands: bool = False
    mixed: bool = False


def sharing(model: Any, vocab_size: int) -> Sharing:
    """Raises what the model raises of a row by itself. Costs six forward passes over a few
    tokens, which also warm the model up, and five more where prompts cannot share one."""
    rows: Rows = tuple(
        [token % vocab_size for token in tokens] for tokens in (range(1, 3), range(3, 8))
    )
    alone = mx.stack([forward.all_logits(model, kv.fresh(model), row)[-1] for row in rows])
    if not kv.mergeable(kv.fresh(model)):
        return Sharing(decode=False, prompts=False)
    apart = _tried(lambda: _computed_together(model, rows))
    together = None if apart is None else _last_of(model, rows, lambda: kv.joined(apart))
    if apart is not None and _agree(together, alone):
        # They were taken apart and joined on the way, so that rows can decode together is shown.
        bands = kv.can_be_banded(apart[0]) and _agree(_in_bands(model, rows, apart), alone)
        mixed = bands and _agree(_beside(model, rows), alone)
        return Sharing(decode=True, prompts=True, bands=bands, mixed=mixed)
    # Now token by token, since a whole row at once is rounded in another way than a step.
    caches = [_computed(model, row) for row in rows]
    # Joining copies them, so each can go on by itself after it.
    joined = _last_of(model, rows, lambda: kv.joined(caches))
    last = zip(caches, rows, strict=True)
    stepped = mx.concatenate([_last_logits(model, cache, [row]) for cache, row in last])
    decode = _agree(joined, stepped)
    return Sharing(decode=decode, prompts=decode and _agree(together, stepped))


def _in_bands(model: Any, rows: Rows, caches: Sequence[Cache]) -> mx.array | None:
    """Their logits where each lies in a band of its own, which takes over what it had."""
    return _last_of(model, rows, lambda: kv.banded(caches, span_tokens=0)[0])


def _beside(model: Any, rows: Rows) -> mx.array | None:
    """The logits of one row while the prompt of the other is computed, and of that one then."""
    one, other = rows

    def computed() -> mx.array:
        cache, piece = _computed(model, one), kv.fresh(model)
        first = logits_beside(model, cache, one[-1:], piece, other[:-1])
        return _evaluated(mx.concatenate([first, _last_logits(model, piece, [other])]))

    return _tried(computed)


def _last_of(model: Any, rows: Rows, joined: Callable[[], Cache]) -> mx.array | None:
    """The rows' logits in one pass; None where the model or its caches cannot do it."""
    return _tried(lambda: _evaluated(_last_logits(model, joined(), rows)))


def _tried(compute: Callable[[], T]) -> T | None:
    try:
        return compute()
    except Exception:
        return None


def _evaluated(logits: mx.array) -> mx.array:
    mx.eval(logits)
    return logits


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


def _agree(together: mx.array | None, alone: mx.array) -> bool:
    if together is None:
        return False
    error, scale = mx.abs(together - alone).max(), mx.abs(alone[0] - alone[1]).max()
    return bool((error <= _TOLERANCE * scale).item())
