"""Decisions in the shape of Jev's clients."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.asking import Stamp
from headrace.http.wire.decided import DecisionRules
from headrace.http.wire.systemone import parse
from headrace.runtime.contracts import Accepted, Event, Finished, Usage
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import Decided, Question

STAMP = Stamp("req_1", "ab", seed=1, created=2)
RULES = DecisionRules(most_questions=3, temperature={"choice": 2.0})
NOUL: dict[str, Any] = {"type": "noul", "instructions": "Is it late?"}
TONE: dict[str, Any] = {"type": "choice", "criteria": {"warm": "kind words", "cold": None}}
RISK: dict[str, Any] = {"type": "score", "criteria": ["none", {"some": 1}, "much"]}
BODY: dict[str, Any] = {"state": "It is late.", "questions": {"late": NOUL}}


def decided(*probabilities: tuple[float, ...]) -> list[Event]:
    read = [Decided(number, p) for number, p in enumerate(probabilities)]
    # The order in which they were read is nobody's business.
    return [Accepted("m", 90, 0, "fp_1"), *reversed(read), Finished("stop", Usage(90, len(read)))]


def test_questions_are_put_to_the_core_in_its_own_words() -> None:
    body = BODY | {"model": "m", "questions": {"late": NOUL, "tone": TONE, "risk": RISK}}
    (request,) = parse(body, STAMP, RULES).requests
    assert (request.model, request.state) == ("m", "It is late.")
    assert request.questions == (
        Question("questions.late", "Is it late?", ("true", "false"), 1.0),
        Question("questions.tone", "tone", ("warm: kind words", "cold"), 2.0),
        Question("questions.risk", "risk", ("none", '{"some":1}', "much"), 1.0),
    )


def test_evidence_of_any_kind_is_shown_as_compact_json() -> None:
    question = {"type": "noul", "instructions": ["a", 1], "criteria": {"true": {"b": 2}}}
    body = {"state": {"z": 1, "a": [2]}, "questions": {"q": question}}
    (request,) = parse(body, STAMP, RULES).requests
    assert request.state == '{"z":1,"a":[2]}'
    assert request.questions[0].text == '["a",1]'
    assert request.questions[0].options == ('true: {"b":2}', "false")


def test_answers_have_the_questions_names_in_their_order() -> None:
    asked = parse(BODY | {"questions": {"r": RISK, "t": TONE, "n": NOUL}}, STAMP, RULES)
    answer = asked.complete(decided((0.1, 0.1, 0.8), (0.75, 0.25), (1 / 3, 2 / 3)))
    assert list(answer["answers"].items()) == [
        (
            "r",
            {
                "type": "score",
                "score": 1.7,
                "confidence": 0.55,
                "legend": {"0": "none", "1": {"some": 1}, "2": "much"},
                "probabilities": {"0": 0.1, "1": 0.1, "2": 0.8},
            },
        ),
        (
            "t",
            {
                "type": "choice",
                "choice": "warm",
                "confidence": 0.5,
                "probabilities": {"warm": 0.75, "cold": 0.25},
            },
        ),
        ("n", {"type": "noul", "noul": 0.333333}),
    ]
    assert (answer["id"], answer["model"]) == ("dec_ab", "m")
    assert answer["usage"] == {"input_tokens": 90, "output_tokens": 3}


def questions(**named: Any) -> dict[str, Any]:
    return BODY | {"questions": named}


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"questions": {"a": NOUL}}, Code.MISSING_FIELD, "state"),
        (BODY | {"state": 5}, Code.INVALID_TYPE, "state"),
        ({"state": "x"}, Code.MISSING_FIELD, "questions"),
        (BODY | {"questions": {}}, Code.INVALID_VALUE, "questions"),
        (questions(a=NOUL, b=NOUL, c=NOUL, d=NOUL), Code.INVALID_VALUE, "questions"),
        (questions(**{"n" * 129: NOUL}), Code.INVALID_VALUE, "questions"),
        (questions(a=5), Code.INVALID_TYPE, "questions.a"),
        (questions(a={}), Code.MISSING_FIELD, "questions.a.type"),
        (questions(a={"type": "box"}), Code.UNSUPPORTED_QUESTION, "questions.a.type"),
        (questions(a={"type": "poem"}), Code.UNSUPPORTED_QUESTION, "questions.a.type"),
        (questions(a=NOUL | {"weight": 2}), Code.INVALID_VALUE, "questions.a.weight"),
        (questions(a={"type": "choice"}), Code.MISSING_FIELD, "questions.a.criteria"),
        (questions(a=TONE | {"criteria": {}}), Code.INVALID_VALUE, "questions.a.criteria"),
        (questions(a=TONE | {"criteria": {"x": 5}}), Code.INVALID_TYPE, "questions.a.criteria.x"),
        (questions(a=RISK | {"criteria": ["l"] * 33}), Code.INVALID_VALUE, "questions.a.criteria"),
        (questions(a=RISK | {"criteria": {}}), Code.INVALID_TYPE, "questions.a.criteria"),
        (BODY | {"temperature": 0.5}, Code.UNSUPPORTED_PARAMETER, "temperature"),
        (BODY | {"stream": True}, Code.UNSUPPORTED_PARAMETER, "stream"),
        (BODY | {"tools": []}, Code.UNSUPPORTED_PARAMETER, "tools"),
        (BODY | {"assets": {}}, Code.INVALID_VALUE, "assets"),
        (BODY | {"assets": {"a": {"type": "image"}}}, Code.VISION_TOWER_ABSENT, "assets"),
        (
            BODY | {"assets": {"a": {"type": "image", "part": "asset-0"}}},
            Code.INVALID_VALUE,
            "assets.a.part",
        ),
    ],
)
def test_what_cannot_be_decided_is_refused_by_its_path(
    body: dict[str, Any], code: Code, param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        parse(body, STAMP, RULES)
    assert (caught.value.code, caught.value.info.param) == (code, param)


def test_a_file_that_nobody_claims_is_refused() -> None:
    with pytest.raises(RequestError, match="asset-0") as caught:
        parse(BODY, STAMP, RULES, parts=("asset-0",))
    assert caught.value.info.param == "assets"
