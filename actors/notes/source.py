"""What notes are made of: who said what, in order. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs
import msgspec

# Hex digits; 80 bits tell apart more segments than anybody will write.
FINGERPRINT_DIGITS = 20


@attrs.frozen
class Turn:
    """`speaker` is a role, or the name of a file."""

    speaker: str
    text: str


@attrs.frozen
class Source:
    """One conversation, or one text file as a single turn. `name` is one short line."""

    name: str
    turns: tuple[Turn, ...]


@attrs.frozen
class Segment:
    """A part of a source that one row reads. `part` counts from 1.

    Equal fingerprints mean equal words of equally named sources, wherever they stand. `after` is
    the fingerprint of the segment before, so that a source that grows keeps its old segments.
    """

    source: str
    part: int
    turns: tuple[Turn, ...]
    fingerprint: str
    after: str | None

    @property
    def text(self) -> str:
        """All of its words, as the model and the reader of a note see them."""
        return "\n\n".join(f"{turn.speaker}:\n{turn.text}" for turn in self.turns)


def fingerprint(name: str, turns: Sequence[Turn]) -> str:
    words = [name, *([turn.speaker, turn.text] for turn in turns)]
    return hashlib.sha256(msgspec.json.encode(words)).hexdigest()[:FINGERPRINT_DIGITS]
