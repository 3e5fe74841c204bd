"""The chat fields that are not honoured: accepted without effect, refused, or not built yet.

Nothing a client asks for is dropped in silence (wire contract 0 and 4.1), so each of these has
its line here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from headrace.http.wire.fields import (
    Fields,
    as_array,
    as_boolean,
    as_choice,
    as_integer,
    as_object,
    as_text,
)
from headrace.runtime.errors import Code, RequestError

Reader: TypeAlias = Callable[[Any, str], Any]

# Accepted without effect on the answer; the type is checked all the same.
WITHOUT_EFFECT: dict[str, Reader] = {
    "user": as_text,
    "metadata": as_object,
    "store": as_boolean,
    "service_tier": as_text,
    "safety_identifier": as_text,
    "prediction": as_object,
    "prompt_cache_options": as_object,
    "prompt_cache_retention": as_text,
    # These choose where a prompt is cached, never what is answered.
    "prompt_cache_key": as_text,
    "session_id": as_text,
}

# Refused unless null, or the neutral value given here.
REFUSED: dict[str, Any] = {
    "modalities": ["text"],
    "functions": None,
    "function_call": None,
    "audio": None,
    "web_search_options": None,
    "moderation": None,
    "best_of": None,
    "suffix": None,
    "chat_template": None,
    "hlg": None,
}


def _text_or_object(value: Any, path: str) -> Any:
    return value if isinstance(value, str) else as_object(value, path)


def _choices(value: Any, path: str) -> int:
    return as_integer(value, path, 1, 128)


def _alternatives(value: Any, path: str) -> int:
    return as_integer(value, path, 0, 20)


def _effort(value: Any, path: str) -> str:
    return as_choice(value, path, ["none", "minimal", "low", "medium", "high", "xhigh", "max"])


def _budget(value: Any, path: str) -> int:
    return as_integer(value, path, 0)


# Promised by the contract and not built yet: how the value is checked, and the values that ask
# for nothing. Building one of them means taking its line out.
NOT_BUILT: dict[str, tuple[Reader, tuple[Any, ...]]] = {
    "n": (_choices, (1,)),
    "logprobs": (as_boolean, (False,)),
    "top_logprobs": (_alternatives, (0,)),
    "tools": (as_array, ([],)),
    "tool_choice": (_text_or_object, ("none", "auto")),
    "parallel_tool_calls": (as_boolean, (True, False)),
    "response_format": (as_object, ({"type": "text"},)),
    "guided_json": (_text_or_object, ()),
    "guided_regex": (as_text, ()),
    "guided_choice": (as_array, ()),
    "guided_grammar": (as_text, ()),
    "structured_outputs": (as_object, ()),
    "reasoning_effort": (_effort, ("none",)),
    "reasoning_budget": (_budget, ()),
    "chat_template_kwargs": (as_object, ({},)),
    "adapter": (as_text, ("none",)),
}


def check_fields(fields: Fields) -> None:
    """Raises `RequestError` for the first field that cannot be done as asked."""
    for name, reader in WITHOUT_EFFECT.items():
        _read(fields, name, reader)
    for name, neutral in REFUSED.items():
        value = fields.value(name)
        if value is not None and value != neutral:
            raise _refused(fields.path(name))
    for name, (reader, neutral) in NOT_BUILT.items():
        value = _read(fields, name, reader)
        if value is not None and value not in neutral:
            raise _not_built(fields.path(name))


def _read(fields: Fields, name: str, reader: Reader) -> Any:
    value = fields.value(name)
    return None if value is None else reader(value, fields.path(name))


def _refused(path: str) -> RequestError:
    message = f"{path} is not supported on this route."
    return RequestError(Code.UNSUPPORTED_PARAMETER, message, param=path)


def _not_built(path: str) -> RequestError:
    message = f"{path} is not available in this version with the value given."
    details = {"reasons": [path]}
    return RequestError(Code.UNSUPPORTED_EXECUTION, message, param=path, details=details)
