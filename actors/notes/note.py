"""A note, and its Markdown. Pure.

The front matter names each segment whose words are in the note. Whatever is rendered can be read
again, and a file that has been changed by hand is known by not being what would be rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
import msgspec

from headrace.actors.notes.source import FINGERPRINT_DIGITS

SUFFIX = ".md"
FORMAT = 1
LEAST_FENCE = 3

_TILDES = re.compile(r"~{3,}")
_MARK = re.compile(rf'"id": ?"([0-9a-f]{{{FINGERPRINT_DIGITS}}})"')
_MARKDOWN = re.compile(r"([\\\[\]*_`<>&#~|!])")


@attrs.frozen
class Section:
    """What a note has of one segment: what was found in it, and all of its words."""

    fingerprint: str
    after: str | None
    source: str
    part: int
    facts: tuple[str, ...]
    text: str


@attrs.frozen
class Link:
    title: str
    name: str


@attrs.frozen
class Note:
    """`name` is its file's name without the suffix."""

    name: str
    title: str
    topics: tuple[str, ...]
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()


class _Mark(msgspec.Struct):
    """A segment's line of the front matter."""

    id: str
    after: str | None
    source: str
    part: int


def marks(text: str) -> frozenset[str]:
    """The fingerprints of the segments that a file names, whoever has changed it since."""
    return frozenset(_MARK.findall(text))


# ---- writing -----------------------------------------------------------------------------


def render(note: Note) -> str:
    return "\n".join(_lines(note)) + "\n"


def _lines(note: Note) -> Iterator[str]:
    yield "---"
    yield f"headrace: {FORMAT}"
    yield f"title: {_json(note.title)}"
    yield f"topics: {_json(note.topics)}"
    yield "segments:"
    for section in note.sections:
        mark = _Mark(section.fingerprint, section.after, section.source, section.part)
        yield f"  - {_json(mark)}"
    yield "---"
    yield ""
    yield f"# {_escaped(note.title)}"
    for section in note.sections:
        yield from _section(section)
    if note.links:
        yield ""
        yield "## See also"
        yield ""
        yield from (f"- {_link(link)}" for link in note.links)


def _section(section: Section) -> Iterator[str]:
    fence = fence_for(section.text)
    yield ""
    yield f"## {_escaped(section.source)}, part {section.part}"
    yield ""
    yield from (f"- {_escaped(fact)}" for fact in section.facts)
    if section.facts:
        yield ""
    yield f"{fence}text"
    yield section.text
    yield fence


def fence_for(text: str) -> str:
    """A line that no line of the text can be taken for."""
    longest = max((len(run) for run in _TILDES.findall(text)), default=0)
    return "~" * max(LEAST_FENCE, longest + 1)


def _link(link: Link) -> str:
    return f"[{_escaped(link.title)}](<{link.name}{SUFFIX}>)"


def _escaped(text: str) -> str:
    """As plain words, whatever a model has written."""
    return _MARKDOWN.sub(r"\\\1", text)


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _json(value: object) -> str:
    """JSON in one line, which is YAML as well."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


# ---- reading -----------------------------------------------------------------------------


def parse(name: str, text: str) -> Note | None:
    """The note of a file; None for one that we have not written just like that."""
    try:
        note = _Reader(text).note(name)
    except (ValueError, msgspec.MsgspecError):
        return None
    return note if render(note) == text else None


class _Reader:
    """The lines of a note, one after the other. Raises `ValueError` where they end too soon."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._at = 0

    def note(self, name: str) -> Note:
        self._skip(2)
        title = msgspec.json.decode(self._value("title: "), type=str)
        topics = msgspec.json.decode(self._value("topics: "), type=tuple[str, ...])
        self._skip(1)
        marks = list(self._marks())
        self._skip(3)
        sections = tuple(self._section(mark) for mark in marks)
        return Note(name, title, topics, sections, tuple(self._links()))

    def _next(self) -> str:
        if self._at >= len(self._lines):
            raise ValueError("the note ends too soon")
        line = self._lines[self._at]
        self._at += 1
        return line

    def _peek(self) -> str:
        return self._lines[self._at] if self._at < len(self._lines) else ""

    def _skip(self, count: int) -> None:
        for _ in range(count):
            self._next()

    def _value(self, key: str) -> str:
        return self._next().removeprefix(key)

    def _marks(self) -> Iterator[_Mark]:
        while self._peek().startswith("  - "):
            yield msgspec.json.decode(self._value("  - "), type=_Mark)

    def _section(self, mark: _Mark) -> Section:
        self._skip(3)
        facts = []
        while self._peek().startswith("- "):
            facts.append(_plain(self._value("- ")))
        self._skip(1 if facts else 0)
        fence = self._next().removesuffix("text")
        words = []
        while (line := self._next()) != fence:
            words.append(line)
        return Section(mark.id, mark.after, mark.source, mark.part, tuple(facts), "\n".join(words))

    def _links(self) -> Iterator[Link]:
        """What stands below the last section."""
        if self._peek() == "" and self._at + 1 < len(self._lines):
            self._skip(3)
        while self._peek().startswith("- ["):
            title, _, name = self._value("- [").rpartition("](<")
            yield Link(_plain(title), name.removesuffix(f"{SUFFIX}>)"))
