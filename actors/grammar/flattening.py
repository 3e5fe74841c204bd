"""A schema as one that a grammar can be made of, piece by piece.

Each schema that comes out is a reference, a list of alternatives, or a plain one without either:
what `allOf` says, and what stands beside a reference or beside alternatives, is worked into them.
It never admits more than the schema that came in, and less in two ways. Where a schema describes
an object's properties and does not say what else it may have, it may have nothing else, nor may a
tuple; and where it names no type, it means the types that its assertions speak of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from headrace.actors.grammar.joining import Plain, joined, text_of
from headrace.actors.grammar.keywords import TYPE_OF
from headrace.actors.grammar.reading import NODES, Schema
from headrace.actors.grammar.refusal import refused, too_large

APPLICATORS = ("$ref", "allOf", "anyOf")
# What the alternatives of one schema may multiply to.
COMBINATIONS = 500

_TYPES: dict[type, tuple[str, ...]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("integer", "number"),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
}


class Flattener:
    """Works on what a `SchemaReader` has read; `flat` gives one document of it."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        # Names of the definitions to come, by what they are made of.
        self._names: dict[str, str] = {}
        self._pending: list[tuple[str, Schema]] = []
        self._parts = 0

    def flat(self, root: Schema) -> tuple[Schema, dict[str, Schema]]:
        """The root, and the definitions that references by name lead to. Raises `RequestError`
        (invalid_schema)."""
        flat, definitions = self._schema(root), dict[str, Schema]()
        while self._pending:
            name, schema = self._pending.pop()
            definitions[name] = self._definition(schema)
        return flat, definitions

    def _schema(self, schema: Schema) -> Schema:
        self._parts += 1
        if self._parts > 2 * NODES:
            raise too_large("too much has to be worked into one another")
        if isinstance(schema, bool):
            return schema
        if schema.keys() == {"$ref"}:
            return self._named(schema["$ref"], self._target(schema["$ref"]))
        if schema.keys() == {"anyOf"}:
            return any_of([self._schema(part) for part in schema["anyOf"]])
        if any(keyword in schema for keyword in APPLICATORS):
            # By name, as a schema may come again within what it is joined with.
            return self._named(text_of(schema), schema)
        return self._plain(schema)

    def _named(self, key: str, schema: Schema) -> Schema:
        if isinstance(schema, bool):
            return schema
        if key not in self._names:
            self._names[key] = str(len(self._names))
            self._pending.append((self._names[key], schema))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _definition(self, schema: Schema) -> Schema:
        if isinstance(schema, dict) and any(keyword in schema for keyword in APPLICATORS):
            return any_of([self._plain(part) for part in self._parted(schema, ())])
        return self._schema(schema)

    def _target(self, pointer: str) -> Schema:
        """What a chain of references leads to."""
        seen = [pointer]
        schema = self._definitions[pointer]
        while isinstance(schema, dict) and schema.keys() == {"$ref"}:
            pointer = schema["$ref"]
            if pointer in seen:
                raise refused("$ref", pointer, "leads back to itself")
            seen.append(pointer)
            schema = self._definitions[pointer]
        return schema

    def _parted(self, schema: Schema, within: tuple[str, ...]) -> list[Plain]:
        """Plain schemas of which one must hold. `within` are the references followed so far."""
        if isinstance(schema, bool):
            return [{}] if schema else []
        conjuncts = [[{k: v for k, v in schema.items() if k not in APPLICATORS}]]
        if (pointer := schema.get("$ref")) is not None:
            if pointer in within:
                raise refused("$ref", pointer, "leads back to itself")
            conjuncts.append(self._parted(self._definitions[pointer], (*within, pointer)))
        conjuncts += [self._parted(part, within) for part in schema.get("allOf", ())]
        if "anyOf" in schema:
            parts = [self._parted(part, within) for part in schema["anyOf"]]
            conjuncts.append([plain for part in parts for plain in part])
        return self._product(conjuncts, within)

    def _product(self, conjuncts: list[list[Plain]], within: tuple[str, ...]) -> list[Plain]:
        path = within[-1] if within else "#"
        found: list[Plain] = [{}]
        for alternatives in conjuncts:
            self._parts += len(found) * len(alternatives)
            if len(found) * len(alternatives) > COMBINATIONS or self._parts > 2 * NODES:
                raise too_large("too many alternatives have to be worked into one another")
            pairs = (joined(a, b, path) for a, b in product(found, alternatives))
            found = [plain for plain in pairs if plain is not None]
        return found

    def _plain(self, schema: Plain) -> Schema:
        """The schemas right below, and what this one leaves unsaid."""
        if not schema:
            return True
        out = dict(schema)
        for keyword in ("items", "additionalProperties"):
            if keyword in out:
                out[keyword] = self._schema(out[keyword])
        if "prefixItems" in out:
            out["prefixItems"] = [self._schema(part) for part in out["prefixItems"]]
        if "properties" in out:
            properties = {n: self._schema(part) for n, part in out["properties"].items()}
            out["properties"] = properties
        return _enumerated(out) if "enum" in out else _closed(_typed(out))


def any_of(parts: Iterable[Schema]) -> Schema:
    """One of these must hold."""
    found: dict[str, Schema] = {}
    for part in parts:
        inner = [part]
        if isinstance(part, dict) and part.keys() == {"anyOf"}:
            inner = part["anyOf"]
        found |= {text_of(one): one for one in inner}
    alternatives = [one for one in found.values() if one is not False]
    if True in alternatives:
        return True
    if len(alternatives) == 1:
        return alternatives[0]
    return {"anyOf": alternatives} if alternatives else False


def _enumerated(schema: Plain) -> Schema:
    """The values of the right types. What else is asserted only narrows them down."""
    types = schema.get("type")
    values = {
        text_of(value): value for value in schema["enum"] if types is None or _is_of(value, types)
    }
    rest = {keyword: given for keyword, given in schema.items() if keyword != "type"}
    return rest | {"enum": list(values.values())} if values else False


def _typed(schema: Plain) -> Plain:
    if "type" in schema:
        return schema
    return schema | {"type": sorted({TYPE_OF[keyword] for keyword in schema})}


def _is_of(value: Any, types: list[str]) -> bool:
    if isinstance(value, float):
        return "number" in types or ("integer" in types and value.is_integer())
    return not set(_TYPES[type(value)]).isdisjoint(types)


def _closed(schema: Plain) -> Schema:
    """What it does not mention is not there."""
    out = dict(schema)
    properties: dict[str, Schema] = out.get("properties", {})
    if "properties" in out and "additionalProperties" not in out:
        required = {name: True for name in out.get("required", ()) if name not in properties}
        out["properties"] = properties | required
        out["additionalProperties"] = False
    prefix = out.get("prefixItems", ())
    if prefix and "items" not in out and out.get("minItems", 0) <= len(prefix):
        out["items"] = False
    return out
