"""Which titles mean the same, and what their files are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.notes.titles import MOST_NAME_BYTES, cleaned, file_name, normal

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)
keys = words.map(normal).filter(bool)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mill wheels", "mill  WHEELS!"),
        ("Mill-wheels", "*Mill* wheels."),
        ("Café", "Cafe\u0301"),
        ("STRASSE", "Straße"),
        ("２ mills", "2 Mills"),
    ],
)
def test_titles_that_mean_the_same(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(("one", "other"), [("Mill", "Mills"), ("a b", "ab"), ("ä", "a")])
def test_titles_that_do_not(one: str, other: str) -> None:
    assert normal(one) != normal(other)


@given(words)
def test_what_is_normal_stays(text: str) -> None:
    assert normal(normal(text)) == normal(text)


@given(keys, st.sets(words, max_size=3))
def test_a_name_is_one_of_a_file_and_free(key: str, taken: set[str]) -> None:
    name = file_name(key, taken)
    assert name not in taken
    assert name
    assert "/" not in name
    assert not name.startswith((".", "-"))
    assert len(name.encode()) <= MOST_NAME_BYTES + 72
    assert name.isprintable()


@given(keys)
def test_a_name_that_is_taken_leads_to_another_each_time(key: str) -> None:
    first = file_name(key, ())
    second = file_name(key, {first})
    assert len({first, second, file_name(key, {first, second})}) == 3


def test_long_titles_that_begin_alike_have_names_of_their_own() -> None:
    assert file_name("x" * 200, ()) != file_name("x" * 201, ())


def test_names_of_notes() -> None:
    assert file_name("mill wheels", ()) == "mill-wheels"
    assert file_name("水車", ()) == "水車"
    assert file_name("mill wheels", {"mill-wheels"}).startswith("mill-wheels-")


@given(words, st.integers(1, 50))
def test_a_clean_line_is_one_line(text: str, most: int) -> None:
    line = cleaned(text, most)
    assert len(line) <= most
    assert line == line.strip()
    assert not set(line) & set("\n\r\x0b\x0c\x1b\x00\x85\u2028\u2029")
