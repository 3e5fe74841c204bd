"""The prompts of a plain completion: texts, or token ids, one or several (wire contract 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.http.wire.fields import (
    MOST_COUNT,
    Fields,
    as_array,
    as_integer,
    as_text,
    missing,
    wrong_type,
    wrong_value,
)
from headrace.runtime.contracts import Prompt
from headrace.runtime.errors import Code, RequestError


def read_prompts(fields: Fields, name: str = "prompt") -> tuple[Prompt, ...]:
    """At least one. null and the empty text are the begin of a document."""
    if not fields.has(name):
        raise missing(fields.path(name))
    value, path = fields.value(name), fields.path(name)
    if value is None or isinstance(value, str):
        return (Prompt(text=value or ""),)
    if not isinstance(value, list):
        raise wrong_type(path, "a string, an array of strings, or token ids")
    if not value:
        raise wrong_value(path, "must not be empty")
    return _several(value, path)


def is_list_of_one(value: Any) -> bool:
    """Whether a prompt that was read is the only one of a list, not a list of ids."""
    return isinstance(value, list) and len(value) == 1 and not isinstance(value[0], int | float)


def _several(items: Sequence[Any], path: str) -> tuple[Prompt, ...]:
    """The first item tells what all of them are."""
    if isinstance(items[0], str):
        texts = [as_text(item, f"{path}[{index}]") for index, item in enumerate(items)]
        return tuple(Prompt(text=text) for text in texts)
    if isinstance(items[0], list):
        lists = [as_array(item, f"{path}[{index}]") for index, item in enumerate(items)]
        return tuple(_tokens(ids, f"{path}[{index}]") for index, ids in enumerate(lists))
    return (_tokens(items, path),)


def _tokens(items: Sequence[Any], path: str) -> Prompt:
    if not items:
        raise wrong_value(path, "must not be empty")
    return Prompt(tokens=tuple(_token(item, f"{path}[{i}]") for i, item in enumerate(items)))


def _token(value: Any, path: str) -> int:
    """Which ids there are the model knows; that is none below 0 and none beyond an int32."""
    token = as_integer(value, path)
    if not 0 <= token <= MOST_COUNT:
        message = f"{path} is no token id of this model."
        raise RequestError(Code.INVALID_TOKEN_ID, message, param=path)
    return token
