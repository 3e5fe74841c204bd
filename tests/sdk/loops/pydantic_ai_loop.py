"""A tool's way through pydantic-ai: `python pydantic_ai_loop.py BASE_URL` prints what happened."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

asked: list[str] = []


class Verdict(BaseModel):
    umbrella: bool


def weather(city: Literal["Oslo", "Rome"]) -> str:
    """Look up the weather in a city."""
    asked.append(city)
    return "rainy"


def settings(ctx: RunContext[None]) -> dict[str, Any]:
    """A tiny model would not choose well, so it has no choice: first the weather, then the end."""
    forced = ["final_result"] if asked else ["weather"]
    return {
        "tool_choice": forced,
        "parallel_tool_calls": False,
        "temperature": 0,
        "max_tokens": 80,
    }


def main(base_url: str) -> None:
    provider = OpenAIProvider(base_url=base_url, api_key="any")
    agent = Agent(
        OpenAIChatModel("default", provider=provider),
        tools=[weather],
        output_type=ToolOutput(Verdict),
        model_settings=settings,
    )
    ran = agent.run_sync("Do I need an umbrella?")
    assert isinstance(ran.output, Verdict)
    print(json.dumps({"asked": asked, "tokens": ran.usage.output_tokens}))  # noqa: T201


main(sys.argv[1])
