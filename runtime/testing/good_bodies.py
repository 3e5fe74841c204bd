"""Good bodies for every field of the OpenAI routes, to be spoiled by `mutants`."""

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
