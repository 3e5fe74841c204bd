"""Which sequences that go on from one context are computed in one pass. Pure.

Each row of such a pass needs a copy of one layer of the context at a time, and shorter rows are
padded to the longest. Both are bounded here; the engine computes by it and the ledger counts by it.
"""

from __future__ import annotations

from collections.abc import Sequence

# Rows of one pass.
MOST_ROWS = 16
# Tokens of context that may be copied for all rows of a pass together.
COPIED_TOKENS = 16_384
# Of all rows of a pass together, from the end of the shortest on: what is padded is less.
TAIL_TOKENS = 64


def most_rows(context_tokens: int) -> int:
    """How many rows may go on from so long a context in one pass; at least one."""
    return max(1, min(MOST_ROWS, COPIED_TOKENS // max(1, context_tokens)))


def first_group(lengths: Sequence[int], room_tokens: int, context_tokens: int) -> int:
    """How many of the first sequences are computed together: at least one, and as many more as
    fit into the room whole. `lengths` are in tokens, the shortest first."""
    rows = tokens = 0
    for length in lengths[: most_rows(context_tokens)]:
        tail = (rows + 1) * (length - lengths[0] + 1)
        if rows and (tokens + length > room_tokens or tail > TAIL_TOKENS):
            break
        rows, tokens = rows + 1, tokens + length
    return rows


def padded_tokens(room_tokens: int) -> int:
    """The most that a pass computes for rows that fit into the room."""
    return room_tokens + TAIL_TOKENS


def widest_group(lengths: Sequence[int], room_tokens: int, context_tokens: int) -> int:
    """The most rows that any of these may be computed with in a pass over so many tokens."""
    shortest = min(lengths, default=0)
    fitting = room_tokens // shortest if shortest else len(lengths)
    return max(1, min(len(lengths), most_rows(context_tokens), fitting))
