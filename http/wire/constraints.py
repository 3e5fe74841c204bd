"""The form that an answer must have, under the names that the OpenAI routes know for it
(wire contract 3.5). Whether a schema or a grammar is any good is found out where it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.http.wire.fields import Fields, as_array, as_choice, as_text, wrong_type, wrong_value
from headrace.http.wire.json_text import parsed_or_text
from headrace.http.wire.rules import OBJECT, Reader, Rule
from headrace.runtime.constraints import Constraint, ConstraintKind
from headrace.runtime.errors import Code, RequestError

FORMATS = ("text", "json_object", "json_schema")
MOST_CHOICES = 1000


def _schema(value: Any, path: str) -> Any:
    if isinstance(value, str):
        value = parsed_or_text(value)
        if not isinstance(value, dict):
            message = f"{path} must be a JSON schema, or the JSON text of one."
            raise RequestError(Code.INVALID_SCHEMA, message, param=path)
    if not isinstance(value, dict):
        raise wrong_type(path, "an object or a string")
    return OBJECT.read(value, path)


def _choices(value: Any, path: str) -> tuple[str, ...]:
    items = as_array(value, path)
    if not 1 <= len(items) <= MOST_CHOICES:
        raise wrong_value(path, f"must hold 1 to {MOST_CHOICES} strings")
    return tuple(as_text(item, f"{path}[{index}]") for index, item in enumerate(items))


_KINDS: dict[str, tuple[ConstraintKind, Reader]] = {
    "json": ("json_schema", _schema),
    "regex": ("regex", as_text),
    "choice": ("choice", _choices),
    "grammar": ("lark", as_text),
}

STRINGS = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_CHOICES}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "json": {"anyOf": [{"type": "object"}, {"type": "string"}]},
    "regex": {"type": "string"},
    "choice": STRINGS,
    "grammar": {"type": "string"},
}

# The same constraints once by themselves and once in a group.
GUIDED: dict[str, Rule] = {
    f"guided_{name}": Rule(reader, _SCHEMAS[name]) for name, (_, reader) in _KINDS.items()
}
GROUPED_SCHEMA = {"type": "object", "properties": _SCHEMAS}
FORMAT_SCHEMA = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": list(FORMATS)}, "json_schema": {"type": "object"}},
}


def read_constraint(fields: Fields) -> Constraint | None:
    """The one constraint of a request. Raises `RequestError` (conflicting_constraints)."""
    return sole([*_format(fields), *guided(fields)])


def guided(fields: Fields) -> Iterator[Constraint]:
    """Constraints by names of our own, the same in every protocol."""
    yield from _members(fields, "guided_")
    yield from _members(fields.object("structured_outputs"), "")


def sole(found: Sequence[Constraint]) -> Constraint | None:
    """The only one, if any. Raises `RequestError` (conflicting_constraints)."""
    if len(found) > 1:
        first, second = found[0].param, found[1].param
        message = f"{second} cannot be combined with {first}: an answer has one form."
        raise RequestError(Code.CONFLICTING_CONSTRAINTS, message, param=second)
    return found[0] if found else None


def _format(fields: Fields) -> Iterator[Constraint]:
    wanted = fields.object("response_format")
    if wanted is None:
        return
    kind = as_choice(wanted.required("type"), wanted.path("type"), FORMATS)
    if kind == "json_object":
        yield Constraint("json_object", param=fields.path("response_format"))
    if kind == "json_schema":
        yield named_schema(wanted.required_object("json_schema"))


def named_schema(described: Fields) -> Constraint:
    """A schema with its name, as OpenAI's protocols have it. Raises `RequestError`."""
    described.required_text("name")
    described.text("description")
    described.boolean("strict")
    schema = OBJECT.read(described.required("schema"), described.path("schema"))
    return Constraint("json_schema", schema, param=described.path("schema"))


def _members(fields: Fields | None, prefix: str) -> Iterator[Constraint]:
    if fields is None:
        return
    for name, (kind, reader) in _KINDS.items():
        value = fields.read(prefix + name, reader)
        if value is not None:
            yield Constraint(kind, value, param=fields.path(prefix + name))
