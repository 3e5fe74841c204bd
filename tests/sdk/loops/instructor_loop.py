"""A tool's way through instructor: `python instructor_loop.py BASE_URL` prints what happened."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

import instructor
import openai
from pydantic import BaseModel

asked: list[str] = []


class Weather(BaseModel):
    """Look up the weather in a city."""

    city: Literal["Oslo", "Rome"]

    def look_up(self) -> str:
        asked.append(self.city)
        return "rainy"


class Verdict(BaseModel):
    umbrella: bool


def main(base_url: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    fields: dict[str, Any] = {"model": "default", "temperature": 0, "max_tokens": 80}
    turns: list[Any] = [{"role": "user", "content": "Do I need an umbrella?"}]
    tools = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    call, whole = tools.chat.completions.create_with_completion(
        messages=turns,
        response_model=Weather,
        max_retries=0,
        parallel_tool_calls=False,
        **fields,
    )
    said = whole.choices[0].message
    turns.append(said.model_dump())
    result = call.look_up()
    turns += [
        {"role": "tool", "tool_call_id": wanted.id, "content": result} for wanted in said.tool_calls
    ]
    forms = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
    verdict, whole = forms.chat.completions.create_with_completion(
        messages=turns, response_model=Verdict, max_retries=0, **fields
    )
    assert isinstance(verdict, Verdict)
    print(json.dumps({"asked": asked, "tokens": whole.usage.completion_tokens}))  # noqa: T201


main(sys.argv[1])
