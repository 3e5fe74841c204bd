"""Every keyword of the wire contract is enforced, and every other one is refused by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.actors.grammar.schema import checked, checked_parameters
from headrace.runtime.errors import Code, RequestError

NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}}
CLOSED = {"additionalProperties": False}
BASE = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}

# Schema, what satisfies it, what does not.
ENFORCED: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "type integer": ({"type": "integer"}, [0, -7, 10**20], [1.5, "1", True, None]),
    "type number": ({"type": "number"}, [0, -1.5, 1e300], ["1", None]),
    "type boolean": ({"type": "boolean"}, [True, False], [0, "true"]),
    "type null": ({"type": "null"}, [None], [0, "null"]),
    "type string": ({"type": "string"}, ["", 'a"\\\n<>', "日本 👩‍👩‍👧"], [1, None]),
    "type array": ({"type": "array"}, [[], [1, "a", {}]], [{}, "[]"]),
    "type object": ({"type": "object"}, [{}, {"a": {"b": []}}], [[], "{}"]),
    "type list": ({"type": ["string", "null"]}, ["a", None], [1, []]),
    "properties": (
        {"properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        [{}, {"a": 1}, {"a": 1, "b": "x"}, {"b": 1}],
        [{"a": "x"}, 3],
    ),
    "no other properties": ({"properties": {"a": {}}}, [{}, {"a": 1}], [{"b": 1}]),
    "required": (
        {"type": "object", "required": ["a"]},
        [{"a": 1}, {"a": 1, "b": 2}],
        [{}, {"b": 1}],
    ),
    "required, unnamed": ({"properties": {"a": {}}, "required": ["b"]}, [{"b": 1}], [{"a": 1}, {}]),
    "additionalProperties": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [{}, {"x": 1}],
        [{"x": "1"}],
    ),
    "additionalProperties false": (
        {"properties": {"a": {"type": "integer"}}, "additionalProperties": False},
        [{}, {"a": 1}],
        [{"a": 1, "b": 2}],
    ),
    "items": ({"items": {"type": "integer"}}, [[], [1, 2]], [["a"], {}]),
    "items list": ({"items": [{"type": "integer"}], "additionalItems": False}, [[], [1]], [[1, 2]]),
    "prefixItems": (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        [[], [1], [1, "a"]],
        [["a"], [1, "a", 2]],
    ),
    "prefixItems and items": (
        {"prefixItems": [{"type": "integer"}], "items": {"type": "null"}},
        [[1], [1, None, None]],
        [[None], [1, 2]],
    ),
    "minItems": ({"items": {"type": "integer"}, "minItems": 2}, [[1, 2], [1, 2, 3]], [[], [1]]),
    "maxItems": ({"items": {"type": "integer"}, "maxItems": 2}, [[], [1, 2]], [[1, 2, 3]]),
    "enum": (
        {"enum": ["a", 1, None, True, {"k": [2]}]},
        ["a", 1, None, True, {"k": [2]}],
        ["b", 2],
    ),
    "enum, typed": ({"type": "string", "enum": ["a", 1]}, ["a"], [1]),
    "const": ({"const": {"a": [1, "x"]}}, [{"a": [1, "x"]}], [{"a": [1]}, 1]),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"const": "x"}]}, [1, "x"], ["y", None]),
    "oneOf": ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, [1, 7], ["x"]),
    "anyOf beside properties": (
        {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
        [{}],
    ),
    "allOf": (
        {"allOf": [BASE, {"properties": {"n": {"type": "string"}}, "required": ["n"]}]},
        [{"id": 1, "n": "x"}],
        [{"id": 1}, {"n": "x"}, {"id": "1", "n": "x"}, {"id": 1, "n": "x", "z": 1}],
    ),
    "allOf of one property": (
        {"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"maximum": 5}}}]},
        [{"a": 4}],
        [{"a": 2}, {"a": 6}],
    ),
    "allOf against additionalProperties": (
        {"allOf": [{**CLOSED, "properties": {"a": {}}}, {"properties": {"b": {}}}]},
        [{}, {"a": 1}],
        [{"b": 1}],
    ),
    "$ref into $defs": (
        {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "integer"}}},
        [{"a": 1}],
        [{"a": "1"}],
    ),
    "$ref into definitions": (
        {"$ref": "#/definitions/x~1y", "definitions": {"x/y": {"type": "null"}}},
        [None],
        [1],
    ),
    "$ref with siblings": (
        {"$ref": "#/$defs/x", "maximum": 3, "$defs": {"x": {"type": "integer", "minimum": 1}}},
        [1, 3],
        [0, 4],
    ),
    "$ref to itself": (
        NODE,
        [{}, {"v": 1, "next": {"v": 2, "next": {}}}],
        [{"next": {"next": {"v": "x"}}}, {"next": 1}],
    ),
    "minLength": ({"minLength": 2}, ["ab", "é日", "👩‍👩‍👧"], ["", "a"]),
    "maxLength": ({"maxLength": 2}, ["", "é日", "\n\t"], ["abc"]),
    "pattern": ({"pattern": "^a+$"}, ["a", "aaa"], ["", "ab"]),
    "pattern, anywhere": ({"pattern": "[0-9]b"}, ["x1by"], ["xb"]),
    "patterns": ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, ["ab", "b-a"], ["a", "b"]),
    "minimum": ({"type": "integer", "minimum": -2}, [-2, 5], [-3]),
    "maximum": ({"type": "number", "maximum": 2.5}, [2.5, -9], [2.6]),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 2}, [3], [2]),
    "exclusiveMaximum": ({"type": "number", "exclusiveMaximum": 2}, [1.9], [2]),
    "int64": (
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        [0, -(10**18), 10**18],
        [10**19, -(10**19)],
    ),
    "multipleOf": ({"type": "integer", "multipleOf": 7}, [0, -14, 21], [1, 8]),
    "date": ({"format": "date"}, ["2026-11-29", "2024-02-29"], ["2026-02-29", "2026-13-01", "x"]),
    "time": ({"format": "time"}, ["10:00:00Z", "23:59:59.5+02:00"], ["24:00:00Z", "10:00:00"]),
    "date-time": (
        {"format": "date-time"},
        ["2026-11-29T10:00:00Z", "2026-11-29T10:00:00.123-01:30"],
        ["2026-11-29 10:00:00Z", "2026-11-29"],
    ),
    "uuid": (
        {"format": "uuid"},
        ["3f2504e0-4f89-11d3-9a0c-0305e82c3301"],
        ["3f2504e0", "3f2504e04f8911d39a0c0305e82c3301"],
    ),
    "annotations": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "x",
            "$comment": "x",
            "title": "x",
            "description": "x",
            "default": {"not": 1},
            "examples": [1],
            "deprecated": True,
            "x-order": 3,
            "type": "null",
        },
        [None],
        [1],
    ),
    "true": (True, [None, {"a": [1]}], []),
}


@pytest.mark.parametrize("case", ENFORCED.values(), ids=ENFORCED.keys())
def test_a_keyword_is_enforced(held: Any, case: tuple[Any, list[Any], list[Any]]) -> None:
    schema, good, bad = case
    matcher = held.schema(schema)
    for value in good:
        assert held.accepts(matcher, json.dumps(value, ensure_ascii=False)), value
    for value in bad:
        assert not held.accepts(matcher, json.dumps(value, ensure_ascii=False)), value


@pytest.mark.parametrize("layout", [None, 1, 2, 4, "\t"])
def test_usual_layouts_are_allowed_and_no_others(held: Any, layout: Any) -> None:
    matcher = held.schema({"properties": {"a": {"items": {"type": "integer"}}, "b": {}}})
    text = json.dumps({"a": [1, 2], "b": None}, indent=layout)
    assert held.accepts(matcher, text)
    assert held.accepts(matcher, text.replace(": ", ":"))
    assert not held.accepts(matcher, text.replace(": ", ":  "))
    assert not held.accepts(matcher, text.replace("[", "[\n\n", 1))
    assert not held.accepts(matcher, " " + text)
    assert not held.accepts(matcher, text + "\n")


REFUSED: dict[str, dict[str, Any]] = {
    "not": {"not": {}},
    "if": {"if": {}, "then": {}},
    "uniqueItems": {"uniqueItems": True},
    "contains": {"contains": {}},
    "propertyNames": {"propertyNames": {}},
    "patternProperties": {"patternProperties": {"^a": {}}},
    "minProperties": {"minProperties": 1},
    "dependentRequired": {"dependentRequired": {"a": ["b"]}},
    "unevaluatedProperties": {"unevaluatedProperties": False},
    "$dynamicRef": {"$dynamicRef": "#a"},
    "nullable": {"nullable": True},
    "format": {"format": "hostile"},
    "pattern": {"pattern": "^(?!a)b"},
    "requird": {"requird": ["a"]},
}


@pytest.mark.parametrize("keyword", REFUSED)
def test_what_is_not_enforced_is_refused_by_name_and_place_i5(keyword: str) -> None:
    schema = {"properties": {"a/b": {"items": REFUSED[keyword]}}}
    with pytest.raises(RequestError) as caught:
        checked(schema)
    error = caught.value.info
    assert error.code is Code.INVALID_SCHEMA
    assert error.details == {"keyword": keyword, "path": "#/properties/a~1b/items"}
    assert f'"{keyword}" at #/properties/a~1b/items' in error.message


@pytest.mark.parametrize("keyword", REFUSED)
def test_a_tool_that_is_not_strict_goes_without_it(held: Any, keyword: str) -> None:
    schema = {"properties": {"a": {"type": "string", **REFUSED[keyword]}}}
    found = checked_parameters(schema, strict=False)
    assert keyword in {left.keyword for left in found.unenforced}
    assert {left.path for left in found.unenforced} == {"#/properties/a"}
    assert held.accepts(held.schema(found.schema), '{"a": "x"}')
    with pytest.raises(RequestError):
        checked_parameters(schema, strict=True)


BROKEN: dict[str, tuple[Any, str]] = {
    "an unknown type": ({"type": "objct"}, "type"),
    "a type that is none": ({"type": 3}, "type"),
    "properties in a list": ({"properties": []}, "properties"),
    "a property that is no schema": ({"properties": {"a": 1}}, "properties"),
    "required as a flag": ({"required": True}, "required"),
    "an empty enum": ({"enum": []}, "enum"),
    "an empty anyOf": ({"anyOf": []}, "anyOf"),
    "a negative length": ({"minLength": -1}, "minLength"),
    "a bound in a string": ({"minimum": "3"}, "minimum"),
    "a bound as a flag, as once": ({"minimum": 3, "exclusiveMinimum": True}, "exclusiveMinimum"),
    "a step of nothing": ({"multipleOf": 0}, "multipleOf"),
    "a reference to nothing": ({"$ref": "#/$defs/no"}, "$ref"),
    "a reference to no schema": ({"$ref": "#/title", "title": "x"}, "$ref"),
    "a reference elsewhere": ({"$ref": "https://example.com/x"}, "$ref"),
    "a reference to itself": ({"$ref": "#"}, "$ref"),
    "two that refer to each other": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "$ref",
    ),
    "a pattern that is none": ({"pattern": "(a"}, "pattern"),
    "a string that JSON text cannot hold plainly": ({"enum": ["a\u0001"]}, "enum"),
    "another such string": ({"const": {"k": ["\x7f"]}}, "const"),
    "a number of too many digits": ({"const": 9007199254740993}, "const"),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("lenient", [False, True])
def test_what_is_no_schema_is_refused_in_any_case(case: tuple[Any, str], lenient: bool) -> None:
    schema, keyword = case
    with pytest.raises(RequestError) as caught:
        checked(schema, lenient=lenient)
    error = caught.value.info
    assert (error.code, (error.details or {})["keyword"]) == (Code.INVALID_SCHEMA, keyword)


@pytest.mark.parametrize("document", ["x", 3, None, [], {"title": "\ud800"}])
def test_a_document_of_another_kind_is_refused(document: Any) -> None:
    with pytest.raises(RequestError) as caught:
        checked(document)
    assert caught.value.code is Code.INVALID_SCHEMA


ENDLESS = [
    {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    {"items": {"$ref": "#"}, "minItems": 1},
    {"anyOf": [{"prefixItems": [{"$ref": "#"}], "minItems": 1}, False]},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    False,
]


@pytest.mark.parametrize("schema", ENDLESS)
def test_a_schema_that_no_value_ever_satisfies_is_refused(held: Any, schema: Any) -> None:
    with pytest.raises(RequestError) as caught:
        held.schema(schema)
    assert caught.value.code is Code.INVALID_SCHEMA


def test_a_property_that_could_not_end_is_left_out(held: Any) -> None:
    endless = {"properties": {"a": {"$ref": "#/$defs/e"}}, "required": ["a"]}
    matcher = held.schema({"properties": {"x": {"$ref": "#/$defs/e"}}, "$defs": {"e": endless}})
    assert held.accepts(matcher, "{}")
    assert not held.accepts(matcher, '{"x')


UNUSABLE = {
    "a bound beyond counting": ({"type": "number", "minimum": 1e300}, "#/properties/a/items"),
    "bounds out of order": (
        {"type": "integer", "minimum": 5, "maximum": 4},
        "#/properties/a/items",
    ),
    "an anchor in the middle": ({"pattern": "a^b"}, "#/properties/a/items"),
}


@pytest.mark.parametrize("case", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_turns_out_not_to_compile_is_named_by_its_place(
    held: Any, case: tuple[Any, str]
) -> None:
    part, path = case
    with pytest.raises(RequestError) as caught:
        held.schema({"properties": {"a": {"items": part, "minItems": 1}}, "required": ["a"]})
    error = caught.value.info
    assert (error.code, error.param, error.details) == (
        Code.INVALID_SCHEMA,
        "schema",
        {"path": path},
    )
    assert path in error.message
