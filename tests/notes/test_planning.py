"""What was found becomes notes: alike titles become one, files of others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.actors.notes.extracting import Extract
from headrace.actors.notes.linking import COMMON_TOPIC, MOST_LINKS, linked
from headrace.actors.notes.merging import MOST_TOPICS, Found, merged
from headrace.actors.notes.note import Note, parse
from headrace.actors.notes.planning import Change, Shelf, changes
from headrace.actors.notes.segmenting import Limits, segments
from headrace.actors.notes.source import Source, Turn

EACH = Limits(300, 1)


def found(*extracts: Extract, source: str = "talk") -> list[Found]:
    """One segment for each, in order."""
    turns = tuple(Turn("user", f"{source} {number}") for number in range(len(extracts)))
    parts = segments(Source(source, turns), EACH)
    return [Found(part, extract) for part, extract in zip(parts, extracts, strict=True)]


def after(shelf: Shelf, made: Sequence[Change]) -> Shelf:
    """The folder when the changes have been written."""
    return attrs.evolve(shelf, texts={**shelf.texts, **{one.path: one.text for one in made}})


def note_of(shelf: Shelf, path: str) -> Note:
    note = parse(path.removesuffix(".md"), shelf.texts[path])
    assert note is not None
    return note


titles = st.sampled_from(["Mills", "mills!", "Wheels", "Water", "The Water", "?"])
topics = st.lists(st.sampled_from(["river", "River.", "stone", "mills"]), max_size=3).map(tuple)
facts = st.lists(st.sampled_from(["The water turns wheels.", "Stone is hard."]), max_size=2)
extracts = st.builds(Extract, titles, topics, facts.map(tuple), st.booleans())
finds = st.lists(extracts, max_size=8).map(lambda several: found(*several))


def test_titles_that_mean_the_same_are_one_note() -> None:
    notes = merged([], found(Extract("Mills"), Extract("Wheels"), Extract("MILLS!")))
    assert [(note.name, note.title, len(note.sections)) for note in notes] == [
        ("mills", "Mills", 2),
        ("wheels", "Wheels", 1),
    ]


def test_a_note_takes_in_what_comes_later() -> None:
    shelf = after(Shelf({}), changes(Shelf({}), found(Extract("Mills", ("river",)))))
    more = found(Extract("mills", ("River", "stone")), source="other talk")
    (change,) = changes(shelf, more)
    assert (change.path, change.action) == ("mills.md", "update")
    note = note_of(after(shelf, [change]), "mills.md")
    assert [section.source for section in note.sections] == ["talk", "other talk"]
    assert note.topics == ("river", "stone")


@settings(max_examples=40)
@given(finds, finds.map(lambda several: several[::-1]))
def test_the_same_again_changes_nothing(several: list[Found], again: list[Found]) -> None:
    shelf = after(Shelf({}), changes(Shelf({}), several))
    assert changes(shelf, several) == []
    # Nor does another title for what is there already.
    assert changes(shelf, [one for one in again if one.segment in _segments(several)]) == []


def _segments(several: list[Found]) -> list[object]:
    return [one.segment for one in several]


@settings(max_examples=40)
@given(finds)
def test_every_segment_is_in_exactly_one_note(several: list[Found]) -> None:
    shelf = after(Shelf({}), changes(Shelf({}), several))
    for one in several:
        holders = [text for text in shelf.texts.values() if one.segment.fingerprint in text]
        assert any(one.segment.text in text for text in holders)
    held = [
        section.fingerprint for path in shelf.texts for section in note_of(shelf, path).sections
    ]
    assert sorted(held) == sorted(one.segment.fingerprint for one in several)


@settings(max_examples=40)
@given(finds, st.data())
def test_a_run_that_was_cut_short_is_made_whole_by_the_next(
    several: list[Found], data: st.DataObject
) -> None:
    """Whatever files were written, the end is the same, byte for byte."""
    made = changes(Shelf({}), several)
    written = [change for change in made if data.draw(st.booleans())]
    partial = after(Shelf({}), written)
    left = [one for one in several if one.segment.fingerprint not in partial.known()]
    assert after(partial, changes(partial, left)) == after(Shelf({}), made)


@settings(max_examples=40)
@given(finds)
def test_links_lead_to_notes_and_never_to_themselves(several: list[Found]) -> None:
    shelf = after(Shelf({}), changes(Shelf({}), several))
    for path in shelf.texts:
        links = note_of(shelf, path).links
        assert all(f"{link.name}.md" in shelf.texts and f"{link.name}.md" != path for link in links)
        assert len(links) == len({link.name for link in links}) <= MOST_LINKS


def test_neighbours_mentions_and_topics_are_linked_in_that_order() -> None:
    several = found(
        Extract("Mills", ("river",), ("A mill needs a weir.",)),
        Extract("Wheels"),
        Extract("Stones", ("river",)),
        Extract("Weir"),
    )
    by_name = {note.name: note for note in linked(merged([], several))}
    assert [link.name for link in by_name["mills"].links] == ["wheels", "weir", "stones"]
    assert [link.name for link in by_name["wheels"].links] == ["mills", "stones"]


def test_a_topic_of_everything_links_nothing() -> None:
    alone = [
        attrs.evolve(one, segment=attrs.evolve(one.segment, after=None))
        for one in found(*(Extract(f"n {i} x", ("all",)) for i in range(COMMON_TOPIC + 1)))
    ]
    assert all(note.links == () for note in linked(merged([], alone)))


def test_a_note_has_a_bounded_number_of_topics() -> None:
    many = [Extract("Mills", (f"topic {i}", f"other {i}")) for i in range(20)]
    (note,) = merged([], found(*many))
    assert len(note.topics) == MOST_TOPICS


class TestFilesOfOthers:
    def test_are_left_alone_with_their_names(self) -> None:
        shelf = Shelf({"mills.md": "My own text.\n"}, frozenset({"wheels.md", "x.txt"}))
        made = changes(shelf, found(Extract("Mills"), Extract("Wheels"), Extract("X")))
        assert [change.action for change in made] == ["create"] * 3
        paths = {change.path for change in made}
        assert not paths & {"mills.md", "wheels.md"}
        assert "x.md" in paths

    def test_a_note_that_was_edited_stays_and_its_segments_are_not_written_again(self) -> None:
        several = found(Extract("Mills"), Extract("Wheels"))
        shelf = after(Shelf({}), changes(Shelf({}), several))
        edited = attrs.evolve(
            shelf, texts={**shelf.texts, "mills.md": shelf.texts["mills.md"] + "Mine.\n"}
        )
        made = changes(edited, several)
        # The other note had a link to it, and has none to what is no longer ours.
        assert [change.path for change in made] == ["wheels.md"]
        assert note_of(after(edited, made), "wheels.md").links == ()

    def test_names_that_differ_in_case_only_are_one_file_for_some_disks(self) -> None:
        made = changes(Shelf({"Mills.md": "Mine."}), found(Extract("mills")))
        assert made[0].path != "mills.md"
