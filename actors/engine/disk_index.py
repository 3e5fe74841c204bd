"""Which kept prefixes lie on disk, and which files go first. Pure.

A file holds the KV of some tokens in a row that follow a certain prefix, which may lie in other
files or in none. Files overlap where sequences do: none is ever divided or changed.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, OrderedDict

import attrs

from headrace.actors.engine.radix import common


@attrs.frozen(eq=False)
class Entry:
    """A file: `start` tokens with this digest come before its own."""

    name: str
    start: int
    prefix: str
    tokens: tuple[int, ...]
    nbytes: int


class DiskIndex:
    """The files of one model, of at most `max_bytes` together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        # Longest unused first.
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._behind: dict[tuple[int, str], list[Entry]] = {}
        self._starts: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        if entry.name in self._entries:
            return
        self._entries[entry.name] = entry
        self._behind.setdefault((entry.start, entry.prefix), []).append(entry)
        self._starts[entry.start] += 1
        self.nbytes += entry.nbytes

    def remove(self, entry: Entry) -> None:
        if self._entries.pop(entry.name, None) is None:
            return
        behind = self._behind[entry.start, entry.prefix]
        behind.remove(entry)
        if not behind:
            del self._behind[entry.start, entry.prefix]
        self._starts -= Counter({entry.start: 1})
        self.nbytes -= entry.nbytes

    def cover(self, tokens: tuple[int, ...]) -> list[tuple[Entry, int]]:
        """Files that hold the beginning of these tokens, in order, each with the length up to
        which they are covered by then. Using them is what keeps them."""
        covered, parts = 0, list[tuple[Entry, int]]()
        for start in sorted(self._starts):
            if start > covered or start >= len(tokens):
                break
            for entry in self._behind.get((start, digest(tokens[:start])), ()):
                ahead = tokens[start : start + len(entry.tokens)]
                if (end := start + common(entry.tokens, ahead)) > covered:
                    parts.append((entry, end))
                    covered = end
        for entry, _ in reversed(parts):
            self._entries.move_to_end(entry.name)
        return parts

    def make_room(self, nbytes: int) -> list[Entry] | None:
        """The files to delete for one of so many bytes; None where it is too large for all."""
        if nbytes > self.max_bytes:
            return None
        gone = []
        while self.nbytes + nbytes > self.max_bytes:
            entry = next(iter(self._entries.values()))
            self.remove(entry)
            gone.append(entry)
        return gone


def digest(tokens: tuple[int, ...]) -> str:
    return hashlib.blake2b(array("q", tokens).tobytes(), digest_size=16).hexdigest()
