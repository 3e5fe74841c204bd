"""A tool's way through LangChain: `python langchain_loop.py BASE_URL` prints what happened."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

asked: list[str] = []


def weather(city: Literal["Oslo", "Rome"]) -> str:
    """Look up the weather in a city."""
    asked.append(city)
    return "rainy"


def main(base_url: str) -> None:
    tool = StructuredTool.from_function(weather)
    model = ChatOpenAI(
        model="default", base_url=base_url, api_key="any", max_retries=0, temperature=0
    )
    turns: list[Any] = [HumanMessage("What is the weather?")]
    # A tiny model would call nothing of its own accord.
    calling = model.bind_tools([tool], tool_choice="weather", parallel_tool_calls=False)
    call = calling.invoke(turns, max_tokens=80)
    turns += [call, *(tool.invoke(wanted) for wanted in call.tool_calls)]
    answer: Any = None
    for piece in model.bind_tools([tool]).stream(turns, max_tokens=8, stream_usage=True):
        answer = piece if answer is None else answer + piece
    print(json.dumps({"asked": asked, "tokens": answer.usage_metadata["output_tokens"]}))  # noqa: T201


main(sys.argv[1])
