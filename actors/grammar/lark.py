"""Writing Lark grammars in llguidance's dialect, rule by rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import msgspec

# The token of a text, if the vocabulary has it as one that never stands for text.
Special: TypeAlias = Callable[[str], int | None]

# What may be the name of a token in a text: `<tag>`, `[TAG]`.
_TAG = re.compile(r"(<[^<>\s]{1,64}>|\[/?[A-Z_]{1,64}\])")

ANYTHING = "/(?s:.*)/"
LINE_BREAKS = '("\\n" | "\\n\\n")?'


@attrs.frozen
class Matched:
    """What a regular expression matches, where the text is up to the model."""

    pattern: str


Piece: TypeAlias = str | Matched


def quoted(text: str) -> str:
    """A string of the grammar; it knows JSON's escapes, and no raw DEL."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def slashed(pattern: str) -> str:
    """A regular expression of the grammar, which slashes stand around."""
    if not pattern:
        return quoted("")
    named = {"/": "\\/", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    out, escaped = list[str](), False
    for char in pattern:
        written = named.get(char, char)
        # A backslash before it is part of what is written for it.
        out.append(written[1:] if escaped and len(written) > 1 else written)
        escaped = char == "\\" and not escaped
    return f"/{''.join(out)}/"


def either(parts: Sequence[str]) -> str:
    return f"({' | '.join(parts)})" if len(parts) > 1 else parts[0]


class Rules:
    """The rules of one grammar. What a method returns stands for its text in other rules."""

    def __init__(self, special: Special) -> None:
        self._special = special
        # Names by head and body; a terminal's name is written in capitals.
        self._names: dict[tuple[str, str], str] = {}

    def add(self, body: str, *, options: str = "") -> str:
        """A rule of its own; the same rule again has the same name."""
        return self._names.setdefault((options, body), f"r{len(self._names)}")

    def terminal(self, body: str) -> str:
        """The same for what is matched as a whole, not made of parts."""
        return self._names.setdefault(("", body), f"T{len(self._names)}")

    def json(self, document: str) -> str:
        """A JSON text of a schema."""
        return self.add(f"%json {document}")

    def literal(self, pieces: Sequence[Piece]) -> str:
        """These one after another; a piece that is a special token is written as that token."""
        out, plain = list[str](), ""
        for piece in pieces:
            special = self._one_token(piece)
            if special is None and isinstance(piece, str):
                plain += piece
                continue
            out += [quoted(plain)] if plain else []
            out.append(special or slashed(piece.pattern))  # type: ignore[union-attr]
            plain = ""
        return " ".join([*out, *([quoted(plain)] if plain else [])])

    def written(self, text: str) -> str:
        """A text in which any tag may be a special token."""
        return self.literal([piece for piece in _TAG.split(text) if piece])

    def until(self, mark: str) -> str:
        """Any text, and the mark that ends it, which is not within it."""
        special = self._one_token(mark)
        if special is not None:
            return self.add(f"{self.without(mark)} {special}")
        return self.add(f"{ANYTHING} {quoted(mark)}", options="[lazy]")

    def without(self, mark: str) -> str:
        """Any text but the mark's. A special token's name spelled out reads like the token."""
        if self._one_token(mark) is None:
            return self.add(ANYTHING)
        named = slashed(f"(?s:.*){re.escape(mark)}(?s:.*)")
        return self.terminal(f"{ANYTHING} & ~{named}")

    def text(self, start: str) -> str:
        """The grammar that begins with this."""
        rules = [f"{name}{options}: {body}" for (options, body), name in self._names.items()]
        return "\n".join([f"start: {start}", *rules]) + "\n"

    def _one_token(self, piece: Piece) -> str | None:
        token = self._special(piece) if isinstance(piece, str) else None
        return None if token is None else f"<[{token}]>"
