"""The keywords of JSON Schema (2020-12): which are enforced, and what values they may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import regex

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

# They describe and assert nothing. `discriminator` is OpenAPI's and repeats what anyOf says.
ANNOTATIONS = frozenset(
    {
        "title", "description", "default", "example", "examples", "deprecated", "readOnly",
        "writeOnly", "$schema", "$id", "id", "$anchor", "$comment", "$vocabulary", "$defs",
        "definitions", "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
    }
)  # fmt: skip
EXTENSION = "x-"

COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength"})
BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
LISTS = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})

# Which type a keyword speaks of; where a schema names no type, these tell what is meant.
TYPE_OF = {
    "properties": "object", "required": "object", "additionalProperties": "object",
    "items": "array", "prefixItems": "array", "minItems": "array", "maxItems": "array",
    "minLength": "string", "maxLength": "string", "patterns": "string", "format": "string",
    "minimum": "number", "maximum": "number", "exclusiveMinimum": "number",
    "exclusiveMaximum": "number", "multipleOf": "number",
}  # fmt: skip

Check: TypeAlias = Callable[[Any], bool]


def is_schema(value: Any) -> bool:
    return isinstance(value, (bool, dict))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_types(value: Any) -> bool:
    named = value if isinstance(value, list) else [value]
    return bool(named) and all(isinstance(name, str) and name in TYPES for name in named)


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_schema, value))


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_schema_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_schema, value.values()))


@attrs.frozen
class Keyword:
    """`form` says in words what `check` accepts."""

    check: Check
    form: str


_COUNT = Keyword(_is_count, "a whole number from 0 on")
_NUMBER = Keyword(is_number, "a number")
_TEXT = Keyword(_is_text, "a string")
_SCHEMA = Keyword(is_schema, "a schema")
_SCHEMAS = Keyword(_are_schemas, "a list of schemas")

ENFORCED = {
    "type": Keyword(_is_types, f"one of {', '.join(TYPES)}, or a list of them"),
    "enum": Keyword(lambda value: isinstance(value, list) and bool(value), "a list of values"),
    "const": Keyword(lambda value: True, "a value"),
    "properties": Keyword(_is_schema_by_name, "an object of schemas"),
    "required": Keyword(_are_names, "a list of strings"),
    "additionalProperties": _SCHEMA,
    # Up to draft 2019-09 a list of items is what prefixItems is now.
    "items": Keyword(lambda value: is_schema(value) or _are_schemas(value), "a schema"),
    "additionalItems": _SCHEMA,
    "$ref": _TEXT,
    "pattern": _TEXT,
    "format": _TEXT,
    "multipleOf": Keyword(lambda value: is_number(value) and value > 0, "a number above 0"),
    **dict.fromkeys(LISTS, _SCHEMAS),
    **dict.fromkeys(COUNTS, _COUNT),
    **dict.fromkeys(BOUNDS, _NUMBER),
}

# ---- patterns ----------------------------------------------------------------------------

PATTERN_CHARACTERS = 4096
# Escapes and classes are skipped as a whole, so that what is found is an operator.
_OPERATORS = re.compile(
    r"(?P<border>\\[bB])|(?P<back>\\[1-9]|\\k<)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|(?P<look>\(\?<?[=!])",
    re.DOTALL,
)
_UNSUPPORTED = {
    "border": r"uses \b or \B",
    "back": "refers back to a group",
    "look": "looks ahead or behind",
}


def pattern_error(pattern: str) -> str | None:
    """Why this is no regular expression, None if it is one."""
    if len(pattern) > PATTERN_CHARACTERS:
        return f"has more than {PATTERN_CHARACTERS} characters"
    try:
        regex.compile(pattern)
    except regex.error as error:
        return f"is no regular expression: {error}"
    return None


def beyond_regular(pattern: str) -> str | None:
    """What a pattern uses that no automaton can follow; None if nothing."""
    for found in _OPERATORS.finditer(pattern):
        if found.lastgroup is not None:
            return _UNSUPPORTED[found.lastgroup]
    return None


# ---- formats -----------------------------------------------------------------------------

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAYS = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAYS}|{_LEAP}-02-29)"
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
# RFC 3339, without leap seconds, which few parsers take. The library's own forms of these let
# 30 February through.
FORMAT_PATTERNS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
}
LIBRARY_FORMATS = frozenset({"uuid", "duration", "email", "hostname", "ipv4", "ipv6", "uri"})
