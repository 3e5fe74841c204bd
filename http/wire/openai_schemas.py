"""Bodies and answers of chat and completions as JSON schemas."""

from __future__ import annotations

from headrace.http.wire.constraints import FORMAT_SCHEMA, GROUPED_SCHEMA, GUIDED
from headrace.http.wire.content import MEDIA_PARTS, TEXT_PARTS
from headrace.http.wire.fields import MOST_COUNT
from headrace.http.wire.messages import ROLES
from headrace.http.wire.openai_fields import (
    CHAT_REFUSED,
    CHAT_WITHOUT_EFFECT,
    COMPLETION_REFUSED,
    COMPLETION_WITHOUT_EFFECT,
    STREAM_OPTIONS,
)
from headrace.http.wire.openai_tools import MODES, WORDS
from headrace.http.wire.rules import Schema, any_of, nullable, properties
from headrace.http.wire.sampling import RULES as SAMPLING
from headrace.http.wire.shared_fields import AFFINITY
from headrace.http.wire.stops import MOST_STOPS
from headrace.http.wire.thinking import RULES as THINKING
from headrace.http.wire.tools import NAME_PATTERN

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
STRINGS: Schema = {"type": "array", "items": STRING}
IDS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 0, "maximum": MOST_COUNT},
}


def _object(required: list[str], **members: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": members}


def _count(least: int = 0, most: int | None = None) -> Schema:
    limits = {} if most is None else {"maximum": most}
    return {"type": "integer", "minimum": least, **limits}


def _optional(**members: Schema) -> dict[str, Schema]:
    return {name: nullable(schema) for name, schema in members.items()}


# ---- bodies --------------------------------------------------------------------------------

FUNCTION_NAME: Schema = _object(["name"], name=STRING)
NAMED: Schema = _object(["function"], function=FUNCTION_NAME)
TOOL: Schema = _object(
    ["type", "function"],
    type={"const": "function"},
    function=_object(
        ["name"],
        name={"type": "string", "pattern": f"^{NAME_PATTERN}$"},
        **_optional(description=STRING, parameters={"type": "object"}, strict=BOOLEAN),
    ),
)
ALLOWED: Schema = _object(
    ["mode", "tools"],
    mode={"enum": list(MODES)},
    tools={"type": "array", "minItems": 1, "items": NAMED},
)
TOOL_CHOICE: Schema = any_of(
    {"enum": list(WORDS)},
    _object(["type", "function"], type={"const": "function"}, function=FUNCTION_NAME),
    _object(["type", "allowed_tools"], type={"const": "allowed_tools"}, allowed_tools=ALLOWED),
)
PART: Schema = any_of(
    *(
        _object(["type", member], type={"const": kind}, **{member: STRING})
        for kind, member in TEXT_PARTS.items()
    ),
    _object(["type"], type={"enum": list(MEDIA_PARTS)}),
)
CONTENT: Schema = any_of(STRING, {"type": "array", "items": PART})
CALL: Schema = _object(
    ["function"],
    function=_object(["name"], name=STRING, **_optional(arguments=STRING)),
    **_optional(id=STRING, type={"const": "function"}),
)
MESSAGE: Schema = any_of(
    _object(
        ["role", "content"],
        role={"enum": sorted(ROLES)},
        content=CONTENT,
        **_optional(name=STRING, tool_call_id=STRING),
    ),
    _object(
        ["role", "tool_calls"],
        role={"const": "assistant"},
        tool_calls={"type": "array", "minItems": 1, "items": CALL},
        **_optional(content=CONTENT, reasoning_content=STRING, reasoning=STRING),
    ),
)
STOP: Schema = any_of(STRING, STRINGS | {"maxItems": MOST_STOPS})

SHARED: dict[str, Schema] = {
    **properties(SAMPLING | AFFINITY | GUIDED),
    **_optional(
        model=STRING,
        stream=BOOLEAN,
        stream_options={"type": "object", "properties": properties(STREAM_OPTIONS)},
        stop=STOP,
        n=_count(1),
        adapter=STRING,
        response_format=FORMAT_SCHEMA,
        structured_outputs=GROUPED_SCHEMA,
    ),
}


def chat_request() -> Schema:
    own = _optional(
        max_tokens=_count(1),
        max_completion_tokens=_count(1),
        logprobs=BOOLEAN,
        top_logprobs=_count(0, 20),
        tools={"type": "array", "items": TOOL},
        tool_choice=TOOL_CHOICE,
        parallel_tool_calls=BOOLEAN,
        continue_final_message=BOOLEAN,
        verbosity=STRING,
    )
    messages: Schema = {"type": "array", "minItems": 1, "items": MESSAGE}
    tables = properties(THINKING | CHAT_WITHOUT_EFFECT | CHAT_REFUSED)
    return _object(["messages"], messages=messages, **SHARED, **tables, **own)


def completion_request() -> Schema:
    own = _optional(
        max_tokens=_count(),
        max_completion_tokens=_count(),
        logprobs=_count(0, 5),
        best_of=_count(1),
        echo=BOOLEAN,
    )
    prompt = any_of(
        TEXT_OR_NULL,
        STRINGS | {"minItems": 1},
        IDS,
        {"type": "array", "minItems": 1, "items": IDS},
    )
    tables = properties(COMPLETION_WITHOUT_EFFECT | COMPLETION_REFUSED)
    return _object(["prompt"], prompt=prompt, **SHARED, **tables, **own)


# ---- answers -------------------------------------------------------------------------------

USAGE: Schema = _object(
    ["prompt_tokens", "completion_tokens", "total_tokens", "lane"],
    prompt_tokens=_count(),
    completion_tokens=_count(),
    total_tokens=_count(),
    prompt_tokens_details=_object(["cached_tokens"], cached_tokens=_count()),
    completion_tokens_details=_object(["reasoning_tokens"], reasoning_tokens=_count()),
    lane={"const": "batched"},
)
WARNING: Schema = _object(["code", "message"], code=STRING, message=STRING, param=TEXT_OR_NULL)
SAID: Schema = _object(
    ["role", "content", "refusal"],
    role={"const": "assistant"},
    content=TEXT_OR_NULL,
    refusal={"type": "null"},
    reasoning_content=STRING,
    reasoning=STRING,
    tool_calls={"type": "array", "minItems": 1, "items": {"type": "object"}},
)


def _answer(kind: str, choice: Schema) -> Schema:
    return _object(
        ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"],
        id=STRING,
        object={"const": kind},
        created=_count(),
        model=STRING,
        system_fingerprint=STRING,
        choices={"type": "array", "minItems": 1, "items": choice},
        usage=USAGE,
        warnings={"type": "array", "items": WARNING},
    )


def _choice(said: str, schema: Schema, reasons: list[str]) -> Schema:
    return _object(
        ["index", said, "logprobs", "finish_reason", "matched_stop"],
        index=_count(),
        logprobs={"type": ["object", "null"]},
        finish_reason={"enum": reasons},
        matched_stop=TEXT_OR_NULL,
        **{said: schema},
    )


CHAT_ANSWER = _answer("chat.completion", _choice("message", SAID, ["stop", "length", "tool_calls"]))
COMPLETION_ANSWER = _answer("text_completion", _choice("text", STRING, ["stop", "length"]))
