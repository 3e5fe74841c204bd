"""A source in parts that fit a prompt. Pure.

Sizes are bytes of UTF-8, since a byte is the least that a token stands for: a part of so many bytes
never has more tokens, whatever the tokenizer and the language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from headrace.actors.notes.source import Segment, Source, Turn, fingerprint
from headrace.runtime.errors import Code, RequestError

# What a token stands for in plain text of most languages that are written with letters.
BYTES_PER_TOKEN = 4
# Of a part that is worth reading, its speaker's name included.
LEAST_BYTES = 256
# Between the name, the words and the next turn: a colon and three new lines.
TURN_BYTES = 4
# Where a turn is cut, best first.
BORDERS = ("\n\n", "\n", ". ", " ")


@attrs.frozen
class Limits:
    """Of one segment. `turns` counts parts of turns."""

    most_bytes: int
    turns: int


def limits(tokens: int, turns: int, room_tokens: int) -> Limits:
    """For segments of about so many tokens that surely fit into the room of a prompt.

    Raises `RequestError` (context_length_exceeded) where the room is too small for any.
    """
    most_bytes = min(tokens * BYTES_PER_TOKEN, room_tokens)
    if most_bytes < LEAST_BYTES:
        text = f"The model leaves {max(0, room_tokens)} tokens for a segment; {LEAST_BYTES} needed."
        raise RequestError(Code.CONTEXT_LENGTH_EXCEEDED, text, param="model")
    return Limits(most_bytes, turns)


def segments(source: Source, limits: Limits) -> tuple[Segment, ...]:
    """The source in order, every character of it in exactly one segment."""
    found: list[Segment] = []
    for part, turns in enumerate(_packed(source, limits), 1):
        after = found[-1].fingerprint if found else None
        mark = fingerprint(source.name, turns)
        found.append(Segment(source.name, part, tuple(turns), mark, after))
    return tuple(found)


def _packed(source: Source, limits: Limits) -> Iterator[Sequence[Turn]]:
    """Turns in groups, as many in each as may be."""
    group: list[Turn] = []
    size = 0
    for turn in source.turns:
        most = limits.most_bytes - _bytes(turn.speaker) - TURN_BYTES
        for text in pieces(turn.text, most):
            piece = Turn(turn.speaker, text)
            cost = _bytes(piece.speaker) + _bytes(text) + TURN_BYTES
            if group and (size + cost > limits.most_bytes or len(group) == limits.turns):
                yield group
                group, size = [], 0
            group.append(piece)
            size += cost
    if group:
        yield group


def pieces(text: str, most_bytes: int) -> Iterator[str]:
    """The text in pieces of at most so many bytes (4 or more), cut between words where that
    leaves no piece shorter than half."""
    at = 0
    while at < len(text):
        # No character is shorter than a byte.
        head = text[at : at + most_bytes].encode()[:most_bytes].decode(errors="ignore")
        if at + len(head) < len(text):
            head = head[: _border(head)]
        yield head
        at += len(head)


def _border(head: str) -> int:
    for border in BORDERS:
        end = head.rfind(border) + len(border)
        if 2 * end >= len(head) and end >= len(border):
            return end
    return len(head)


def _bytes(text: str) -> int:
    return len(text.encode())
