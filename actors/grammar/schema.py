"""From a client's schema to the document that a grammar is compiled from."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from headrace.actors.grammar.completing import ending
from headrace.actors.grammar.flattening import Flattener
from headrace.actors.grammar.reading import (
    Schema,
    SchemaReader,
    Unenforced,
    walk,
)
from headrace.actors.grammar.refusal import too_large
from headrace.runtime.constraints import Suspect, Whitespace
from headrace.runtime.errors import Code, RequestError

# The library compiles a definition inside the one that refers to it first, on the thread's stack.
# This is a quarter of what a stack of 8 MiB was seen to bear.
NESTED = 500

_SPACE = r"\x20|\n(?:\x20{0,32}|\t{0,16})"
_SETTINGS: dict[Whitespace, dict[str, Any]] = {
    "none": {"whitespace_flexible": False},
    "short": {"whitespace_flexible": False, "whitespace_pattern": _SPACE},
}
# Without `\u` a string can be written in one way only, and is always Unicode.
_ESCAPES = {"json_allowed_escapes": 'nrbtf\\"'}


@attrs.frozen
class CheckedSchema:
    """A schema that is enforced as it stands here: `schema` with its `definitions`.

    `unenforced` is what was left out of it, `parts` are schemas of its own with the places where
    they come from, for an error that would otherwise name none.
    """

    schema: Schema
    definitions: dict[str, Schema] = attrs.field(factory=dict)
    unenforced: tuple[Unenforced, ...] = ()
    parts: tuple[tuple[str, Schema], ...] = ()

    def document(self, whitespace: Whitespace, schema: Schema | None = None) -> str:
        """The JSON text of the whole, or of a schema within it."""
        root = self.schema if schema is None else schema
        written = _written(root)
        body = written if isinstance(written, dict) else {} if written else {"enum": []}
        if self.definitions and _refers(root):
            defs = {name: _written(part) for name, part in self.definitions.items()}
            body = body | {"$defs": defs}
        settings = _SETTINGS[whitespace] | _ESCAPES
        return msgspec.json.encode({"x-guidance": settings} | body).decode()

    def suspects(self, param: str | None) -> tuple[Suspect, ...]:
        """The parts as grammars, in the order of the schema."""
        return tuple(
            Suspect(
                json_grammar(CheckedSchema(part).document("none")),
                Code.INVALID_SCHEMA,
                param,
                path,
            )
            for path, part in self.parts
        )


def checked(document: Any, *, lenient: bool = False) -> CheckedSchema:
    """Check a schema by wire contract 3.5. Raises `RequestError` (invalid_schema).

    `lenient` leaves out the assertions that are not enforced instead of refusing them. What is no
    schema at all is refused in any case.
    """
    reader = SchemaReader(document, lenient=lenient)
    root = reader.read()
    _check_nesting([root, *reader.definitions.values()])
    flat, definitions = Flattener(reader.definitions).flat(root)
    flat, definitions = ending(flat, definitions)
    _check_nesting([flat, *definitions.values()])
    if flat is False:
        reason = "The schema is refused: no value that ever ends can satisfy it."
        raise RequestError(Code.INVALID_SCHEMA, reason)
    parts = tuple((path, Flattener({}).flat(part)[0]) for path, part in reader.suspects)
    return CheckedSchema(flat, definitions, tuple(reader.unenforced), parts)


def checked_parameters(parameters: Any, *, strict: bool) -> CheckedSchema:
    """The same for a tool's arguments, which are always an object (wire contract 3.6)."""
    if parameters is None:
        parameters = {"properties": {}}
    if not isinstance(parameters, dict):
        raise RequestError(Code.INVALID_SCHEMA, "The parameters of a tool are a schema object.")
    if parameters.get("type", "object") != "object":
        reason = "The parameters of a tool are a schema of the type object."
        raise RequestError(Code.INVALID_SCHEMA, reason)
    return checked({"type": "object"} | parameters, lenient=not strict)


def json_grammar(document: str) -> str:
    """The grammar of one JSON text, as `Grammar.text` has it."""
    return f'{{"grammars":[{{"json_schema":{document}}}]}}'


def _check_nesting(schemas: list[Schema]) -> None:
    if sum(map(_depth, schemas)) > NESTED:
        raise too_large(f"its definitions, within one another, are more than {NESTED} deep")


def _depth(schema: Schema) -> int:
    return 1 + max(map(_depth, walk(schema)), default=0)


def _refers(schema: Schema) -> bool:
    if isinstance(schema, bool):
        return False
    return "$ref" in schema or any(map(_refers, walk(schema)))


def _written(schema: Schema) -> Any:
    """The same in the keywords of JSON Schema: several patterns need an allOf."""
    if isinstance(schema, bool):
        return schema
    out = dict(schema)
    for keyword in ("items", "additionalProperties"):
        if keyword in out:
            out[keyword] = _written(out[keyword])
    for keyword in ("prefixItems", "anyOf"):
        if keyword in out:
            out[keyword] = [_written(part) for part in out[keyword]]
    if "properties" in out:
        out["properties"] = {name: _written(part) for name, part in out["properties"].items()}
    first, *others = out.pop("patterns", None) or [None]
    if first is not None:
        out["pattern"] = first
    if others:
        types = {"type": out["type"]} if "type" in out else {}
        out["allOf"] = [types | {"pattern": pattern} for pattern in others]
    return out
