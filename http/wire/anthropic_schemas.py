"""Bodies and answers of Anthropic's messages as JSON schemas."""

from __future__ import annotations

from headrace.http.wire.anthropic_blocks import IMAGE_SOURCES, ROLES
from headrace.http.wire.anthropic_fields import (
    DISPLAYS,
    FORMAT,
    OUTPUT,
    REFUSED,
    THINKING,
    WITHOUT_EFFECT,
)
from headrace.http.wire.anthropic_tools import CHOICES
from headrace.http.wire.constraints import GROUPED_SCHEMA, GUIDED
from headrace.http.wire.rules import Schema, any_of, properties
from headrace.http.wire.sampling import RULES as SAMPLING
from headrace.http.wire.schema_parts import (
    BOOLEAN,
    OBJECT,
    STRING,
    STRINGS,
    TEXT_OR_NULL,
    WARNINGS,
    count_of,
    list_of,
    object_of,
    optional,
)
from headrace.http.wire.shared_fields import AFFINITY
from headrace.http.wire.stops import MOST_STOPS
from headrace.http.wire.tools import NAME_PATTERN

TEXT_BLOCK: Schema = object_of(["type", "text"], type={"const": "text"}, text=STRING)
TEXTS: Schema = any_of(STRING, list_of(TEXT_BLOCK))
IMAGE: Schema = object_of(
    ["type", "source"],
    type={"const": "image"},
    source=object_of(["type"], type={"enum": list(IMAGE_SOURCES)}),
)
CALL: Schema = object_of(
    ["type", "id", "name", "input"],
    type={"const": "tool_use"},
    id=STRING,
    name=STRING,
    input=OBJECT,
)
RESULT: Schema = object_of(
    ["type", "tool_use_id"],
    type={"const": "tool_result"},
    tool_use_id=STRING,
    **optional(content=TEXTS, is_error=BOOLEAN),
)
THOUGHT: Schema = object_of(["type", "thinking"], type={"const": "thinking"}, thinking=STRING)
MESSAGE: Schema = any_of(
    object_of(["role", "content"], role={"enum": list(ROLES)}, content=TEXTS),
    object_of(
        ["role", "content"],
        role={"const": "user"},
        content=list_of(any_of(TEXT_BLOCK, IMAGE, RESULT)),
    ),
    object_of(
        ["role", "content"],
        role={"const": "assistant"},
        content=list_of(any_of(TEXT_BLOCK, THOUGHT, CALL)),
    ),
)
TOOL: Schema = object_of(
    ["name", "input_schema"],
    name={"type": "string", "pattern": f"^{NAME_PATTERN}$"},
    input_schema=OBJECT,
    **optional(description=STRING, strict=BOOLEAN, type={"const": "custom"}),
)
TOOL_CHOICE: Schema = any_of(
    object_of(
        ["type"],
        type={"enum": [kind for kind in CHOICES if kind != "tool"]},
        **optional(disable_parallel_tool_use=BOOLEAN),
    ),
    object_of(["type", "name"], type={"const": "tool"}, name=STRING),
)
THINKS: Schema = object_of(
    ["type"],
    type={"enum": list(THINKING)},
    **optional(budget_tokens=count_of(), display={"type": "string", "enum": list(DISPLAYS)}),
)
FORM: Schema = object_of(["type", "schema"], type={"const": FORMAT}, schema=OBJECT)
OUTPUT_CONFIG: Schema = object_of([], **properties(OUTPUT), **optional(format=FORM))


def message_count_request() -> Schema:
    """The same but for the cap, which a prompt that is only counted does not need."""
    tables = properties(SAMPLING | AFFINITY | GUIDED | WITHOUT_EFFECT | REFUSED)
    return object_of(
        ["messages"],
        messages=list_of(MESSAGE, 1),
        **tables,
        **optional(
            model=STRING,
            system=TEXTS,
            stream=BOOLEAN,
            stop_sequences=STRINGS | {"maxItems": MOST_STOPS},
            tools=list_of(TOOL),
            tool_choice=TOOL_CHOICE,
            thinking=THINKS,
            output_config=OUTPUT_CONFIG,
            chat_template_kwargs=OBJECT,
            continue_final_message=BOOLEAN,
            structured_outputs=GROUPED_SCHEMA,
            adapter=STRING,
        ),
    )


def message_request() -> Schema:
    counted = message_count_request()
    members = counted["properties"] | {"max_tokens": count_of()}
    return object_of(["messages", "max_tokens"], **members)


# ---- answers -------------------------------------------------------------------------------

SAID: Schema = object_of(["type", "text"], type={"const": "text"}, text=STRING)
USAGE: Schema = object_of(
    ["input_tokens", "output_tokens"],
    input_tokens=count_of(),
    cache_creation_input_tokens=count_of(),
    cache_read_input_tokens=count_of(),
    output_tokens=count_of(),
    output_tokens_details=object_of(["thinking_tokens"], thinking_tokens=count_of()),
)
MESSAGE_ANSWER: Schema = object_of(
    ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
    id=STRING,
    type={"const": "message"},
    role={"const": "assistant"},
    model=STRING,
    content=list_of(any_of(SAID, THOUGHT, CALL)),
    stop_reason={
        "enum": [
            "end_turn",
            "max_tokens",
            "stop_sequence",
            "tool_use",
            "model_context_window_exceeded",
        ]
    },
    stop_sequence=TEXT_OR_NULL,
    usage=USAGE,
    warnings=WARNINGS,
)
MESSAGE_COUNT_ANSWER: Schema = object_of(["input_tokens"], input_tokens=count_of(1))
