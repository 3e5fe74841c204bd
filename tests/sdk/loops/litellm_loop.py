"""A tool's way through LiteLLM: `python litellm_loop.py BASE_URL` prints what happened."""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm

WEATHER = {
    "name": "weather",
    "description": "Look up the weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}},
        "required": ["city"],
    },
}

asked: list[str] = []


def weather(city: str) -> str:
    asked.append(city)
    return "rainy"


def main(base_url: str) -> None:
    fields: dict[str, Any] = {
        "model": "openai/default",
        "api_base": base_url,
        "api_key": "any",
        "max_retries": 0,
        "temperature": 0,
        "tools": [{"type": "function", "function": WEATHER}],
    }
    turns: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    # A tiny model would call nothing of its own accord.
    named = {"type": "function", "function": {"name": "weather"}}
    call = litellm.completion(
        messages=turns, tool_choice=named, parallel_tool_calls=False, max_tokens=80, **fields
    )
    turns.append(call.choices[0].message)
    for wanted in call.choices[0].message.tool_calls:
        result = weather(**json.loads(wanted.function.arguments))
        turns.append({"role": "tool", "tool_call_id": wanted.id, "content": result})
    options = {"include_usage": True}
    pieces = list(
        litellm.completion(
            messages=turns, stream=True, stream_options=options, max_tokens=8, **fields
        )
    )
    answer: Any = litellm.stream_chunk_builder(pieces)
    print(json.dumps({"asked": asked, "tokens": answer.usage.completion_tokens}))  # noqa: T201


main(sys.argv[1])
