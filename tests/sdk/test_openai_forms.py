"""Answers held to a form, through the official Python client.

The default model is held to some in `test_real_cases.py`, and beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import openai
import pytest
from pydantic import BaseModel

from headrace.runtime.testing.serving import Serving

Ask: TypeAlias = Callable[..., Any]


class Verdict(BaseModel):
    colour: Literal["red", "green", "blue"]
    sure: bool


ASKED: dict[str, Any] = {
    "model": "default",
    "messages": [{"role": "user", "content": "What colour is grass?"}],
    "temperature": 1,
    "seed": 3,
    "max_completion_tokens": 200,
}


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """Forms hold whatever the weights are."""
    return served_small


@pytest.fixture(scope="module")
def ask(client: openai.OpenAI) -> Ask:
    return lambda **given: client.chat.completions.create(**(ASKED | given))


def test_parse_gives_a_model(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**ASKED, response_format=Verdict)
    (choice,) = answer.choices
    assert isinstance(choice.message.parsed, Verdict)
    assert choice.finish_reason == "stop"


def test_the_stream_helper_parses_too(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**ASKED, response_format=Verdict) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    (done,) = [event for event in events if event.type == "content.done"]
    assert isinstance(done.parsed, Verdict)
    assert final.choices[0].message.parsed == done.parsed


def test_parse_says_that_an_answer_was_cut(client: openai.OpenAI) -> None:
    cut = ASKED | {"max_completion_tokens": 2}
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**cut, response_format=Verdict)


def test_a_schema_with_references_and_choices_holds_in_every_answer(ask: Ask) -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"$ref": "#/$defs/kind"},
            "pair": {"type": "array", "items": {"$ref": "#/$defs/kind"}, "minItems": 2},
            "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        },
        "required": ["kind", "pair", "maybe"],
        "additionalProperties": False,
        "$defs": {"kind": {"type": "string", "enum": ["alpha", "béta", 'gam"ma']}},
    }
    schema["properties"]["pair"]["maxItems"] = 2  # type: ignore[index]
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    for choice in ask(response_format=wanted, n=2, temperature=1.5).choices:
        value = json.loads(choice.message.content)
        assert {value["kind"], *value["pair"]} <= {"alpha", "béta", 'gam"ma'}
        assert len(value["pair"]) == 2
        assert value["maybe"] in (None, True, False)
        assert choice.finish_reason == "stop"


def test_any_object_is_an_object(ask: Ask) -> None:
    answer = ask(response_format={"type": "json_object"}, max_completion_tokens=12)
    (choice,) = answer.choices
    assert choice.message.content.startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"guided_regex": "[a-c]{3}"}, "[a-c]{3}"),
        ({"structured_outputs": {"grammar": 'start: "x" ("y" | "z")'}}, "x[yz]"),
    ],
    ids=["choice", "regex", "grammar"],
)
def test_other_forms_go_in_the_body(ask: Ask, form: dict[str, Any], pattern: str) -> None:
    (choice,) = ask(extra_body=form).choices
    assert re.fullmatch(pattern, choice.message.content)
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"response_format": {"type": "json_schema"}}, "missing_field"),
        ({"response_format": {"type": "yaml"}}, "invalid_value"),
        ({"extra_body": {"guided_regex": "("}}, "invalid_grammar"),
        ({"extra_body": {"guided_choice": ["a"], "guided_regex": "a"}}, "conflicting_constraints"),
    ],
    ids=["no schema", "no such form", "no regex", "two forms"],
)
def test_a_form_that_cannot_be_is_a_bad_request(ask: Ask, form: dict[str, Any], code: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(**form)
    assert caught.value.code == code
