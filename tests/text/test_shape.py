"""What a schema says about a place in it, also where the schema goes round in circles."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.actors.text.shape import ANY, Shape

PERSON: dict[str, Any] = {
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"age": {"type": "integer"}, "friend": {"$ref": "#/$defs/person"}},
        },
        "a/b": {"type": "boolean"},
    },
    "type": "object",
    "properties": {
        "who": {"$ref": "#/$defs/person"},
        "odd": {"$ref": "#/$defs/a~1b"},
        "either": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/person"}]},
        "both": {"allOf": [{"description": "d"}, {"$ref": "#/$defs/person"}]},
        "row": {"prefixItems": [{"type": "string"}], "items": {"type": "number"}},
        "map": {"additionalProperties": {"type": "integer"}},
        "lost": {"$ref": "#/$defs/nobody"},
        "far": {"$ref": "https://example.com/schema"},
        "loop": {"$ref": "#/properties/loop"},
        "open": {"anyOf": [{"type": "string"}, {}]},
        "enum": {"enum": ["a", 1, None, True, 1.5]},
    },
}


@pytest.mark.parametrize(
    ("path", "types"),
    [
        (["who"], {"object"}),
        (["who", "friend", "friend", "age"], {"integer"}),
        (["odd"], {"boolean"}),
        (["either"], {"null", "object"}),
        (["either", "age"], {"integer"}),
        (["both"], {"object"}),
        (["both", "age"], {"integer"}),
        (["row", 0], {"string"}),
        (["row", 1], {"number"}),
        (["map", "any"], {"integer"}),
        (["lost"], set()),
        (["far"], set()),
        (["loop"], set()),
        (["open"], set()),
        (["enum"], {"string", "integer", "null", "boolean", "number"}),
        (["unknown", "deeper"], set()),
    ],
)
def test_types(path: list[str | int], types: set[str]) -> None:
    shape = Shape.of(PERSON)
    for step in path:
        shape = shape.member(step) if isinstance(step, str) else shape.item(step)
    assert shape.types == types


def test_alternatives_of_alternatives_are_looked_at_once() -> None:
    """Followed blindly these would be twenty to the power of twenty places."""
    each = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 20} for n in range(20)}
    shape = Shape.of({"$defs": {**each, "d20": {"type": "integer"}}, "$ref": "#/$defs/d0"})
    assert shape.types == {"integer"}
    assert shape.member("x") == ANY


@pytest.mark.parametrize("schema", [None, True, [], {"type": 3}, {"properties": []}, {"anyOf": {}}])
def test_what_is_no_schema_says_nothing(schema: Any) -> None:
    shape = Shape.of(schema)
    assert (shape.types, shape.member("x"), shape.item(0)) == (frozenset(), ANY, ANY)
