"""A client's schema, checked keyword by keyword and brought into few forms.

What comes out is a schema of the same meaning with fewer keywords: no annotations, `const` as
`enum`, `oneOf` as `anyOf`, types as lists, bounds as numbers that a float holds exactly. Patterns
are a list under `patterns`, as parts that are joined may each bring one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote

import attrs
import msgspec

from headrace.actors.grammar.exact import DEPTH, count, inward, value_of
from headrace.actors.grammar.keywords import (
    ANNOTATIONS,
    BOUNDS,
    COUNTS,
    ENFORCED,
    EXTENSION,
    FORMAT_PATTERNS,
    LIBRARY_FORMATS,
    beyond_regular,
    pattern_error,
)
from headrace.actors.grammar.refusal import refused, too_large
from headrace.runtime.errors import Code, RequestError

Schema: TypeAlias = bool | dict[str, Any]

BYTES = 256 << 10
NODES = 5000
# Of one object, and of one enum or anyOf.
PROPERTIES = 400
ALTERNATIVES = 5000
# Assertions that assert nothing.
TRIVIAL = (("uniqueItems", False), ("nullable", False), ("minProperties", 0))


@attrs.frozen
class Unenforced:
    """An assertion that is left out; `path` is the place of its schema."""

    keyword: str
    path: str


def size_checked(document: Any) -> Schema:
    """The document, if it is one that is worth looking at."""
    try:
        size = len(msgspec.json.encode(document))
    except (RecursionError, UnicodeEncodeError, OverflowError, TypeError) as error:
        text = "The schema is no JSON that can be worked with: too deep, or with broken text."
        raise RequestError(Code.INVALID_SCHEMA, text) from error
    if size > BYTES:
        raise too_large(f"it has {size} bytes, and may have {BYTES}")
    if not isinstance(document, (bool, dict)):
        raise RequestError(Code.INVALID_SCHEMA, "A schema is an object, or true or false.")
    return document


class SchemaReader:
    """Reads one document. `lenient` leaves out what is not enforced instead of refusing it."""

    def __init__(self, document: Any, *, lenient: bool) -> None:
        self._document = size_checked(document)
        self._lenient = lenient
        self._pending: list[str] = []
        self._nodes = 0
        # What references lead to, by the reference.
        self.definitions: dict[str, Schema] = {}
        self.unenforced: list[Unenforced] = []
        # Schemas with assertions on one string or number, which may turn out not to compile.
        self.suspects: list[tuple[str, Schema]] = []

    def read(self) -> Schema:
        """Raises `RequestError` (invalid_schema)."""
        root = self._schema(self._document, "#", 0)
        while self._pending:
            pointer = self._pending.pop()
            place = self._resolved(pointer)
            self.definitions[pointer] = self._schema(place, pointer, 0)
        return root

    def _schema(self, schema: Schema, at: str, depth: int) -> Schema:
        self._nodes += 1
        if self._nodes > NODES or depth > DEPTH:
            raise too_large(f"it may have {NODES} parts, nested {DEPTH} deep")
        if isinstance(schema, bool):
            return schema
        out: dict[str, Any] = {}
        for keyword, given in schema.items():
            if keyword in ENFORCED:
                self._keyword(out, keyword, given, at, depth)
            elif not _asserts_nothing(keyword, given):
                self._leave(keyword, at, "is not enforced by this server")
        if not _BEARING.isdisjoint(out):
            bearing = {k: v for k, v in out.items() if k in _BEARING or k == "type"}
            self.suspects.append((at, bearing))
        return _unwrapped(out)

    def _leave(self, keyword: str, at: str, why: str) -> None:
        if not self._lenient:
            raise refused(keyword, at, why)
        self.unenforced.append(Unenforced(keyword, at))

    def _keyword(self, out: dict[str, Any], keyword: str, given: Any, at: str, depth: int) -> None:
        known = ENFORCED[keyword]
        if not known.check(given):
            raise refused(keyword, at, f"must be {known.form}")
        below = f"{at}/{keyword}"
        if keyword in COUNTS:
            out[keyword] = count(keyword, given, at)
        elif keyword in BOUNDS:
            out[keyword] = inward(keyword, given, at)
        elif keyword in ("pattern", "format"):
            self._string_form(out, keyword, given, at)
        elif keyword in ("enum", "const"):
            self._values(out, [given] if keyword == "const" else given, keyword, at)
        elif keyword == "properties":
            self._properties(out, given, at, depth)
        elif keyword in ("items", "additionalItems", "prefixItems"):
            self._items(out, keyword, given, below, depth)
        elif keyword in ("anyOf", "oneOf", "allOf"):
            self._combined(out, keyword, given, below, depth)
        elif keyword == "$ref":
            self._reference(out, given, at)
        elif keyword == "additionalProperties":
            out[keyword] = self._schema(given, below, depth + 1)
        elif keyword == "type":
            out[keyword] = sorted(set(given)) if isinstance(given, list) else [given]
        else:
            out[keyword] = given

    def _string_form(self, out: dict[str, Any], keyword: str, given: str, at: str) -> None:
        if keyword == "format" and given in LIBRARY_FORMATS:
            out["format"] = given
            return
        if keyword == "format" and given not in FORMAT_PATTERNS:
            self._leave("format", at, "is of a kind that is not enforced by this server")
            return
        pattern = FORMAT_PATTERNS[given] if keyword == "format" else given
        if (why := pattern_error(pattern)) is not None:
            raise refused(keyword, at, why)
        if (what := beyond_regular(pattern)) is not None:
            self._leave(keyword, at, f"{what}, which is not enforced by this server")
            return
        out.setdefault("patterns", []).append(pattern)

    def _values(self, out: dict[str, Any], values: list[Any], keyword: str, at: str) -> None:
        _check_length(keyword, values, at)
        found = [value_of(value, keyword, at) for value in values]
        if "enum" in out:
            out.setdefault("allOf", []).append({"enum": found})
        else:
            out["enum"] = found

    def _properties(
        self, out: dict[str, Any], given: dict[str, Schema], at: str, depth: int
    ) -> None:
        if len(given) > PROPERTIES:
            raise too_large(f"an object may have {PROPERTIES} properties")
        out["properties"] = {
            name: self._schema(schema, f"{at}/properties/{_step(name)}", depth + 1)
            for name, schema in given.items()
        }

    def _items(self, out: dict[str, Any], keyword: str, given: Any, below: str, depth: int) -> None:
        if isinstance(given, list):
            _check_length(keyword, given, below)
            out["prefixItems"] = self._schemas(given, below, depth)
        elif keyword == "additionalItems":
            out.setdefault("items", self._schema(given, below, depth + 1))
        else:
            out["items"] = self._schema(given, below, depth + 1)

    def _combined(
        self, out: dict[str, Any], keyword: str, given: list[Schema], below: str, depth: int
    ) -> None:
        _check_length(keyword, given, below)
        parts = self._schemas(given, below, depth)
        if keyword == "allOf":
            out.setdefault("allOf", []).extend(parts)
        elif "anyOf" in out:
            out.setdefault("allOf", []).append({"anyOf": parts})
        else:
            out["anyOf"] = parts

    def _schemas(self, given: list[Schema], below: str, depth: int) -> list[Schema]:
        return [self._schema(part, f"{below}/{i}", depth + 1) for i, part in enumerate(given)]

    def _reference(self, out: dict[str, Any], pointer: str, at: str) -> None:
        if not pointer.startswith("#"):
            raise refused("$ref", at, "leads out of the schema")
        place = self._resolved(pointer)
        if not isinstance(place, (bool, dict)):
            raise refused("$ref", at, "leads nowhere")
        if pointer not in self.definitions:
            self.definitions[pointer] = True
            self._pending.append(pointer)
        out["$ref"] = pointer

    def _resolved(self, pointer: str) -> Any:
        """What a JSON pointer (RFC 6901) in a fragment leads to; None for nothing."""
        place: Any = self._document
        for step in unquote(pointer[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and name.isdecimal():
                place = place[int(name)] if int(name) < len(place) else None
            else:
                place = place.get(name) if isinstance(place, dict) else None
        return None if pointer[1:2] not in ("", "/") else place


_BEARING = COUNTS | BOUNDS | {"patterns", "format", "multipleOf", "enum"}


def _asserts_nothing(keyword: str, given: Any) -> bool:
    return keyword in ANNOTATIONS or keyword.startswith(EXTENSION) or (keyword, given) in TRIVIAL


def _unwrapped(out: dict[str, Any]) -> Schema:
    """The only part of a schema that is nothing but a list of one."""
    if len(out) == 1:
        for keyword in ("allOf", "anyOf"):
            if len(out.get(keyword, ())) == 1:
                (only,) = out[keyword]
                return only if isinstance(only, bool) else dict(only)
    return out


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _check_length(keyword: str, given: list[Any], at: str) -> None:
    if len(given) > ALTERNATIVES:
        raise refused(keyword, at, f"may have {ALTERNATIVES} entries")


def walk(schema: Schema) -> Iterator[Schema]:
    """The schemas right below one."""
    if isinstance(schema, bool):
        return
    yield from schema.get("properties", {}).values()
    for keyword in ("prefixItems", "anyOf", "allOf"):
        yield from schema.get(keyword, ())
    for keyword in ("additionalProperties", "items"):
        if keyword in schema:
            yield schema[keyword]
