"""Which unit of work the batch does next. Pure: row states in, one step out.

A step is one decode of all complete rows or one prefill chunk. While both kinds of work exist
they alternate, so a running stream waits for at most one chunk between two tokens, and a chunk
waits for at most one decode; an engine that can do both at once saves the decode. Where no stream
is running, whoever comes with others waits for a few of them, since a decode of few rows takes
nearly as long as one of many.

Among prompts the one with the least left goes first, and a prompt that was passed over gains on the
others with every chunk, so none waits for ever.

Rows of low priority give way: no prompt of theirs is computed while another waits, and where only
they decode, they wait for the prompts of others. Those may wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs


@attrs.frozen
class Waiting:
    """A row whose prompt is not complete. `passed` counts the chunks given to others since, and
    `depth` the tokens that are computed."""

    row: int
    remaining: int
    passed: int
    low: bool = False
    depth: int = 0


@attrs.frozen
class Prefill:
    """Advance these rows by so many prompt tokens each: one long prompt or several short ones."""

    chunks: tuple[tuple[int, int], ...]


@attrs.frozen
class Decode:
    """One token for every complete row."""


# Rows that come together are computed in so many chunks before the first of them speaks.
CHUNKS_TOGETHER = 2
# So many chunks before its end a prompt is cut into equal pieces.
LAST_PIECES = 3

Step: TypeAlias = Prefill | Decode
Kind: TypeAlias = Literal["prefill", "decode"]


def next_step(
    waiting: Sequence[Waiting],
    decoding: int,
    chunks: int,
    chunk_tokens: int,
    most_tokens: int,
    *,
    pressing: int | None = None,
    newcomers: int = 0,
) -> Step | None:
    """The next unit of work, or None when there is nothing to do.

    `decoding` is the number of complete rows, `pressing` that of those among them that are not of
    low priority, all of them where it is not given; `newcomers` those that have said nothing yet.
    `chunks` are those since the last decode, `chunk_tokens` the prompt tokens, padding included,
    that one step should compute, and `most_tokens` those that it may.
    """
    only_low = all(row.low for row in waiting)
    beside = decoding if pressing is None or only_low else pressing
    if not waiting:
        return Decode() if decoding else None
    chosen = choose(candidates(waiting), chunk_tokens, most_tokens)
    # Of low priority nobody is waited for.
    few = decoding == newcomers and chunks < CHUNKS_TOGETHER and not only_low
    together = few and _completes(waiting, chosen)
    if beside == 0 or chunks == 0 or together:
        return Prefill(chosen)
    return Decode()


def _completes(waiting: Sequence[Waiting], chosen: Sequence[tuple[int, int]]) -> bool:
    left = {row.row: row.remaining for row in waiting}
    return all(left[row] == tokens for row, tokens in chosen)


def candidates(waiting: Sequence[Waiting]) -> Sequence[Waiting]:
    """Those of which a prompt may be computed."""
    return [row for row in waiting if not row.low] or waiting


def choose(
    waiting: Sequence[Waiting], chunk_tokens: int, most_tokens: int
) -> tuple[tuple[int, int], ...]:
    """The first prompt in line, joined by others while all of them fit whole into one chunk."""
    line = in_line(waiting, chunk_tokens)
    first = line[0]
    if first.remaining > chunk_tokens:
        return ((first.row, min(piece(first.remaining, chunk_tokens), most_tokens)),)
    group = [first]
    widest = first.remaining
    for row in line[1:]:
        widest = max(widest, row.remaining)
        if widest * (len(group) + 1) > chunk_tokens:
            break
        group.append(row)
    return tuple((row.row, row.remaining) for row in group)


def in_line(waiting: Sequence[Waiting], chunk_tokens: int) -> list[Waiting]:
    return sorted(waiting, key=lambda row: (rank(row, chunk_tokens), row.row))


def piece(remaining: int, chunk_tokens: int) -> int:
    """A chunk; of the last few chunks of a prompt the fewest equal pieces that are a fifth longer
    than that at most. A short rest would cost a step like any other."""
    if remaining > LAST_PIECES * chunk_tokens:
        return chunk_tokens
    pieces = max(1, -(-5 * remaining // (6 * chunk_tokens)))
    return -(-remaining // pieces)


def rank(row: Waiting, chunk_tokens: int) -> int:
    """Less goes first. Every chunk that is computed lowers the rank of each waiting prompt by one
    chunk, whether it was its own or another's: so the order between two prompts never changes,
    and whoever comes n chunks later than a prompt of n chunks stays behind it."""
    return row.remaining - row.passed * chunk_tokens
