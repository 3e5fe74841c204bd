"""Which notes point to which. Pure: the links of all notes follow from what is in them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from headrace.actors.notes.note import Link, Note
from headrace.actors.notes.titles import normal

MOST_LINKS = 12
# A topic that so many notes share tells none of them from the others.
COMMON_TOPIC = 50
# What stands next to each other in a source belongs together more than what shares a topic.
NEXT_WEIGHT, MENTION_WEIGHT, TOPIC_WEIGHT = 3, 2, 1
# Shorter titles stand in too many sentences by chance; longer ones are not looked for.
LEAST_MENTION_CHARACTERS, MOST_MENTION_WORDS = 4, 6

Weights = Mapping[str, Counter[str]]


def linked(notes: Sequence[Note]) -> list[Note]:
    """The notes with their links, the strongest first."""
    titles = {note.name: note.title for note in notes}
    weights = _weights(notes)
    return [attrs.evolve(note, links=tuple(_links(weights[note.name], titles))) for note in notes]


def _links(weights: Counter[str], titles: Mapping[str, str]) -> Iterator[Link]:
    strongest = sorted(weights, key=lambda name: (-weights[name], name))
    for name in strongest[:MOST_LINKS]:
        yield Link(titles[name], name)


def _weights(notes: Sequence[Note]) -> Weights:
    weights: dict[str, Counter[str]] = defaultdict(Counter)
    for weight, pairs in (
        (NEXT_WEIGHT, _neighbours(notes)),
        (MENTION_WEIGHT, _mentions(notes)),
        (TOPIC_WEIGHT, _topics(notes)),
    ):
        for one, other in pairs:
            if one != other:
                weights[one][other] += weight
                weights[other][one] += weight
    return weights


_Pairs = Iterator[tuple[str, str]]


def _neighbours(notes: Sequence[Note]) -> _Pairs:
    """Notes that hold one segment and the next."""
    holder = {section.fingerprint: note.name for note in notes for section in note.sections}
    for note in notes:
        for section in note.sections:
            if section.after in holder:
                yield note.name, holder[section.after]


def _mentions(notes: Sequence[Note]) -> _Pairs:
    """Notes of which one has the other's title in its facts."""
    by_title = {
        key: note.name
        for note in notes
        if len(key := normal(note.title)) >= LEAST_MENTION_CHARACTERS
    }
    for note in notes:
        for section in note.sections:
            for phrase in _phrases(section.facts):
                if phrase in by_title:
                    yield note.name, by_title[phrase]


def _phrases(facts: Collection[str]) -> Iterator[str]:
    for fact in facts:
        words = normal(fact).split()
        for length in range(1, MOST_MENTION_WORDS + 1):
            for at in range(len(words) - length + 1):
                yield " ".join(words[at : at + length])


def _topics(notes: Sequence[Note]) -> _Pairs:
    """Notes that share a topic, once for each that they share."""
    sharing: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        for topic in dict.fromkeys(map(normal, note.topics)):
            sharing[topic].append(note.name)
    for names in sharing.values():
        if len(names) <= COMMON_TOPIC:
            yield from itertools.combinations(names, 2)
