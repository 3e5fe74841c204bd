"""Whatever a row may say under a schema and then end with, satisfies the schema.

Schemas are drawn from all that is enforced and answers by random walks over the masks; the judge
is `jsonschema`, which shares nothing with what is judged.
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, event, given, reject, settings
from hypothesis import strategies as st

from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing.random_schemas import judge as validator

PATTERNS = [
    "^[a-z]{1,4}$",
    "b",
    "^x|y$",
    r"^\d{2}-\w+$",
    "^(ab?|c)*$",
    "[^\\s]",
    "^é+$",
    "^.{0,3}$",
]
FORMATS = ["date", "time", "date-time", "uuid"]
NAMES = ["a", "b", "key", "é", 'q"', "a/b", "x y", "日本"]

small = st.integers(-20, 20)
bounds = st.one_of(small, st.floats(-20, 20).map(lambda x: round(x, 3)))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    small,
    st.floats(-9, 9).map(lambda x: round(x, 2)),
    st.text(max_size=4),
)
values = st.recursive(
    scalars.filter(lambda v: not isinstance(v, str) or all(c >= " " for c in v)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    ),
    max_leaves=3,
)


def ordered(low: str, high: str, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Perhaps a lower bound, perhaps an upper one, mostly in order."""
    pairs = st.tuples(numbers, numbers).map(sorted)
    both = pairs.map(lambda pair: {low: pair[0], high: pair[1]})
    return st.one_of(
        st.just({}), numbers.map(lambda n: {low: n}), numbers.map(lambda n: {high: n}), both
    )


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda found: {k: v for part in found for k, v in part.items()})


def typed(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """The type is sometimes left to the other keywords."""
    return st.sampled_from([{"type": name}] * 4 + [{}])


numbers = st.one_of(
    merged(
        st.sampled_from([{"type": "integer"}, {"type": "number"}, {}]),
        st.one_of(
            ordered("minimum", "maximum", bounds),
            ordered("exclusiveMinimum", "exclusiveMaximum", bounds),
        ),
    ),
    st.integers(1, 9).map(lambda n: {"type": "integer", "multipleOf": n}),
)
strings = st.one_of(
    merged(typed("string"), ordered("minLength", "maxLength", st.integers(0, 5))),
    merged(typed("string"), st.sampled_from(PATTERNS).map(lambda p: {"pattern": p})),
    merged(typed("string"), st.sampled_from(FORMATS).map(lambda f: {"format": f})),
)
leaves = st.one_of(
    numbers,
    strings,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, True, {}, {"title": "x"}]),
    st.sampled_from([{"type": ["string", "null"]}, {"type": ["integer", "boolean"], "minimum": 3}]),
    st.lists(values, min_size=1, max_size=3).map(lambda found: {"enum": found}),
    values.map(lambda found: {"const": found}),
    st.sampled_from([{"$ref": "#/$defs/node"}, {"$ref": "#/definitions/pair"}]),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = draw(typed("object"))
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
    schema["properties"] = properties
    schema["required"] = draw(
        st.lists(st.sampled_from([*properties, "a"]), unique=True, max_size=3)
    )
    rest = draw(st.one_of(st.none(), st.booleans(), inner))
    return schema if rest is None else {**schema, "additionalProperties": rest}


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = draw(typed("array"))
    schema |= draw(ordered("minItems", "maxItems", st.integers(0, 3)))
    if prefix := draw(st.lists(inner, max_size=2)):
        schema["prefixItems"] = prefix
    items = draw(st.one_of(st.none(), st.booleans(), inner))
    return schema if items is None else {**schema, "items": items}


def joints(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(inner, min_size=1, max_size=3)
    pair = st.lists(objects(inner), min_size=2, max_size=2)
    beside = merged(objects(inner), pair.map(lambda found: {"anyOf": found}))
    return st.one_of(
        some.map(lambda found: {"anyOf": found}),
        some.map(lambda found: {"oneOf": found}),
        pair.map(lambda found: {"allOf": found}),
        st.lists(st.one_of(numbers, strings), min_size=2, max_size=2).map(lambda f: {"allOf": f}),
        beside,
        objects(inner).map(lambda found: {"$ref": "#/$defs/node", **found}),
    )


schemas = st.recursive(
    leaves, lambda inner: st.one_of(objects(inner), arrays(inner), joints(inner)), max_leaves=6
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A schema with two definitions; one may contain itself."""
    root = draw(schemas)
    node = draw(objects(st.one_of(leaves, st.just({"items": {"$ref": "#/$defs/node"}}))))
    pair = draw(st.one_of(leaves, objects(leaves)))
    body = root if isinstance(root, dict) else {"anyOf": [root]}
    return {**body, "$defs": {"node": node}, "definitions": {"pair": pair}}


def with_any_of(schema: Any) -> Any:
    """`oneOf` as the server reads it; two alternatives may hold at once."""
    if isinstance(schema, list):
        return [with_any_of(part) for part in schema]
    if isinstance(schema, dict):
        return {("anyOf" if k == "oneOf" else k): with_any_of(v) for k, v in schema.items()}
    return schema


def judge(document: Any) -> jsonschema.protocols.Validator:
    return validator(with_any_of(document))


def compiled(held: Any, document: dict[str, Any]) -> Any:
    """Some of these schemas contradict themselves, and some ask for what cannot be joined."""
    try:
        return held.schema(document)
    except RequestError as error:
        event(f"refused: {str(error)[:60]}")
        code = error.code
    assert code is Code.INVALID_SCHEMA
    return reject()


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(documents(), st.integers(0, 2**32))
def test_what_ends_validates_n2(held: Any, document: dict[str, Any], seed: int) -> None:
    matcher, chance = compiled(held, document), random.Random(seed)
    for _ in range(3):
        text = held.walk(matcher, chance)
        event("cut" if text is None else "ended")
        if text is not None:
            judge(document).validate(json.loads(text))


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(documents(), st.integers(0, 2**32))
def test_whitespace_comes_once_at_most_at_each_place(
    held: Any, document: dict[str, Any], seed: int
) -> None:
    text = held.walk(compiled(held, document), random.Random(seed))
    assume(text is not None)
    blanks = longest_whitespace_outside_strings(text)
    assert blanks in ("", " ") or (blanks[0] == "\n" and len(blanks) <= 33)
    assert "\n" not in blanks[1:]


def longest_whitespace_outside_strings(text: str) -> str:
    runs, within, escaped, run = [""], False, False, ""
    for char in text:
        if within:
            within = char != '"' or escaped
            escaped = char == "\\" and not escaped
        elif char.isspace():
            run += char
        else:
            within, run = char == '"', ""
        runs.append(run)
    return max(runs, key=len)


@pytest.mark.parametrize(("whitespace", "most"), [("none", 0), ("short", 33)])
def test_a_row_that_wants_nothing_but_blanks_soon_cannot_have_them(
    held: Any, whitespace: str, most: int
) -> None:
    row = held.schema({"properties": {"a": {"type": "integer"}}}, whitespace=whitespace)
    row.consume(held.tokenizer.token_to_id("{"))
    blanks = 0
    # A new line first, as no other may follow a space.
    while blank := [p for p in (b"\n", b" ") if held.pieces.table.index(p) in held.allowed(row)]:
        row.consume(held.pieces.table.index(blank[0]))
        blanks += 1
    assert blanks == most
