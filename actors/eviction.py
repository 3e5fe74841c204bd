"""Which models to give up for a given number of bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Sized(Protocol):
    """Anything that frees `bytes` when it goes."""

    bytes: int


S = TypeVar("S", bound=Sized)


def fewest_oldest(need_bytes: int, candidates: Sequence[S]) -> tuple[S, ...]:
    """The fewest candidates that together free `need_bytes`, the oldest such set.

    `candidates` come least recently used first. Among the sets of the smallest possible size
    the first in dictionary order of age is taken: the oldest candidate goes if any such set
    holds it, then the next. All of them where even all are not enough.
    """
    count = _fewest(need_bytes, candidates)
    chosen: list[S] = []
    for index, candidate in enumerate(candidates):
        if len(chosen) == count:
            break
        free = sum(taken.bytes for taken in chosen) + candidate.bytes
        if free + _largest(candidates[index + 1 :], count - len(chosen) - 1) >= need_bytes:
            chosen.append(candidate)
    return tuple(chosen) if count < len(candidates) else tuple(candidates)


def _fewest(need_bytes: int, candidates: Sequence[S]) -> int:
    for count in range(len(candidates)):
        if _largest(candidates, count) >= need_bytes:
            return count
    return len(candidates)


def _largest(candidates: Sequence[S], count: int) -> int:
    """Bytes of the `count` largest."""
    return sum(sorted((candidate.bytes for candidate in candidates), reverse=True)[:count])
