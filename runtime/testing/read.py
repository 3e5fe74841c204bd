"""What scripted rows that are read hold: values that depend on their tokens and on nothing else."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from headrace.runtime.ports import RowRead, RowSpec

# Numbers of a scripted vector.
WIDTH = 4


def read_of(spec: RowSpec) -> RowRead:
    """All that is read of a row."""
    if spec.pooling is not None:
        return RowRead(spec.row, vector=vector_of(spec.tokens))
    logits = tuple(
        tuple(logit_of((*spec.tokens, *more.tokens), label) for label in more.labels)
        for more in spec.continuations
    )
    return RowRead(spec.row, logits=logits)


def all_tokens(spec: RowSpec) -> int:
    """Tokens that are computed for a row that is read."""
    return len(spec.tokens) + sum(len(more.tokens) for more in spec.continuations)


def vector_of(tokens: Sequence[int]) -> bytes:
    """A vector that tells sequences apart."""
    digest = _digest(tokens)
    return struct.pack("<4f", *((digest >> 8 * at & 0xFF) / 256 for at in range(WIDTH)))


def logit_of(tokens: Sequence[int], label: int) -> float:
    return _digest((*tokens, label)) % 1000 / 100


def _digest(tokens: Sequence[int]) -> int:
    return zlib.crc32(repr(tuple(tokens)).encode())
