"""A note's Markdown: it can be read again, and nothing in it is taken for something else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.actors.notes.note import Link, Note, Section, fence_for, marks, parse, render
from headrace.actors.notes.titles import cleaned

MARK = "0123456789abcdef0123"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    ["~~~", "~~~~text\n~~~", "\n", "# no title\n---\n", '  - {"id": "x"}', "\r\n~~~\r", "- fact"]
)
lines = texts.map(lambda text: cleaned(text, 40)).filter(bool)
fingerprints = st.text("0123456789abcdef", min_size=20, max_size=20)
sections = st.builds(
    Section,
    fingerprints,
    st.none() | fingerprints,
    lines,
    st.integers(1, 99),
    st.lists(lines, max_size=3).map(tuple),
    texts,
)
links = st.builds(Link, lines, st.from_regex(r"[a-z0-9-]{1,9}", fullmatch=True))
notes = st.builds(
    Note,
    st.just("name"),
    lines,
    st.lists(lines, max_size=3).map(tuple),
    st.lists(sections, min_size=1, max_size=3).map(tuple),
    st.lists(links, max_size=3).map(tuple),
)
WATER = Note(
    "water",
    "Water [and] *mills*",
    ("water", "mills"),
    (
        Section(MARK, None, "conversation", 1, ("A mill has a wheel.",), "user:\nHi\n~~~\n"),
        Section(MARK[::-1], MARK, "conversation", 2, (), ""),
    ),
    (Link("Wheels", "wheels"),),
)


@settings(max_examples=40)
@given(notes)
def test_what_is_rendered_is_read_again(note: Note) -> None:
    assert parse("name", render(note)) == note


@settings(max_examples=40)
@given(notes)
def test_a_note_names_its_segments_and_holds_all_their_words(note: Note) -> None:
    text = render(note)
    for section in note.sections:
        assert section.fingerprint in marks(text)
        assert section.text in text


@given(texts)
def test_no_line_of_a_text_ends_its_fence(text: str) -> None:
    assert fence_for(text) not in text


def test_as_it_looks() -> None:
    assert render(WATER) == (
        "---\n"
        "headrace: 1\n"
        'title: "Water [and] *mills*"\n'
        'topics: ["water", "mills"]\n'
        "segments:\n"
        f'  - {{"id": "{MARK}", "after": null, "source": "conversation", "part": 1}}\n'
        f'  - {{"id": "{MARK[::-1]}", "after": "{MARK}", "source": "conversation", "part": 2}}\n'
        "---\n"
        "\n"
        "# Water \\[and\\] \\*mills\\*\n"
        "\n"
        "## conversation, part 1\n"
        "\n"
        "- A mill has a wheel.\n"
        "\n"
        "~~~~text\nuser:\nHi\n~~~\n\n~~~~\n"
        "\n"
        "## conversation, part 2\n"
        "\n"
        "~~~text\n\n~~~\n"
        "\n"
        "## See also\n"
        "\n"
        "- [Wheels](<wheels.md>)\n"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\nMy own thoughts.\n",
        lambda text: text.replace("A mill", "My mill has a door, and"),
        lambda text: text.replace("# Water", "# Sea"),
        lambda text: text.replace("headrace: 1", "headrace: 2"),
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "",
        lambda text: "---\n",
        lambda text: "Just a text of mine.\n",
    ],
)
def test_a_file_that_was_changed_is_not_ours(change: object) -> None:
    assert callable(change)
    changed = change(render(WATER))
    found = parse("water", changed)
    # What a reader changes in a fact may be a fact of ours; then it is read as it stands.
    assert found is None or render(found) == changed


def test_a_note_that_was_added_to_still_names_its_segments() -> None:
    text = render(WATER) + "\nMy own thoughts.\n"
    assert parse("water", text) is None
    assert marks(text) == {MARK, MARK[::-1]}
