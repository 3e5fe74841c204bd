"""Small parts of JSON schemas, for the description of all protocols."""

from __future__ import annotations

from headrace.http.wire.rules import Schema, nullable

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
STRINGS: Schema = {"type": "array", "items": STRING}
WARNINGS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": STRING, "message": STRING, "param": TEXT_OR_NULL},
    },
}


def object_of(required: list[str], **members: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": members}


def count_of(least: int = 0, most: int | None = None) -> Schema:
    limits = {} if most is None else {"maximum": most}
    return {"type": "integer", "minimum": least, **limits}


def optional(**members: Schema) -> dict[str, Schema]:
    return {name: nullable(schema) for name, schema in members.items()}


def list_of(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items} | ({"minItems": least} if least else {})
