"""What one field may hold: how it is read, and the same as a schema for our own description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from headrace.http.wire.fields import (
    Fields,
    as_array,
    as_boolean,
    as_choice,
    as_count,
    as_integer,
    as_json,
    as_number,
    as_object,
    as_text,
    unsupported,
)

Reader: TypeAlias = Callable[[Any, str], Any]
Schema: TypeAlias = dict[str, Any]


@attrs.frozen
class Rule:
    """`read` takes a value and its path. Raises `RequestError`."""

    read: Reader
    schema: Schema


TEXT = Rule(as_text, {"type": "string"})
BOOLEAN = Rule(as_boolean, {"type": "boolean"})
ARRAY = Rule(as_array, {"type": "array"})
OBJECT = Rule(lambda value, path: as_json(as_object(value, path), path), {"type": "object"})


def integer(least: int | None = None, most: int | None = None) -> Rule:
    schema = {"type": "integer"} | _bounds(minimum=least, maximum=most)
    return Rule(lambda value, path: as_integer(value, path, least, most), schema)


def count(least: int = 0) -> Rule:
    """A number of tokens or the like, without a limit that a client could name."""
    schema = {"type": "integer", "minimum": least}
    return Rule(lambda value, path: as_count(value, path, least), schema)


def number(
    least: float | None = None, most: float | None = None, *, above: float | None = None
) -> Rule:
    schema = {"type": "number"} | _bounds(minimum=least, maximum=most, exclusiveMinimum=above)
    return Rule(lambda value, path: as_number(value, path, least, most, above=above), schema)


def choice(*names: str) -> Rule:
    schema = {"type": "string", "enum": list(names)}
    return Rule(lambda value, path: as_choice(value, path, names), schema)


def only(neutral: Any) -> Rule:
    """A field that is refused unless it is null or holds the one value that asks for nothing."""
    return Rule(
        lambda value, path: _refuse(value, path, neutral),
        {"const": neutral} if neutral is not None else {"type": "null"},
    )


def read_all(fields: Fields, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The fields of a table that are there, checked in its order."""
    values = {name: fields.read(name, rule.read) for name, rule in rules.items()}
    return {name: value for name, value in values.items() if value is not None}


def properties(rules: Mapping[str, Rule]) -> Schema:
    """The members of an object's schema. null stands for absent, whatever the field."""
    return {name: nullable(rule.schema) for name, rule in rules.items()}


def nullable(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if kinds == "null" or not isinstance(kinds, str) or "enum" in schema:
        null = {"type": "null"}
        return schema if schema == null else {"anyOf": [schema, null]}
    return schema | {"type": [kinds, "null"]}


def any_of(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _bounds(**limits: float | None) -> Schema:
    return {name: limit for name, limit in limits.items() if limit is not None}


def _refuse(value: Any, path: str, neutral: Any) -> Any:
    if value != neutral:
        raise unsupported(path)
    return value
