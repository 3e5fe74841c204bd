"""Decisions in the shape of OpenAI's clients."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.asking import Stamp
from headrace.http.wire.decided import DecisionRules
from headrace.http.wire.decisions import parse
from headrace.runtime.contracts import Accepted, Finished, Usage
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import Decided, Question

STAMP = Stamp("req_1", "ab", seed=1, created=2)
RULES = DecisionRules(most_questions=3, temperature={"noul": 0.5})
LATE: dict[str, Any] = {"type": "predicate", "instructions": "Is it late?"}
FIT: dict[str, Any] = {
    "type": "choice",
    "name": "fit",
    "instructions": [{"type": "input_text", "text": "Does it fit?"}],
    "choices": [{"value": True, "description": "it fits"}, {"value": "true"}, {"value": "no"}],
}
RISK: dict[str, Any] = {
    "type": "score",
    "instructions": "How risky?",
    "levels": [{"label": "low"}, {"label": "high", "description": "very"}],
}
BODY: dict[str, Any] = {"input": "It is late.", "questions": [LATE]}


def test_questions_are_put_to_the_core_in_its_own_words() -> None:
    asked = parse(BODY | {"questions": [LATE, FIT, RISK]}, STAMP, RULES)
    (request,) = asked.requests
    assert request.state == "It is late."
    assert request.questions == (
        Question("questions[0]", "Is it late?", ("true", "false"), 0.5),
        Question("questions[1]", "Does it fit?", ("true: it fits", "true", "no"), 1.0),
        Question("questions[2]", "How risky?", ("low", "high: very"), 1.0),
    )


def test_answers_come_in_order_and_keep_the_values_types() -> None:
    asked = parse(BODY | {"questions": [LATE, FIT, RISK]}, STAMP, RULES)
    read = [Decided(0, (0.2, 0.8)), Decided(1, (0.1, 0.8, 0.1)), Decided(2, (0.25, 0.75))]
    usage = Usage(90, 3, cached_tokens=64)
    answer = asked.complete([Accepted("m", 90, 0, "fp"), *read, Finished("stop", usage)])
    assert answer["model"] == "m"
    assert answer["answers"] == [
        {"type": "predicate", "name": None, "probability": 0.2},
        {
            "type": "choice",
            "name": "fit",
            "choice": "true",
            "confidence": 0.7,
            "probabilities": [
                {"value": True, "probability": 0.1},
                {"value": "true", "probability": 0.8},
                {"value": "no", "probability": 0.1},
            ],
        },
        {
            "type": "score",
            "name": None,
            "score": 0.75,
            "confidence": 0.5,
            "probabilities": [
                {"value": 0, "label": "low", "probability": 0.25},
                {"value": 1, "label": "high", "probability": 0.75},
            ],
        },
    ]
    assert answer["usage"] == {
        "input_tokens": 90,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 93,
    }


def test_a_conversation_is_told_as_one_text() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be fair."}]},
        {"type": "message", "role": "user", "content": "Look this up."},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "a b"}],
        },
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_json", "data": {"b": 1, "a": [None]}},
            ],
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "Fine."}]},
    ]
    (request,) = parse(BODY | {"input": items}, STAMP, RULES).requests
    assert request.state.split("\n\n") == [
        "developer: Be fair.",
        "user: Look this up.",
        'assistant calls find: {"q":1}',
        "result: nothing",
        "assistant calls sh: ls",
        "result: a b",
        'user: And this?\n{"b":1,"a":[null]}',
        "assistant: Fine.",
    ]


def saying(*parts: Any, role: str = "user") -> dict[str, Any]:
    return BODY | {"input": [{"role": role, "content": list(parts)}]}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"questions": [LATE]}, Code.MISSING_FIELD, "input"),
        (BODY | {"input": []}, Code.INVALID_VALUE, "input"),
        (BODY | {"input": {}}, Code.INVALID_TYPE, "input"),
        (BODY | {"input": [{"role": "tool", "content": "x"}]}, Code.INVALID_VALUE, "input[0].role"),
        (BODY | {"input": [{"type": "search"}]}, Code.INVALID_VALUE, "input[0].type"),
        (
            BODY | {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            Code.INVALID_VALUE,
            "input[0].call_id",
        ),
        (
            saying({"type": "input_image", "image_url": "x"}),
            Code.VISION_TOWER_ABSENT,
            "input[0].content[0]",
        ),
        (
            saying({"type": "input_json", "data": 1}, role="system"),
            Code.UNSUPPORTED_CONTENT_PART,
            "input[0].content[0].type",
        ),
        (
            saying({"type": "input_json", "data": nested(33)}),
            Code.INVALID_VALUE,
            "input[0].content[0].data",
        ),
        (
            saying({"type": "input_json", "data": [0] * 10_000}),
            Code.INVALID_VALUE,
            "input[0].content[0].data",
        ),
        (
            saying({"type": "input_json", "data": "x" * 2**18}),
            Code.INVALID_VALUE,
            "input[0].content[0].data",
        ),
        (saying({"type": "input_json"}), Code.MISSING_FIELD, "input[0].content[0].data"),
        (BODY | {"questions": []}, Code.INVALID_VALUE, "questions"),
        (BODY | {"questions": [LATE] * 4}, Code.INVALID_VALUE, "questions"),
        (
            BODY | {"questions": [{"type": "predicate"}]},
            Code.MISSING_FIELD,
            "questions[0].instructions",
        ),
        (
            BODY | {"questions": [LATE, {"type": "noul"}]},
            Code.UNSUPPORTED_QUESTION,
            "questions[1].type",
        ),
        (
            BODY | {"questions": [FIT | {"choices": [{"value": "a"}]}]},
            Code.INVALID_VALUE,
            "questions[0].choices",
        ),
        (
            BODY | {"questions": [FIT | {"choices": [{"value": "a"}, {"value": "a"}]}]},
            Code.INVALID_VALUE,
            "questions[0].choices[1].value",
        ),
        (
            BODY | {"questions": [FIT | {"choices": [{"value": "a"}, {"value": 5}]}]},
            Code.INVALID_TYPE,
            "questions[0].choices[1].value",
        ),
        (
            BODY | {"questions": [RISK | {"levels": [{"label": "l"}] * 11}]},
            Code.INVALID_VALUE,
            "questions[0].levels",
        ),
        (BODY | {"temperature": 1}, Code.UNSUPPORTED_PARAMETER, "temperature"),
        (BODY | {"safety_identifier": 5}, Code.INVALID_TYPE, "safety_identifier"),
    ],
)
def test_what_cannot_be_decided_is_refused_by_its_path(
    body: dict[str, Any], code: Code, param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        parse(body, STAMP, RULES)
    assert (caught.value.code, caught.value.info.param) == (code, param)


def test_json_up_to_the_limits_is_read() -> None:
    for data in (nested(32), [0] * 9_999, "x" * (2**18 - 2), None):
        (request,) = parse(saying({"type": "input_json", "data": data}), STAMP, RULES).requests
        assert request.state
