"""Which of a row's tokens stand for which characters of its text."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

import attrs


@attrs.frozen
class TokenShare:
    """A token of which something is visible. `index` counts the row's tokens from 0; of the
    token's own bytes `front` and `back` many at its two ends are not part of the visible text."""

    index: int
    front: int = 0
    back: int = 0


@attrs.frozen
class _Undecided:
    index: int
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


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


class ShareFinder:
    """Tells tokens apart by what became visible of them, in order.

    A token without text of its own is part of the next character, and shares its fate.
    """

    def __init__(self) -> None:
        self._count = 0
        self._length = 0
        self._undecided = deque[_Undecided]()
        self._visible = deque[tuple[int, int]]()

    def add(self, text: str) -> None:
        """The next token, and the text that it completed."""
        self._undecided.append(_Undecided(self._count, self._length, text))
        self._count += 1
        self._length += len(text)

    def show(self, start: int, end: int) -> None:
        """These characters of the decoded text are visible; they come in order."""
        self._visible.append((start, end))

    def take(self, *, last: bool = False) -> tuple[TokenShare, ...]:
        """Shares of the tokens whose text is decided: all up to the newest visible character, or
        all there are."""
        decided = self._visible[-1][1] if self._visible else 0
        shares = list[TokenShare]()
        while self._undecided:
            token = self._undecided[0]
            if not last and (token.end > decided or (not token.text and token.start >= decided)):
                break
            self._undecided.popleft()
            shares.extend(self._share(token))
        return tuple(shares)

    def _share(self, token: _Undecided) -> Iterable[TokenShare]:
        while len(self._visible) > 1 and self._visible[0][1] <= token.start:
            self._visible.popleft()
        end = max(token.end, token.start + 1)
        parts = [part for part in self._visible if part[0] < end and part[1] > token.start]
        if not parts:
            return ()
        front = token.text[: max(0, parts[0][0] - token.start)]
        back = token.text[parts[-1][1] - token.start :]
        return (TokenShare(token.index, len(front.encode()), len(back.encode())),)
