"""Our own description says what the code does: the same fields, and no values that it breaks on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.app import ROUTES
from headrace.http.described import described
from headrace.http.wire import (
    anthropic_messages,
    decisions,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_responses,
    systemone,
)
from headrace.http.wire.asking import Asked, Stamp
from headrace.http.wire.decided import DecisionRules
from headrace.http.wire.openai_responses import Known
from headrace.runtime.contracts import Accepted, Event, Finished, Usage
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.readings import Decided, Embedded
from headrace.runtime.testing.runs import runs
from headrace.runtime.testing.wires import complete

STAMP = Stamp("req_1", "1", seed=7, created=1760000000, most_choices=2**31)
DOCUMENT = described("1.0")
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
CHAT, COMPLETION = SCHEMAS["ChatRequest"], SCHEMAS["CompletionRequest"]
EMBEDDING = SCHEMAS["EmbeddingRequest"]
# How a description writes what is `<name>` in a route.
BRACES = str.maketrans("<>", "{}")
# What a schema cannot say: fields that exclude each other, and media that no model here takes.
BEYOND_A_SCHEMA = {
    Code.ADAPTER_NOT_FOUND,
    Code.CONFLICTING_CONSTRAINTS,
    Code.INVALID_TOOL_CHOICE,
    Code.INVALID_SCHEMA,
    Code.UNSUPPORTED_EXECUTION,
    Code.VISION_TOWER_ABSENT,
    Code.AUDIO_TOWER_UNAVAILABLE,
    Code.VIDEO_UNSUPPORTED,
}


def response(body: dict[str, Any], stamp: Stamp) -> Asked:
    return openai_responses.parse(body, stamp, Known())


SCALARS: dict[str, Callable[[Any], st.SearchStrategy[Any]]] = {
    "null": lambda schema: st.none(),
    "boolean": lambda schema: st.booleans(),
    "integer": lambda schema: st.integers(schema.get("minimum"), schema.get("maximum")),
    "number": lambda schema: st.floats(
        schema.get("minimum", schema.get("exclusiveMinimum")),
        schema.get("maximum"),
        exclude_min="exclusiveMinimum" in schema,
    ),
    "string": lambda schema: st.text(min_size=schema.get("minLength", 0), max_size=4),
    "array": lambda schema: st.lists(
        values_of(schema.get("items", {"type": "null"})),
        min_size=schema.get("minItems", 0),
        max_size=3,
    ),
    "object": lambda schema: st.fixed_dictionaries(
        {name: values_of(schema["properties"][name]) for name in schema.get("required", ())},
        optional={
            name: values_of(part)
            for name, part in schema.get("properties", {}).items()
            if name not in schema.get("required", ())
        },
    ),
}


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    """Values that a schema of ours admits."""
    if "anyOf" in schema:
        return st.one_of([values_of(part) for part in schema["anyOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].strip("^$"), fullmatch=True)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([SCALARS[kind](schema) for kind in kinds])


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_every_path_is_served_and_every_reference_leads_somewhere() -> None:
    served = {(route.method, route.path.translate(BRACES)) for route in ROUTES}
    for path, methods in DOCUMENT["paths"].items():
        for method in methods:
            assert (method.upper(), path) in served
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert "SynthesizeConfig" in references
    assert references <= SCHEMAS.keys()


def test_notes_the_live_view_and_the_page_are_described() -> None:
    assert {"/v1/memory/synthesize", "/live", "/page/{name}"} <= DOCUMENT["paths"].keys()
    validator = jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/SynthesizeConfig", "components": DOCUMENT["components"]}
    )
    said = {"role": "user", "content": "Hi"}
    assert validator.is_valid({"folder": "notes", "messages": [said]})
    assert not validator.is_valid({"messages": [said]})


@pytest.mark.parametrize(
    ("parse", "schema", "body"),
    [
        (openai_chat.parse, CHAT, {"messages": [{"role": "user", "content": "Hi"}]}),
        (openai_completions.parse, COMPLETION, {"prompt": "Hi"}),
        (openai_embeddings.parse, EMBEDDING, {"input": "Hi"}),
        (
            anthropic_messages.parse,
            SCHEMAS["MessageRequest"],
            {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5},
        ),
        (response, SCHEMAS["ResponseRequest"], {"input": "Hi"}),
    ],
    ids=["chat", "completions", "embeddings", "messages", "responses"],
)
class TestBodies:
    def test_what_is_not_described_is_refused(
        self, parse: Callable[..., Asked], schema: Any, body: dict[str, Any]
    ) -> None:
        # A field that is described and not read would let anything pass.
        for name, part in schema["properties"].items():
            validator = jsonschema.Draft202012Validator(part)
            wrong = [
                v for v in ("x", 5, -1, 0.5, True, [0.5], {"a": 0.5}) if not validator.is_valid(v)
            ]
            assert wrong
            for value in wrong:
                assert refusal(parse, body | {name: value}) is not None, (name, value)

    @given(st.data())
    def test_what_is_described_is_read(
        self, parse: Callable[..., Asked], schema: Any, body: dict[str, Any], data: st.DataObject
    ) -> None:
        names = data.draw(st.sets(st.sampled_from(sorted(schema["properties"])), max_size=3))
        members = {name: schema["properties"][name] for name in sorted(names)}
        drawn = body | {n: data.draw(values_of(part), label=n) for n, part in members.items()}
        jsonschema.Draft202012Validator(schema).validate(drawn)
        refused = refusal(parse, drawn)
        assert refused is None or is_beyond(refused, drawn)


def refusal(parse: Callable[..., Asked], body: dict[str, Any]) -> ErrorInfo | None:
    try:
        parse(body, STAMP)
    except RequestError as error:
        return error.info
    return None


def is_beyond(refused: ErrorInfo, body: dict[str, Any]) -> bool:
    """Whether a schema could not have said it."""
    param = refused.param or ""
    if refused.code in BEYOND_A_SCHEMA:
        return True
    if param.startswith("tools[") and param.endswith(".name"):
        return refused.code is Code.INVALID_VALUE
    if param.startswith("response_format.json_schema"):
        return refused.code is Code.MISSING_FIELD
    if param.startswith("output_config.format") or param in ("background", "input"):
        return True
    if param == "best_of":
        return bool(body["best_of"] != (body.get("n") or 1))
    if param == "top_logprobs":
        return not body.get("logprobs")
    if param in ("continue_final_message", "n"):
        return True
    return param == "prompt" and (body.get("n") or 1) > 1


@given(runs())
def test_an_answer_is_as_described(events: list[Any]) -> None:
    chat = openai_chat.parse({"messages": [{"role": "user", "content": "Hi"}]}, STAMP)
    jsonschema.Draft202012Validator(SCHEMAS["ChatAnswer"]).validate(complete(chat, events))


@given(runs(plain=True))
def test_a_plain_answer_is_as_described(events: list[Any]) -> None:
    plain = openai_completions.parse({"prompt": "Hi"}, STAMP)
    jsonschema.Draft202012Validator(SCHEMAS["CompletionAnswer"]).validate(complete(plain, events))


READ: list[Any] = [
    (systemone, "SystemOne", {"state": {"a": 1}, "questions": {"late": {"type": "noul"}}}),
    (
        systemone,
        "SystemOne",
        {"state": "x", "questions": {"q": {"type": "score", "criteria": ["a", ["b"]]}}},
    ),
    (
        systemone,
        "SystemOne",
        {"state": "x", "questions": {"q": {"type": "choice", "criteria": {"a": None, "b": "c"}}}},
    ),
    (
        decisions,
        "Decision",
        {
            "input": "x",
            "questions": [
                {
                    "type": "choice",
                    "instructions": "y",
                    "choices": [{"value": True}, {"value": "b"}],
                }
            ],
        },
    ),
    (
        decisions,
        "Decision",
        {
            "input": [{"role": "user", "content": "x"}],
            "questions": [
                {
                    "type": "score",
                    "name": "n",
                    "instructions": "y",
                    "levels": [{"label": "a"}, {"label": "b"}],
                }
            ],
        },
    ),
]


@pytest.mark.parametrize(("protocol", "name", "body"), READ)
def test_decisions_are_as_described(protocol: Any, name: str, body: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[f"{name}Request"]).validate(body)
    asked = protocol.parse(body, STAMP, DecisionRules())
    read: list[Event] = [
        Accepted("m", 9, 0, "fp"),
        Decided(0, (0.25, 0.75)),
        Finished("stop", Usage(9, 1)),
    ]
    answer = json.loads(json.dumps(asked.complete(read)))
    jsonschema.Draft202012Validator(SCHEMAS[f"{name}Answer"]).validate(answer)


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_vectors_are_as_described(encoding: str) -> None:
    asked = openai_embeddings.parse({"input": "a", "encoding_format": encoding}, STAMP)
    read: list[Event] = [
        Accepted("m", 9, 0, "fp"),
        Embedded(0, bytes(8)),
        Finished("stop", Usage(9, 0)),
    ]
    jsonschema.Draft202012Validator(SCHEMAS["EmbeddingAnswer"]).validate(asked.complete(read))


@given(runs())
def test_a_message_is_as_described(events: list[Any]) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
    message = anthropic_messages.parse(body, STAMP)
    jsonschema.Draft202012Validator(SCHEMAS["MessageAnswer"]).validate(complete(message, events))


@given(runs())
def test_a_response_is_as_described(events: list[Any]) -> None:
    whole = complete(response({"input": "Hi"}, STAMP), events)
    jsonschema.Draft202012Validator(SCHEMAS["ResponseAnswer"]).validate(whole)
