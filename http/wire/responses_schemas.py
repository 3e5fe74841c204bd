"""Bodies and answers of Responses as JSON schemas."""

from __future__ import annotations

from headrace.http.wire.constraints import FORMATS, GROUPED_SCHEMA, GUIDED
from headrace.http.wire.content import MEDIA_PARTS, TEXT_PARTS
from headrace.http.wire.messages import ROLES
from headrace.http.wire.responses_fields import (
    CHOICES,
    INCLUDES,
    MOST_ALTERNATIVES,
    REASONING,
    REFUSED,
    STREAM_OPTIONS,
    WITHOUT_EFFECT,
)
from headrace.http.wire.responses_tools import OWN, SYNTAXES
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
from headrace.http.wire.tools import MODES, NAME_PATTERN, WORDS

NAME: Schema = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}

PART: Schema = any_of(
    *(
        object_of(["type", member], type={"const": kind}, **{member: STRING})
        for kind, member in TEXT_PARTS.items()
    ),
    object_of(["type"], type={"enum": list(MEDIA_PARTS)}),
)
CONTENT: Schema = any_of(STRING, list_of(PART))
REASONED: Schema = list_of(object_of(["type", "text"], type=STRING, text=STRING))
ITEM: Schema = any_of(
    object_of(["role", "content"], role={"enum": sorted(ROLES)}, content=CONTENT),
    object_of(
        ["type", "call_id", "name"],
        type={"const": "function_call"},
        call_id=STRING,
        name=STRING,
        **optional(arguments=STRING, namespace=STRING),
    ),
    object_of(
        ["type", "call_id", "name", "input"],
        type={"const": "custom_tool_call"},
        call_id=STRING,
        name=STRING,
        input=STRING,
    ),
    object_of(
        ["type", "call_id", "output"],
        type={"enum": ["function_call_output", "custom_tool_call_output"]},
        call_id=STRING,
        output=CONTENT,
    ),
    object_of(
        ["type"], type={"const": "reasoning"}, **optional(summary=REASONED, content=REASONED)
    ),
)
FUNCTION: Schema = object_of(
    ["type", "name"],
    type={"const": "function"},
    name=NAME,
    **optional(description=STRING, parameters=OBJECT, strict=BOOLEAN),
)
GRAMMAR: Schema = object_of(
    ["type", "syntax", "definition"],
    type={"const": "grammar"},
    syntax={"enum": list(SYNTAXES)},
    definition=STRING,
)
TOOL: Schema = any_of(
    FUNCTION,
    object_of(
        ["type", "name"],
        type={"const": "custom"},
        name=NAME,
        **optional(description=STRING, format=GRAMMAR),
    ),
    object_of(
        ["type", "name", "tools"],
        type={"const": "namespace"},
        name=STRING,
        tools=list_of(FUNCTION),
    ),
)
CHOSEN: Schema = object_of(["type", "name"], type={"enum": list(OWN)}, name=STRING)
TOOL_CHOICE: Schema = any_of(
    {"enum": list(WORDS)},
    CHOSEN,
    object_of(
        ["type", "mode", "tools"],
        type={"const": "allowed_tools"},
        mode={"enum": list(MODES)},
        tools=list_of(CHOSEN, 1),
    ),
)
FORMAT: Schema = any_of(
    object_of(["type"], type={"enum": [kind for kind in FORMATS if kind != "json_schema"]}),
    object_of(
        ["type", "name", "schema"],
        type={"const": "json_schema"},
        name=STRING,
        schema=OBJECT,
        **optional(description=STRING, strict=BOOLEAN),
    ),
)


def response_request() -> Schema:
    """`input` may be left out where there is an earlier response to go on from."""
    tables = properties(SAMPLING | AFFINITY | GUIDED | CHOICES | WITHOUT_EFFECT | REFUSED)
    return object_of(
        [],
        **tables,
        **optional(
            input=any_of(STRING, list_of(ITEM, 1)),
            model=STRING,
            max_output_tokens=count_of(1),
            max_tokens=count_of(1),
            stop=any_of(STRING, STRINGS | {"maxItems": MOST_STOPS}),
            stream_options=object_of([], **properties(STREAM_OPTIONS)),
            text=object_of([], **optional(format=FORMAT, verbosity=STRING)),
            tools=list_of(TOOL),
            tool_choice=TOOL_CHOICE,
            parallel_tool_calls=BOOLEAN,
            reasoning=object_of([], **properties(REASONING)),
            reasoning_budget=count_of(),
            include=list_of({"type": "string", "enum": list(INCLUDES)}),
            top_logprobs=count_of(0, MOST_ALTERNATIVES),
            chat_template_kwargs=OBJECT,
            continue_final_message=BOOLEAN,
            structured_outputs=GROUPED_SCHEMA,
            adapter=STRING,
        ),
    )


# ---- answers -------------------------------------------------------------------------------

STATUSES = ("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")
USAGE: Schema = object_of(
    ["input_tokens", "output_tokens", "total_tokens", "lane"],
    input_tokens=count_of(),
    output_tokens=count_of(),
    total_tokens=count_of(),
    lane={"const": "batched"},
)
RESPONSE_ANSWER: Schema = object_of(
    ["id", "object", "created_at", "completed_at", "status", "model", "output", "usage", "error"],
    id=STRING,
    object={"const": "response"},
    created_at=count_of(),
    completed_at={"type": ["integer", "null"]},
    status={"enum": list(STATUSES)},
    model=STRING,
    output=list_of(object_of(["type", "id"], type=STRING, id=STRING)),
    usage=any_of(USAGE, {"type": "null"}),
    error={"type": ["object", "null"]},
    previous_response_id=TEXT_OR_NULL,
    warnings=WARNINGS,
)
RESPONSE_COUNT_ANSWER: Schema = object_of(
    ["object", "input_tokens"],
    object={"const": "response.input_tokens"},
    input_tokens=count_of(1),
)
