"""Reading a text that is still being written.

A grammar is a generator that yields whenever it needs more text, so that it can be written as if
the whole text were there. What it decides must not depend on where the text is cut: patterns are
matched with `regex`'s partial matching, which tells "cannot match" from "could, with more text".
A pattern given to a `Reader` must therefore not match where more text would make it match
differently; it ends with a literal or a look-ahead, never with an open repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import regex

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
Show: TypeAlias = Callable[[str], None]
ShowAt: TypeAlias = Callable[[str, int], None]

SPACE = " \t\r\n"
SPACES = regex.compile(rf"[{SPACE}]+")


class Reader:
    """The text so far, and how far it has been taken. Offsets count from the text's beginning."""

    __slots__ = ("_at", "_base", "_ended", "_mark", "_text", "cut", "starved")

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        # The offset of the first character that is still kept.
        self._base = 0
        self._mark: int | None = None
        self._ended = False
        # Whether the end came from outside, in the middle of whatever was being written.
        self.cut = False
        # Whether the end came where a pattern could have gone on.
        self.starved = False

    @property
    def position(self) -> int:
        return self._base + self._at

    @property
    def over(self) -> bool:
        """Nothing follows, or nothing that can be decided."""
        return self.starved or (self._ended and self._at == len(self._text))

    def feed(self, text: str) -> None:
        keep = self._at if self._mark is None else self._mark
        self._text = self._text[keep:] + text
        self._base += keep
        self._at -= keep
        if self._mark is not None:
            self._mark = 0

    def end(self, *, cut: bool) -> None:
        self._ended, self.cut = True, cut

    def mark(self) -> None:
        """Keep what is taken from here on, for `taken`."""
        self._mark = self._at

    def taken(self) -> tuple[str, int]:
        """The text since the mark and its offset; the mark is gone."""
        assert self._mark is not None
        mark, self._mark = self._mark, None
        return self._text[mark : self._at], self._base + mark

    def forget(self) -> None:
        self._mark = None

    @property
    def marked(self) -> bool:
        return self._mark is not None

    def peek(self) -> Steps[str]:
        """The next character, not taken; empty at the end."""
        while self._at == len(self._text):
            if self._ended:
                return ""
            yield
        return self._text[self._at]

    def skip(self) -> str:
        """Take the character that `peek` gave."""
        self._at += 1
        return self._text[self._at - 1]

    def spaces(self, show: Show) -> Steps[str]:
        """Take whitespace as it comes; gives the character after it like `peek`."""
        while (char := (yield from self.peek())) and char in SPACE:
            found = SPACES.match(self._text, self._at)
            assert found is not None
            self._at = found.end()
            show(found.group())
        return char

    def take(self, pattern: regex.Pattern[str]) -> Steps[regex.Match[str] | None]:
        """Take what matches here. None, and nothing taken, where it cannot match; None and
        `starved` where the text ends before that is known."""
        while True:
            found = pattern.match(self._text, self._at, partial=True)
            if found is None:
                return None
            if not found.partial:
                self._at = found.end()
                return found
            if self._ended:
                self.starved = True
                return None
            yield

    def until(
        self,
        pattern: regex.Pattern[str],
        show: ShowAt,
        *,
        at_end: regex.Pattern[str] | None = None,
        mark: bool = False,
    ) -> Steps[regex.Match[str] | None]:
        """Show the text up to the first match and take the match; None at the end of the text.

        A tail that could begin a match waits. At the end it is dropped if the text was cut; else
        it is a match if `at_end` says so, and shown if not. `mark` sets the mark at the match.
        """
        while True:
            found = pattern.search(self._text, self._at, partial=True)
            self._show(len(self._text) if found is None else found.start(), show)
            if found is not None and found.partial and self._ended:
                found = None if at_end is None or self.cut else at_end.match(self._text, self._at)
                if found is None:
                    self._drop_or_show(show)
            if found is not None and not found.partial:
                self._mark = self._at if mark else self._mark
                self._at = found.end()
                return found
            if self._ended:
                return None
            yield

    def _show(self, border: int, show: ShowAt) -> None:
        if border > self._at:
            text, position = self._text[self._at : border], self.position
            self._at = border
            show(text, position)

    def _drop_or_show(self, show: ShowAt) -> None:
        """The text's end, which began like a match."""
        if self.cut:
            self._at = len(self._text)
        else:
            self._show(len(self._text), show)
