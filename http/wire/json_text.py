"""JSON that may come from anybody: strict, and bounded in its nesting."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.http.wire.fields import is_portable
from headrace.runtime.errors import Code, RequestError

MOST_NESTING = 100
_CONTAINERS = frozenset({dict, list})


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object that a body holds.

    Raises `RequestError` (invalid_json) for anything else: an empty body, bad UTF-8, NaN and
    infinities, lone surrogates, numbers beyond a double, too many levels.
    """
    if not data.strip():
        raise _invalid("The body is empty; a JSON object is needed.")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # The parser's own words are about its inside and change with its version.
        raise _invalid("The body is not valid JSON in UTF-8.") from None
    if not isinstance(value, dict):
        raise _invalid("The body must be a JSON object.")
    if nests_deeper(value, MOST_NESTING):
        raise _invalid(f"The body nests deeper than {MOST_NESTING} levels.")
    return value


def parsed_or_text(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is not JSON that can be passed on."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
    passes = not nests_deeper(value, MOST_NESTING) and is_portable(value)
    return value if passes else text


def nests_deeper(value: Any, most: int) -> bool:
    """Whether arrays and objects stand in each other more than `most` deep.

    Level by level, as recursion would have a limit of its own.
    """
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(most):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if type(child) in _CONTAINERS
        ]
        if not level:
            return False
    return bool(level)


def _invalid(message: str) -> RequestError:
    return RequestError(Code.INVALID_JSON, message)
