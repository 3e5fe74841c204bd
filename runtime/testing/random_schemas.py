"""Random JSON schemas of the kind that programs send: objects of a few named parts, some nested.

Everything follows from the chance that is given. All of them can be satisfied.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, TypeAlias

import jsonschema

Schema: TypeAlias = dict[str, Any]

NAMES = (
    "id", "name", "kind", "size", "notes", "price", "tags", "city", "when", "score", "owner", "ok",
    "unit price", "größe", "a-b", "$ref name",
)  # fmt: skip
WORDS = ("red", "green", "blue", "n/a", "Ä", '"quoted"', "a\\b")
DEEPEST = 3


def random_schema(chance: random.Random) -> Schema:
    """A document whose root is an object."""
    root = _object(chance, depth=1)
    if chance.random() < 0.2:
        root["$defs"] = {"part": _object(chance, depth=DEEPEST)}
        root["properties"]["part"] = {"$ref": "#/$defs/part"}
        root["required"].append("part")
    return root


def _any(chance: random.Random, depth: int) -> Schema:
    leaf = depth >= DEEPEST or chance.random() < 0.65
    return chance.choice(LEAVES if leaf else INNER)(chance, depth + 1)


def _integer(chance: random.Random, depth: int) -> Schema:
    schema: Schema = {"type": "integer"}
    low = chance.randint(-100, 100)
    if chance.random() < 0.6:
        schema[chance.choice(("minimum", "exclusiveMinimum"))] = low
    if chance.random() < 0.6:
        schema["maximum"] = low + chance.randint(2, 1000)
    return schema


def _number(chance: random.Random, depth: int) -> Schema:
    low = round(chance.uniform(-10, 10), 2)
    return {"type": "number", "minimum": low, "maximum": round(low + chance.uniform(1, 50), 2)}


def _string(chance: random.Random, depth: int) -> Schema:
    return chance.choice(
        (
            {"type": "string", "maxLength": chance.randint(1, 20)},
            {"type": "string", "minLength": 2, "maxLength": 12},
            {"type": "string", "pattern": chance.choice(("^[a-z]{1,8}$", r"^\d{3}-\d{2}$", "^x"))},
            {"type": "string", "format": chance.choice(("date", "time", "date-time", "uuid"))},
        )
    )


def _choice(chance: random.Random, depth: int) -> Schema:
    mixed: list[Any] = [*chance.sample(WORDS, 3), None, True, 3, -1.5]
    return chance.choice(
        ({"enum": chance.sample(WORDS, chance.randint(1, 4))}, {"enum": mixed}, {"const": mixed[0]})
    )


def _simple(chance: random.Random, depth: int) -> Schema:
    kinds: list[Any] = ["boolean", "null", ["boolean", "null"], ["integer", "boolean"]]
    return {"type": chance.choice(kinds)}


def _object(chance: random.Random, depth: int) -> Schema:
    names = chance.sample(NAMES, chance.randint(1, 4))
    schema: Schema = {
        "type": "object",
        "properties": {name: _any(chance, depth) for name in names},
        "required": [name for name in names if chance.random() < 0.6],
    }
    if chance.random() < 0.4:
        schema["additionalProperties"] = False
    return schema


def _array(chance: random.Random, depth: int) -> Schema:
    least = chance.randint(0, 2)
    return {
        "type": "array",
        "items": _any(chance, depth),
        "minItems": least,
        "maxItems": least + chance.randint(0, 2),
    }


def _tuple(chance: random.Random, depth: int) -> Schema:
    parts = [_any(chance, depth) for _ in range(chance.randint(1, 2))]
    return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}


def _either(chance: random.Random, depth: int) -> Schema:
    return {"anyOf": [_any(chance, depth), _any(chance, depth)]}


LEAVES: tuple[Callable[[random.Random, int], Schema], ...] = (
    _integer, _number, _string, _string, _choice, _simple,
)  # fmt: skip
INNER: tuple[Callable[[random.Random, int], Schema], ...] = (_object, _array, _tuple, _either)

# ---- judging ------------------------------------------------------------------------------

_checker = jsonschema.FormatChecker(formats=[])


@_checker.checks("date", ValueError)
def _is_date(text: object) -> bool:
    return not isinstance(text, str) or date.fromisoformat(text).isoformat() == text


@_checker.checks("date-time", ValueError)
def _is_date_time(text: object) -> bool:
    return not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is not None


@_checker.checks("time", ValueError)
def _is_time(text: object) -> bool:
    return not isinstance(text, str) or _is_date_time(f"2000-01-01T{text}")


@_checker.checks("uuid", ValueError)
def _is_uuid(text: object) -> bool:
    return not isinstance(text, str) or str(uuid.UUID(text)) == text.lower()


def judge(schema: Schema) -> jsonschema.protocols.Validator:
    """A validator that shares nothing with what it judges, formats included."""
    return jsonschema.Draft202012Validator(schema, format_checker=_checker)
