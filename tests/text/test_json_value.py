"""JSON on its way through: verbatim where it may be, repaired where it must be, final at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.text.json_value import JsonReader, read_text
from headrace.actors.text.reader import Reader
from headrace.actors.text.shape import ANY, Shape
from headrace.runtime.testing.answers import pieces

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=4)


def read(parts: list[str], shape: Shape = ANY, *, cut: bool = True) -> tuple[str, bool | None]:
    """What was emitted, and whether the value was complete; None while more could follow."""
    reader, emitted, complete = Reader(), list[str](), None
    steps = JsonReader(reader, emitted.append).value(shape)
    try:
        next(steps)
        for part in parts:
            reader.feed(part)
            next(steps)
        reader.end(cut=cut)
        next(steps)
    except StopIteration as done:
        complete = done.value
    return "".join(emitted), complete


def shape(schema: dict[str, Any]) -> Shape:
    return Shape.of({"type": "object", "properties": {"x": schema}})


@given(objects, st.sampled_from([None, 1]), st.booleans(), st.integers(1, 5))
def test_json_goes_through_verbatim(
    value: dict[str, Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    if "Infinity" not in text:
        assert read(pieces(text, size)) == (text, True)


@given(objects, st.data())
def test_a_cut_value_is_a_beginning_of_the_whole_l5(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    whole, _ = read([text])
    cut = text[: data.draw(st.integers(0, len(text)))]
    emitted, _ = read(pieces(cut, 2))
    assert whole.startswith(emitted)


@pytest.mark.parametrize(
    ("schema", "written", "read_as"),
    [
        ({"type": "integer"}, "3.0", "3"),
        ({"type": "integer"}, "3e2", "300"),
        ({"type": "integer"}, "3.5", "3.5"),
        ({"type": "integer"}, '"3"', "3"),
        ({"type": "integer"}, '"3.0"', "3"),
        ({"type": "integer"}, '"three"', '"three"'),
        ({"type": "integer"}, "1e999999999", "1e999999999"),
        ({"type": "number"}, "3.0", "3.0"),
        ({"type": "string"}, "12345", '"12345"'),
        ({"type": "string"}, "true", '"true"'),
        ({"type": "string"}, "null", "null"),
        ({"type": "string"}, '"12345"', '"12345"'),
        ({"type": ["string", "null"]}, '"null"', '"null"'),
        ({"type": "boolean"}, '"True"', "true"),
        ({"type": "boolean"}, "False", "false"),
        ({"type": "array", "items": {"type": "integer"}}, "[1.0, 2]", "[1, 2]"),
        ({"type": "array", "items": {"type": "integer"}}, '"[1.0, 2]"', "[1, 2]"),
        ({"type": "array"}, "\"['a', None]\"", '["a",null]'),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": 2.0}', '{"n": 2}'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "4.0", "4"),
        ({"enum": [1, 2]}, '"2"', "2"),
        ({"const": "2"}, "2", '"2"'),
        ({}, '"3"', '"3"'),
        ({}, "3.0", "3.0"),
        ({}, "None", "null"),
    ],
)
def test_values_are_read_by_the_schema(schema: dict[str, Any], written: str, read_as: str) -> None:
    assert read([f'{{"x": {written}}}'], shape(schema)) == (f'{{"x": {read_as}}}', True)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ('"a\nb\tc"', '"a\\nb\\tc"'),
        (r'"\d+ \u12 \q"', r'"\\d+ \\u12 \\q"'),
        (r'"\" \\ \u00e9"', r'"\" \\ \u00e9"'),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 50])
def test_strings_become_json(written: str, read_as: str, size: int) -> None:
    emitted, complete = read(pieces(f'{{"x": {written}}}', size))
    assert (emitted, complete) == (f'{{"x": {read_as}}}', True)
    json.loads(emitted)


@pytest.mark.parametrize(
    ("text", "emitted"),
    [
        ('{"a": oops, "b": 1}', '{"a": oops'),
        ("{'a': 1}", "{"),
        ('{"a": 1,}', '{"a": 1,'),
        ('{"a" 1}', '{"a" '),
        ("[1 2]", "[1 "),
        ("[" * 70 + "]" * 70, "[" * 65),
    ],
)
def test_what_is_no_json_ends_the_reading(text: str, emitted: str) -> None:
    assert read([text]) == (emitted, False)


def test_strings_flow_and_numbers_wait() -> None:
    assert read(['{"a": "some te'])[0] == '{"a": "some te'
    assert read(['{"a": 12'])[0] == '{"a": '


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, ' 3 "x"\n', ' 3 "x"\n'),
        ({"type": "string"}, "null", "null"),
        ({"type": "integer"}, " 3.0\n", 3),
        ({"type": "integer"}, "many", "many"),
        ({"type": "boolean"}, "TRUE", True),
        ({"type": "boolean"}, "3", "3"),
        ({"type": "array"}, "('a',)", "('a',)"),
        ({"type": "array"}, "['a', 1, None]", ["a", 1, None]),
        ({"type": "object"}, "{'a': True}", {"a": True}),
        ({"type": "object"}, "{1: 2, [}", "{1: 2, [}"),
        ({"type": ["integer", "string"]}, "5", 5),
        ({"type": ["integer", "string"]}, "5 pounds", "5 pounds"),
        ({}, '{"a": [1]}', {"a": [1]}),
        ({}, '"quoted"', "quoted"),
        ({}, "plain", "plain"),
        ({}, "", ""),
    ],
)
def test_plain_text_is_read_by_the_schema(schema: dict[str, Any], text: str, value: Any) -> None:
    assert json.loads(read_text(text, Shape.of(schema))) == value


@given(st.text(max_size=40), st.sampled_from(["integer", "number", "boolean", "array", "object"]))
def test_any_plain_text_becomes_json(text: str, type_: str) -> None:
    json.loads(read_text(text, Shape.of({"type": type_})))
