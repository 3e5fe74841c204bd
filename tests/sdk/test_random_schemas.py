"""Random schemas, the whole way: what ends by itself is what was asked for."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from headrace.runtime.testing.random_schemas import judge, random_schema
from headrace.runtime.testing.serving import Serving

AT_A_TIME = 12
# Every so many rows one is free.
FREE = 4


@pytest.mark.timeout(600)
def test_what_ends_validates_beside_rows_that_are_free_n1_n2(
    quick: openai.OpenAI, nothing_left_small: Serving
) -> None:
    """Whatever the weights are, the form holds."""
    check(quick, 16)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_default_model_keeps_to_them_too_n1_n2(
    client: openai.OpenAI, nothing_left: Serving
) -> None:
    check(client, 200)


def check(client: openai.OpenAI, count: int) -> None:
    patient = client.with_options(timeout=600)

    def answer(number: int, schema: dict[str, Any] | None) -> Any:
        form: Any = {"name": "example", "schema": schema}
        fields: dict[str, Any] = (
            {}
            if schema is None
            else {"response_format": {"type": "json_schema", "json_schema": form}}
        )
        asked: list[Any] = [{"role": "user", "content": "Give me an example, as JSON."}]
        answered = patient.chat.completions.create(
            model="default",
            messages=asked,
            temperature=1,
            seed=number,
            max_tokens=20 if schema is None else 80,
            **fields,
        )
        return answered.choices[0]

    schemas = [random_schema(random.Random(seed)) for seed in range(count)]
    asks: list[dict[str, Any] | None] = []
    for number, schema in enumerate(schemas):
        asks += [schema] if number % FREE else [None, schema]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        choices = list(pool.map(answer, range(len(asks)), asks))
    ended = 0
    for asked, choice in zip(asks, choices, strict=True):
        if asked is not None and choice.finish_reason == "stop":
            ended += 1
            judge(asked).validate(json.loads(choice.message.content))
    assert ended > count / 2
