"""What was found in segments, put into the notes that there are. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import attrs

from headrace.actors.notes.extracting import Extract
from headrace.actors.notes.note import Note, Section
from headrace.actors.notes.source import Segment
from headrace.actors.notes.titles import file_name, normal

# Of a note that many segments have gone into.
MOST_TOPICS = 12


@attrs.frozen
class Found:
    segment: Segment
    extract: Extract

    def section(self) -> Section:
        segment = self.segment
        return Section(
            segment.fingerprint,
            segment.after,
            segment.source,
            segment.part,
            self.extract.facts,
            segment.text,
        )


def merged(
    notes: Iterable[Note], found: Sequence[Found], taken: Collection[str] = ()
) -> list[Note]:
    """The notes with all that was found, by their names; titles that mean the same are one note.

    A segment that is in a note already changes nothing. `taken` are names that no note may have.
    """
    by_key: dict[str, Note] = {}
    others: list[Note] = []
    for note in sorted(notes, key=lambda note: note.name):
        if by_key.setdefault(normal(note.title), note) is not note:
            others.append(note)
    kept = {
        section.fingerprint for note in (*by_key.values(), *others) for section in note.sections
    }
    names = {*taken, *(note.name for note in (*by_key.values(), *others))}
    for one in found:
        if one.segment.fingerprint in kept:
            continue
        kept.add(one.segment.fingerprint)
        key = normal(one.extract.title)
        if key not in by_key:
            by_key[key] = Note(file_name(key, names), one.extract.title, (), ())
            names.add(by_key[key].name)
        by_key[key] = _with(by_key[key], one)
    return sorted((*by_key.values(), *others), key=lambda note: note.name)


def _with(note: Note, one: Found) -> Note:
    topics: dict[str, str] = {}
    for topic in (*note.topics, *one.extract.topics):
        topics.setdefault(normal(topic), topic)
    kept = tuple(topics.values())[:MOST_TOPICS]
    return attrs.evolve(note, topics=kept, sections=(*note.sections, one.section()))
