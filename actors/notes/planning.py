"""What is to be written to a folder of notes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from headrace.actors.notes.linking import linked
from headrace.actors.notes.merging import Found, merged
from headrace.actors.notes.note import SUFFIX, marks, parse, render

Action: TypeAlias = Literal["create", "update"]


@attrs.frozen
class Change:
    """A file that is to be written. `path` is its name in the folder."""

    path: str
    action: Action
    text: str


@attrs.frozen
class Shelf:
    """The Markdown files of a folder by name, and the names that other things have there.

    Files without a text are too large, or no text.
    """

    texts: Mapping[str, str]
    others: frozenset[str] = frozenset()

    def known(self) -> frozenset[str]:
        """Fingerprints of the segments that some file has, also one that was changed by hand."""
        return frozenset().union(*map(marks, self.texts.values()))


def changes(shelf: Shelf, found: Sequence[Found]) -> list[Change]:
    """The files that differ from what the notes are now, by name.

    Files that somebody else has written or changed are left alone, and their names with them.
    """
    read = {path: parse(path.removesuffix(SUFFIX), text) for path, text in shelf.texts.items()}
    foreign = {path for path, note in read.items() if note is None} | shelf.others
    taken = {path.casefold().removesuffix(SUFFIX) for path in foreign}
    known = shelf.known()
    new = [one for one in found if one.segment.fingerprint not in known]
    notes = linked(merged([note for note in read.values() if note is not None], new, taken))
    rendered = {f"{note.name}{SUFFIX}": render(note) for note in notes}
    return [
        Change(path, "update" if path in shelf.texts else "create", text)
        for path, text in rendered.items()
        if shelf.texts.get(path) != text
    ]
