"""What a tool's schema says about one value, as far as reading the value needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import attrs
import msgspec

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,9})?")
# JSON's words and Python's, in any case: models write both.
WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}
# Integers written with an exponent are spelled out up to this many digits.
DIGITS = 40
PYTHON_TYPES = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


@attrs.frozen
class Shape:
    """A place in a schema; without a schema anything may stand there."""

    schema: Any = None
    # Where `$ref` starts from.
    root: Any = None
    # Types found before, by the identity of a schema within the root.
    _types: dict[int, frozenset[str]] = attrs.field(factory=dict, eq=False, repr=False)

    @classmethod
    def of(cls, schema: Any) -> Shape:
        return cls(schema, schema)

    @property
    def types(self) -> frozenset[str]:
        """JSON type names that may stand here; empty where the schema leaves it open."""
        found = self._types.get(id(self.schema))
        if found is None:
            found = frozenset(_types(self.schema, self.root, set()) or ())
            self._types[id(self.schema)] = found
        return found

    def member(self, key: str) -> Shape:
        for schema in _expand(self.schema, self.root, set()):
            properties = schema.get("properties")
            if isinstance(properties, dict) and key in properties:
                return self._at(properties[key])
        return self._below("additionalProperties")

    def item(self, index: int) -> Shape:
        for schema in _expand(self.schema, self.root, set()):
            prefix = schema.get("prefixItems")
            if isinstance(prefix, list) and index < len(prefix):
                return self._at(prefix[index])
        return self._below("items")

    def _below(self, keyword: str) -> Shape:
        for schema in _expand(self.schema, self.root, set()):
            if isinstance(schema.get(keyword), dict):
                return self._at(schema[keyword])
        return ANY

    def _at(self, schema: Any) -> Shape:
        return Shape(schema, self.root, self._types)

    def scalar(self, raw: str) -> str | None:
        """JSON for an unquoted word as this schema reads it; None if it is no JSON value."""
        types = self.types
        value = WORDS.get(raw.lower()) or (raw if NUMBER.fullmatch(raw) else None)
        if value is None or value == "null" or may_be(kind(value), types):
            return value
        if "string" in types:
            return quote(raw)
        return _as_integer(value) if "integer" in types and kind(value) == "number" else value


ANY = Shape()


def quote(text: str) -> str:
    """A JSON string."""
    return msgspec.json.encode(text).decode()


def kind(value: str) -> str:
    """The JSON type of a JSON text, by its first character; numbers by whether they are whole."""
    word = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
    return word.get(value[:1]) or ("number" if set(value) & set(".eE") else "integer")


def may_be(found: str, types: frozenset[str]) -> bool:
    """Whether a value of that kind may stand where these types may."""
    return not types or found in types or (found == "integer" and "number" in types)


def _as_integer(raw: str) -> str:
    value = Decimal(raw)
    if value.adjusted() < DIGITS and value == value.to_integral_value():
        return str(int(value))
    return raw


def _expand(schema: Any, root: Any, seen: set[int]) -> Iterator[dict[str, Any]]:
    """The schema, what it refers to, and its alternatives and parts, each once."""
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _expand(_look_up(reference, root), root, seen)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in _list(schema.get(keyword)):
            yield from _expand(part, root, seen)


def _types(schema: Any, root: Any, seen: set[int]) -> set[str] | None:
    """None where anything may stand; nothing new for a schema seen before."""
    if not isinstance(schema, dict):
        return None
    if id(schema) in seen:
        return set()
    seen.add(id(schema))
    if "type" in schema:
        named = schema["type"]
        return (
            {named} if isinstance(named, str) else {t for t in _list(named) if isinstance(t, str)}
        )
    if "const" in schema or "enum" in schema:
        return {_type_of(value) for value in [*_list(schema.get("enum")), *_const(schema)]}
    if isinstance(reference := schema.get("$ref"), str):
        return _types(_look_up(reference, root), root, seen)
    for part in _list(schema.get("allOf")):
        if found := _types(part, root, seen):
            return found
    return _union(_list(schema.get("anyOf")) or _list(schema.get("oneOf")), root, seen)


def _union(parts: list[Any], root: Any, seen: set[int]) -> set[str] | None:
    if not parts:
        return None
    found = set[str]()
    for part in parts:
        types = _types(part, root, seen)
        if types is None:
            return None
        found |= types
    return found


def _const(schema: dict[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else []


def _type_of(value: Any) -> str:
    return next((name for known, name in PYTHON_TYPES if isinstance(value, known)), "null")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _look_up(reference: str, root: Any) -> Any:
    """What a JSON pointer within the schema names; None for any other reference."""
    if not reference.startswith("#"):
        return None
    place = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = place.get(name) if isinstance(place, dict) else None
    return place
