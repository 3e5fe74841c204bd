"""Computing prompts: one row by a chunk, or several short rows to their ends at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from headrace.actors.engine import forward, kv
from headrace.actors.engine.rows import Row
from headrace.actors.engine.scoring import scores_of_all
from headrace.runtime.ports import TokenScores

# Rows with the number of tokens that each is to advance by.
Todo: TypeAlias = Sequence[tuple[Row, int]]

# Of logits that are held at once, where the tokens of a prompt are scored.
SCORED_BYTES = 8 << 20
# Tokens that two prompts have to go on with alike before one of them waits for the other.
_WORTH_WAITING = 16


def chunk(model: Any, row: Row, count: int) -> None:
    """Compute the row's next `count` prompt tokens into its own cache."""
    if row.cache is None:
        row.cache = kv.fresh(model)
    forward.advance(model, row.cache, row.next_tokens(count))
    row.computed += count


def scored_chunk(model: Any, row: Row, count: int, vocab_size: int) -> tuple[TokenScores, ...]:
    """The same, with a score for the token that follows each of them.

    The logits of a whole chunk would be larger than anything else here, so it is computed in
    smaller pieces, and each piece is scored before the next.
    """
    found = list[TokenScores]()
    if row.cache is None:
        row.cache = kv.fresh(model)
    piece_tokens = max(1, SCORED_BYTES // (4 * vocab_size))
    for size in [min(piece_tokens, count - at) for at in range(0, count, piece_tokens)]:
        logits = forward.all_logits(model, row.cache, row.next_tokens(size))[:, :vocab_size]
        row.computed += size
        found += scores_of_all(logits, _next_but_one(row, size), row.spec.logprobs or 0)
    return tuple(found)


def remainders(model: Any, rows: Sequence[Row]) -> None:
    """Compute all that is left of these rows' prompts in one right-padded pass.

    Their caches have to be mergeable. Each row has a cache of its own afterwards.
    """
    batch = kv.merged([row.cache or kv.fresh(model) for row in rows])
    forward.advance_together(model, batch, [row.next_tokens(row.remaining) for row in rows])
    for index, row in enumerate(rows):
        row.cache = kv.extracted(batch, index)
        row.computed += row.remaining


def apart(todo: Todo) -> tuple[Todo, Todo]:
    """Those that compute nothing twice if they are computed together, and the others."""
    wave, others = list[tuple[Row, int]](), list[tuple[Row, int]]()
    for row, count in todo:
        (others if any(alike(row, other) for other, _ in wave) else wave).append((row, count))
    return wave, others


def alike(row: Row, other: Row) -> bool:
    """Whether two rows have yet to compute the same beginning, of a length worth waiting for."""
    start = max(row.reach, other.reach)
    end = start + _WORTH_WAITING
    if end > min(row.prompt_length, other.prompt_length):
        return False
    one, another = row.spec.tokens, other.spec.tokens
    # What lies behind tells most of them apart at once.
    return one[start:end] == another[start:end] and one[:start] == another[:start]


def _next_but_one(row: Row, count: int) -> tuple[int, ...]:
    """What followed each of the tokens that were computed last."""
    return row.spec.tokens[row.computed - count + 1 : row.computed + 1]
