"""Good bodies for the fields of every generating route, to be spoiled by `mutants`."""

from __future__ import annotations

from typing import Any

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/n"}},
            "required": ["a"],
            "$defs": {"n": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}},
        },
        "strict": True,
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
SAMPLING = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "xtc_probability": 0.1,
    "xtc_threshold": 0.1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "repetition_context_size": 20,
    "logit_bias": {"5": 1, "7": -100},
    "seed": 3,
    "ignore_eos": False,
    "min_tokens": 1,
}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
HI = [{"role": "user", "content": "Hi"}]

CHATS: list[dict[str, Any]] = [
    {"model": "default", "messages": HI, "max_tokens": 4, "stream": False, **SAMPLING},
    {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "2"},
            {"role": "developer", "content": "Now.", "name": "x"},
            {"role": "user", "content": "And?"},
        ],
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 4,
    },
    {
        "messages": HI,
        "stream": True,
        "stream_options": {"include_usage": True},
        "n": 2,
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["x", "\n"],
        "max_tokens": 3,
        "user": "u",
        "metadata": {"a": "b"},
        "store": False,
        "service_tier": "auto",
    },
    {
        "messages": HI,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
        },
        "reasoning_effort": "low",
        "reasoning_budget": 3,
        "chat_template_kwargs": {"enable_thinking": True},
        "max_tokens": 4,
    },
    {
        "messages": [*HI, {"role": "assistant", "content": "1, 2, "}],
        "continue_final_message": True,
        "guided_regex": "[a-z]+",
        "max_tokens": 2,
        "modalities": ["text"],
    },
    {"messages": HI, "guided_choice": ["yes", "no"], "max_tokens": 2, "stream": True},
    {"messages": HI, "structured_outputs": {"json": SCHEMA}, "max_tokens": 2, "adapter": "none"},
    {
        "messages": HI,
        "tools": [TOOL],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [TOOL]},
        },
        "max_tokens": 2,
    },
]
COMPLETIONS: list[dict[str, Any]] = [
    {"prompt": "Hi", "max_tokens": 3, **SAMPLING},
    {"prompt": ["a", "b"], "n": 2, "max_tokens": 2, "echo": True, "stream": True},
    {"prompt": [1, 2, 3], "logprobs": 2, "echo": True, "max_tokens": 0, "best_of": 1},
    {"prompt": [[1, 2], [3]], "logprobs": 0, "stream": True, "max_tokens": 2, "stop": "x"},
    {"prompt": "Hi", "guided_grammar": 'start: "a"', "max_tokens": 2, "suffix": None},
    {"prompt": "Hi", "response_format": {"type": "json_object"}, "max_tokens": 2, "user": "u"},
]
GOOD = {"/v1/chat/completions": CHATS, "/v1/completions": COMPLETIONS}

# ---- the other routes ---------------------------------------------------------------------

MESSAGES: list[dict[str, Any]] = [
    {
        "messages": HI,
        "max_tokens": 3,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "temperature": 0.5,
        "top_k": 5,
        "stop_sequences": ["x"],
        "metadata": {"user_id": "u"},
    },
    {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": ""},
                    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "2"},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
        "max_tokens": 3,
        "tools": [{"name": "add", "description": "Adds.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stream": True,
    },
    {
        "messages": HI,
        "max_tokens": 3,
        "thinking": {"type": "enabled", "budget_tokens": 5},
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"},
    },
]
RESPONSES: list[dict[str, Any]] = [
    {"input": "Hi", "max_output_tokens": 3, "temperature": 0.5, "metadata": {"a": "b"}},
    {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
        ],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}],
        "tool_choice": "required",
        "reasoning": {"effort": "low"},
        "max_output_tokens": 3,
        "stream": True,
        "store": False,
    },
    {
        "input": "Hi",
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
        "truncation": "auto",
        "include": [],
        "top_logprobs": 1,
        "max_output_tokens": 3,
    },
]
DECISIONS: list[dict[str, Any]] = [
    {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "It is late."}]},
            {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "23:10"},
            {"role": "user", "content": [{"type": "input_json", "data": {"a": [1, None]}}]},
        ],
        "questions": [
            {"type": "predicate", "instructions": "Is it late?"},
            {
                "type": "choice",
                "name": "fit",
                "instructions": "Which?",
                "choices": [{"value": "a"}, {"value": True, "description": "b"}],
            },
            {
                "type": "score",
                "instructions": "How?",
                "levels": [{"label": "low"}, {"label": "high"}],
            },
        ],
    },
]
SYSTEM_ONE: list[dict[str, Any]] = [
    {
        "model": "default",
        "state": {"hour": 23, "log": ["a", None]},
        "questions": {
            "late": {"type": "noul", "instructions": "Is it late?", "criteria": {"true": "yes"}},
            "tone": {"type": "choice", "criteria": {"warm": "kind", "cold": None}},
            "risk": {"type": "score", "instructions": ["a"], "criteria": ["low", {"b": 1}]},
        },
    },
    {"state": "x", "questions": {"q": {"type": "noul"}}, "temperature": None, "stream": False},
]
EMBEDDINGS: list[dict[str, Any]] = [
    {"input": "Hi", "encoding_format": "base64", "dimensions": 3, "user": "u"},
    {"input": ["a", "b"]},
    {"input": [[1, 2], [3]]},
]
GOOD |= {
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/responses": RESPONSES,
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/decisions": [*DECISIONS, *SYSTEM_ONE],
    "/v1/systemone": SYSTEM_ONE,
    "/v1/embeddings": EMBEDDINGS,
}
