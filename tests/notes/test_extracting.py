"""Whatever a model says of a segment, there is a title, and nothing raises."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.notes.extracting import (
    MOST_FACTS,
    MOST_TITLE,
    MOST_TOPICS,
    SCHEMA,
    Extract,
    extract_of,
    row_for,
)
from headrace.actors.notes.source import Segment, Turn
from headrace.actors.notes.titles import normal

SEGMENT = Segment("paper.txt", 3, (Turn("paper.txt", "Water."),), "0" * 20, None)
UNREAD = Extract("paper.txt part 3", read=False)


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_answer_gives_a_title(answer: str) -> None:
    extract = extract_of(SEGMENT, answer)
    assert normal(extract.title)
    assert len(extract.title) <= MOST_TITLE


@given(
    st.fixed_dictionaries(
        {"title": st.text(), "topics": st.lists(st.text()), "facts": st.lists(st.text())}
    )
)
def test_an_answer_of_the_right_form_is_read_and_bounded(said: dict[str, object]) -> None:
    extract = extract_of(SEGMENT, json.dumps(said, ensure_ascii=False))
    assert extract.read
    assert len(extract.topics) <= MOST_TOPICS
    assert len(extract.facts) <= MOST_FACTS
    for line in (extract.title, *extract.topics, *extract.facts):
        assert "\n" not in line
        assert line.strip()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I like trains.",
        '{"title": "cut in the mid',
        '{"topics": []}',
        '{"title": 3}',
        '{"title": "x", "facts": "one"}',
        '{"title": "x", "facts": [1]}',
        "[" * 100_000,
        '{"x":' * 100_000,
        '{"title": "\\ud800"}',
    ],
)
def test_what_cannot_be_read_has_the_name_of_its_source(answer: str) -> None:
    assert extract_of(SEGMENT, answer) == UNREAD


def test_a_title_without_words_is_that_of_the_source() -> None:
    extract = extract_of(SEGMENT, '{"title": "?!", "facts": ["It is wet.", " ", "It is  wet."]}')
    assert extract == Extract("paper.txt part 3", facts=("It is wet.",))


def test_rows_are_greedy_and_held_to_the_form() -> None:
    row = row_for("Water.", "job_1-1", "m", 99)
    assert (row.sampling.temperature, row.max_tokens, row.model) == (0.0, 99, "m")
    assert row.constraint is not None
    assert row.constraint.value == SCHEMA
    jsonschema.validate({"title": "x", "topics": [], "facts": ["y"]}, SCHEMA)
