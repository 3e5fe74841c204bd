"""Two schemas that both must hold, as one.

Only schemas without `$ref`, `anyOf` and `allOf` come in here. What cannot be said in one schema is
left to the reader of the result as an `allOf` of two parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from headrace.actors.grammar.reading import Schema
from headrace.actors.grammar.refusal import refused

Plain: TypeAlias = dict[str, Any]


class Disjoint(Exception):
    """No value satisfies both."""


def joined(a: Plain, b: Plain, path: str) -> Plain | None:
    """None where no value can satisfy both. Raises `RequestError` where two assertions cannot be
    enforced together."""
    try:
        one: Plain = {}
        for keyword in (*a, *(k for k in b if k not in a)):
            if keyword not in _STRUCTURE:
                one[keyword] = _joined_keyword(keyword, a, b, path)
        return one | _items(a, b) | _properties(a, b)
    except Disjoint:
        return None


def both(a: Schema, b: Schema) -> Schema:
    """The schema of what satisfies two schemas of any form."""
    if a is False or b is False:
        return False
    # Each part once: a schema that refers to itself would otherwise grow for ever.
    parts = {text_of(part): part for part in (*_parts(a), *_parts(b)) if part is not True}
    if len(parts) > 1:
        return {"allOf": list(parts.values())}
    return next(iter(parts.values()), True)


def _parts(schema: Schema) -> list[Schema]:
    if isinstance(schema, dict) and schema.keys() == {"allOf"}:
        parts: list[Schema] = schema["allOf"]
        return parts
    return [schema]


def text_of(schema: Schema) -> str:
    """Equal for equal schemas only; Python would also take `[1]` for `[true]`."""
    return msgspec.json.encode(schema).decode()


_STRUCTURE = frozenset({"properties", "additionalProperties", "items", "prefixItems"})


def _joined_keyword(keyword: str, a: Plain, b: Plain, path: str) -> Any:
    if keyword not in b:
        return a[keyword]
    if keyword not in a:
        return b[keyword]
    join = _JOINS.get(keyword)
    if join is None and a[keyword] == b[keyword]:
        return a[keyword]
    if join is None:
        raise refused(keyword, path, "is asked for twice, which cannot be enforced")
    return join(a[keyword], b[keyword])


def _types(a: list[str], b: list[str]) -> list[str]:
    found = set(a) & set(b)
    # Every integer is a number.
    for one, other in ((a, b), (b, a)):
        if "integer" in one and "number" in other:
            found.add("integer")
    if not found:
        raise Disjoint
    return sorted(found)


def _enums(a: list[Any], b: list[Any]) -> list[Any]:
    found = [value for value in a if any(same(value, other) for other in b)]
    if not found:
        raise Disjoint
    return found


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1, but 1.0 is."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return bool(a == b)


def _union(a: list[str], b: list[str]) -> list[str]:
    return [*a, *(name for name in b if name not in a)]


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _enums,
    "required": _union,
    "patterns": _union,
    **dict.fromkeys(("minItems", "minLength", "minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxItems", "maxLength", "maximum", "exclusiveMaximum"), min),
}


def _properties(a: Plain, b: Plain) -> Plain:
    """Each property as both want it; what one does not name is additional to it."""
    if "properties" not in a and "properties" not in b:
        return _rest("additionalProperties", a, b)
    rest_a, rest_b = a.get("additionalProperties", True), b.get("additionalProperties", True)
    own_a, own_b = a.get("properties", {}), b.get("properties", {})
    properties = {
        name: both(own_a.get(name, rest_a), own_b.get(name, rest_b)) for name in (own_a | own_b)
    }
    return {"properties": properties, **_rest("additionalProperties", a, b)}


def _items(a: Plain, b: Plain) -> Plain:
    """The same by position."""
    length = max(len(part.get("prefixItems", ())) for part in (a, b))
    prefix = [both(_item(a, i), _item(b, i)) for i in range(length)]
    return {**({"prefixItems": prefix} if prefix else {}), **_rest("items", a, b)}


def _item(schema: Plain, index: int) -> Schema:
    prefix = schema.get("prefixItems", ())
    found: Schema = prefix[index] if index < len(prefix) else schema.get("items", True)
    return found


def _rest(keyword: str, a: Plain, b: Plain) -> Plain:
    if keyword not in a and keyword not in b:
        return {}
    return {keyword: both(a.get(keyword, True), b.get(keyword, True))}
