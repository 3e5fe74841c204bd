"""Which schemas can be satisfied by a value that ends.

A schema that requires itself within itself describes endless values only. A model that is held to
it writes until it is cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.actors.grammar.reading import Schema

PREFIX = "#/$defs/"


def ending(root: Schema, definitions: Mapping[str, Schema]) -> tuple[Schema, dict[str, Schema]]:
    """The same document, with false in the place of what cannot end. Both are flattened."""
    able = _able(definitions)
    kept = {name: _cut(schema, able) for name, schema in definitions.items() if name in able}
    return _cut(root, able), kept


def _able(definitions: Mapping[str, Schema]) -> set[str]:
    """The names of the definitions that can end: the least set that is closed under `_ends`."""
    able = set[str]()
    while True:
        found = {name for name, schema in definitions.items() if _ends(schema, able)}
        if found == able:
            return able
        able = found


def _ends(schema: Schema, able: set[str]) -> bool:
    """Whether there is a value that ends, given the names of definitions that can."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return schema["$ref"].removeprefix(PREFIX) in able
    if "anyOf" in schema:
        return any(_ends(part, able) for part in schema["anyOf"])
    if "enum" in schema:
        return True
    return any(_type_ends(name, schema, able) for name in schema["type"])


def _type_ends(name: str, schema: dict[str, Any], able: set[str]) -> bool:
    if name == "object":
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties", True)
        return all(_ends(properties.get(key, rest), able) for key in schema.get("required", ()))
    if name == "array":
        least, prefix = schema.get("minItems", 0), schema.get("prefixItems", ())
        needed = [*prefix[:least], *([schema.get("items", True)] if least > len(prefix) else ())]
        return all(_ends(part, able) for part in needed)
    return True


def _cut(schema: Schema, able: set[str]) -> Schema:
    if isinstance(schema, bool):
        return schema
    if not _ends(schema, able):
        return False
    out = dict(schema)
    for keyword in ("items", "additionalProperties"):
        if keyword in out:
            out[keyword] = _cut(out[keyword], able)
    for keyword in ("prefixItems", "anyOf"):
        if keyword in out:
            out[keyword] = [_cut(part, able) for part in out[keyword]]
    if "properties" in out:
        out["properties"] = {n: _cut(part, able) for n, part in out["properties"].items()}
    return out
