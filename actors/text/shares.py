"""Which of a row's tokens stand for its visible text, byte by byte (wire contract 3.8)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

import attrs


@attrs.frozen
class TokenShare:
    """A token of which something is visible. `index` counts the row's tokens from 0; `bytes` are
    the token's own bytes, as far as they are visible."""

    index: int
    bytes: bytes


class TokenLedger:
    """Where each token's text ends in the decoded text, in characters."""

    def __init__(self) -> None:
        self._ends = list[int]()

    @property
    def length(self) -> int:
        return self._ends[-1] if self._ends else 0

    def add(self, text: str) -> None:
        self._ends.append(self.length + len(text))

    def count(self, spans: Iterable[tuple[int, int | None]]) -> int:
        """Tokens that end within the spans; None is the end of the text."""
        total = 0
        for start, end in spans:
            before = bisect_right(self._ends, start) if start else 0
            total += (len(self._ends) if end is None else bisect_right(self._ends, end)) - before
        return total


@attrs.frozen
class _Token:
    index: int
    # Its place among the bytes of the decoded text.
    start: int
    end: int
    raw: bytes

    def share(self, visible: Sequence[tuple[int, int]]) -> bytes:
        if visible and visible[0][0] <= self.start and self.end <= visible[0][1]:
            return self.raw
        parts = [(max(a, self.start), min(b, self.end)) for a, b in visible]
        parts = [(a - self.start, b - self.start) for a, b in parts if a < b]
        if not parts or len(self.raw) != self.end - self.start:
            # A token whose text is not its bytes, like one with a dropped space, is not divided.
            return self.raw if parts else b""
        return b"".join(self.raw[a:b] for a, b in parts)


class ShareFinder:
    """Tells which tokens, or which bytes of them, became visible, in order.

    A token ends where its text ends, and beyond that by the bytes it has of a character that the
    next tokens complete.
    """

    def __init__(self) -> None:
        self._count = 0
        # Decoded text in bytes, and where the last token ends in it.
        self._length = 0
        self._end = 0
        # The last few bytes of all tokens.
        self._tail = b""
        self._places = _Places()
        self._undecided = deque[_Token]()
        self._visible = deque[tuple[int, int]]()
        # All bytes before this one are known to be visible or not.
        self._decided = 0

    def add(self, raw: bytes, text: str) -> None:
        """The next token's bytes, and the text that it completed."""
        self.add_text(text)
        self._tail = (self._tail + raw)[-4:]
        end = max(self._end, self._length + _unfinished(self._tail))
        if raw and end > self._end:
            self._undecided.append(_Token(self._count, self._end, end, raw))
        self._end = end
        self._count += 1

    def add_text(self, text: str) -> None:
        """Text that came without a token."""
        self._places.add(text)
        self._length += len(text.encode())

    def show(self, at: int, text: str) -> None:
        """This text is visible; it stands at that offset, in characters. Calls come in order."""
        start = self._places.byte_of(at)
        self._decided = start + len(text.encode())
        self._visible.append((start, self._decided))

    def take(self, *, last: bool = False) -> tuple[TokenShare, ...]:
        """The shares that are decided and were not taken before; at last all there are."""
        shares = list[TokenShare]()
        while self._undecided and (last or self._undecided[0].end <= self._decided):
            token = self._undecided.popleft()
            while self._visible and self._visible[0][1] <= token.start:
                self._visible.popleft()
            if share := token.share(self._visible):
                shares.append(TokenShare(token.index, share))
        return tuple(shares)


class _Places:
    """Offsets of a text in characters and in bytes, asked for in growing order."""

    def __init__(self) -> None:
        self._pieces = deque[str]()
        self._chars = 0
        self._bytes = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def byte_of(self, char: int) -> int:
        while self._pieces and self._chars + len(self._pieces[0]) <= char:
            self._pass(self._pieces.popleft())
        if char > self._chars:
            piece = self._pieces.popleft()
            border = char - self._chars
            self._pass(piece[:border])
            self._pieces.appendleft(piece[border:])
        return self._bytes

    def _pass(self, text: str) -> None:
        self._chars += len(text)
        self._bytes += len(text.encode())


def _unfinished(data: bytes) -> int:
    """Bytes at the end that begin a character of UTF-8 and do not complete it."""
    for count in range(1, min(3, len(data)) + 1):
        byte = data[-count]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return count if count < needed else 0
    return 0
