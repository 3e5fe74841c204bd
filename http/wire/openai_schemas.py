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
from headrace.http.wire.rules import Schema, any_of, properties
from headrace.http.wire.sampling import RULES as SAMPLING
from headrace.http.wire.schema_parts import (
    BOOLEAN,
    STRING,
    STRINGS,
    TEXT_OR_NULL,
    WARNINGS,
    count_of,
    object_of,
    optional,
)
from headrace.http.wire.shared_fields import AFFINITY
from headrace.http.wire.stops import MOST_STOPS
from headrace.http.wire.thinking import RULES as THINKING
from headrace.http.wire.tools import MODES, NAME_PATTERN, WORDS

IDS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 0, "maximum": MOST_COUNT},
}


# ---- bodies --------------------------------------------------------------------------------

FUNCTION_NAME: Schema = object_of(["name"], name=STRING)
NAMED: Schema = object_of(["function"], function=FUNCTION_NAME)
TOOL: Schema = object_of(
    ["type", "function"],
    type={"const": "function"},
    function=object_of(
        ["name"],
        name={"type": "string", "pattern": f"^{NAME_PATTERN}$"},
        **optional(description=STRING, parameters={"type": "object"}, strict=BOOLEAN),
    ),
)
ALLOWED: Schema = object_of(
    ["mode", "tools"],
    mode={"enum": list(MODES)},
    tools={"type": "array", "minItems": 1, "items": NAMED},
)
TOOL_CHOICE: Schema = any_of(
    {"enum": list(WORDS)},
    object_of(["type", "function"], type={"const": "function"}, function=FUNCTION_NAME),
    object_of(["type", "allowed_tools"], type={"const": "allowed_tools"}, allowed_tools=ALLOWED),
)
PART: Schema = any_of(
    *(
        object_of(["type", member], type={"const": kind}, **{member: STRING})
        for kind, member in TEXT_PARTS.items()
    ),
    object_of(["type"], type={"enum": list(MEDIA_PARTS)}),
)
CONTENT: Schema = any_of(STRING, {"type": "array", "items": PART})
CALL: Schema = object_of(
    ["function"],
    function=object_of(["name"], name=STRING, **optional(arguments=STRING)),
    **optional(id=STRING, type={"const": "function"}),
)
MESSAGE: Schema = any_of(
    object_of(
        ["role", "content"],
        role={"enum": sorted(ROLES)},
        content=CONTENT,
        **optional(name=STRING, tool_call_id=STRING),
    ),
    object_of(
        ["role", "tool_calls"],
        role={"const": "assistant"},
        tool_calls={"type": "array", "minItems": 1, "items": CALL},
        **optional(content=CONTENT, reasoning_content=STRING, reasoning=STRING),
    ),
)
STOP: Schema = any_of(STRING, STRINGS | {"maxItems": MOST_STOPS})

SHARED: dict[str, Schema] = {
    **properties(SAMPLING | AFFINITY | GUIDED),
    **optional(
        model=STRING,
        stream=BOOLEAN,
        stream_options={"type": "object", "properties": properties(STREAM_OPTIONS)},
        stop=STOP,
        n=count_of(1),
        adapter=STRING,
        response_format=FORMAT_SCHEMA,
        structured_outputs=GROUPED_SCHEMA,
    ),
}


def chat_request() -> Schema:
    own = optional(
        max_tokens=count_of(1),
        max_completion_tokens=count_of(1),
        logprobs=BOOLEAN,
        top_logprobs=count_of(0, 20),
        tools={"type": "array", "items": TOOL},
        tool_choice=TOOL_CHOICE,
        parallel_tool_calls=BOOLEAN,
        continue_final_message=BOOLEAN,
        verbosity=STRING,
    )
    messages: Schema = {"type": "array", "minItems": 1, "items": MESSAGE}
    tables = properties(THINKING | CHAT_WITHOUT_EFFECT | CHAT_REFUSED)
    return object_of(["messages"], messages=messages, **SHARED, **tables, **own)


def completion_request() -> Schema:
    own = optional(
        max_tokens=count_of(),
        max_completion_tokens=count_of(),
        logprobs=count_of(0, 5),
        best_of=count_of(1),
        echo=BOOLEAN,
    )
    prompt = any_of(
        TEXT_OR_NULL,
        STRINGS | {"minItems": 1},
        IDS,
        {"type": "array", "minItems": 1, "items": IDS},
    )
    tables = properties(COMPLETION_WITHOUT_EFFECT | COMPLETION_REFUSED)
    return object_of(["prompt"], prompt=prompt, **SHARED, **tables, **own)


# ---- answers -------------------------------------------------------------------------------

USAGE: Schema = object_of(
    ["prompt_tokens", "completion_tokens", "total_tokens", "lane"],
    prompt_tokens=count_of(),
    completion_tokens=count_of(),
    total_tokens=count_of(),
    prompt_tokens_details=object_of(["cached_tokens"], cached_tokens=count_of()),
    completion_tokens_details=object_of(["reasoning_tokens"], reasoning_tokens=count_of()),
    lane={"const": "batched"},
)
SAID: Schema = object_of(
    ["role", "content", "refusal"],
    role={"const": "assistant"},
    content=TEXT_OR_NULL,
    refusal={"type": "null"},
    reasoning_content=STRING,
    reasoning=STRING,
    tool_calls={"type": "array", "minItems": 1, "items": {"type": "object"}},
)


def _answer(kind: str, choice: Schema) -> Schema:
    return object_of(
        ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"],
        id=STRING,
        object={"const": kind},
        created=count_of(),
        model=STRING,
        system_fingerprint=STRING,
        choices={"type": "array", "minItems": 1, "items": choice},
        usage=USAGE,
        warnings=WARNINGS,
    )


def _choice(said: str, schema: Schema, reasons: list[str]) -> Schema:
    return object_of(
        ["index", said, "logprobs", "finish_reason", "matched_stop"],
        index=count_of(),
        logprobs={"type": ["object", "null"]},
        finish_reason={"enum": reasons},
        matched_stop=TEXT_OR_NULL,
        **{said: schema},
    )


CHAT_ANSWER = _answer("chat.completion", _choice("message", SAID, ["stop", "length", "tool_calls"]))
COMPLETION_ANSWER = _answer("text_completion", _choice("text", STRING, ["stop", "length"]))
