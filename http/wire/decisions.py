"""POST /v1/decisions with an array of questions: the shape of OpenAI's clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from headrace.http.wire.asking import Stamp
from headrace.http.wire.decided import (
    Asking,
    DecisionRules,
    Teller,
    check_refused,
    choice_confidence,
    described,
    expected_level,
    likeliest,
    rounded,
    score_confidence,
)
from headrace.http.wire.decision_items import read_parts, read_state
from headrace.http.wire.fields import Fields, as_array, wrong_type, wrong_value
from headrace.http.wire.readings import Readings
from headrace.http.wire.rules import TEXT, Rule
from headrace.http.wire.shared_fields import check
from headrace.runtime.contracts import Event, Usage
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import DecisionRequest, Question

MOST_CHOICES, MOST_LEVELS = 255, 10
RULES: dict[str, Rule] = {"model": TEXT, "prompt_cache_key": TEXT, "safety_identifier": TEXT}
# How each type of question is called among the settings.
KINDS = {"predicate": "noul", "choice": "choice", "score": "score"}


@attrs.frozen
class Decisions:
    """The decisions that were asked for, in order."""

    requests: tuple[DecisionRequest]
    response_id: str
    tellers: tuple[Teller, ...]

    @property
    def prompt_field(self) -> str:
        return "input"

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        run = Readings.of(events)
        pairs = zip(self.tellers, run.probabilities(), strict=True)
        answers = [tell(probabilities) for tell, probabilities in pairs]
        usage = _usage(run.usage)
        return {"model": run.model, "answers": answers, "usage": usage, **run.warnings}


def parse(body: dict[str, Any], stamp: Stamp, rules: DecisionRules) -> Decisions:
    """Read a body. Raises `RequestError`, which names the field."""
    fields = Fields(body)
    check_refused(fields)
    check(fields, RULES)
    state = read_state(fields)
    asked = _questions(fields, rules)
    request = DecisionRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        state=state,
        questions=tuple(asking.question for asking in asked),
        route=stamp.route,
    )
    return Decisions((request,), f"dec_{stamp.token}", tuple(asking.tell for asking in asked))


def _questions(fields: Fields, rules: DecisionRules) -> list[Asking]:
    path = fields.path("questions")
    as_array(fields.required("questions"), path)
    questions = fields.each("questions")
    if not 1 <= len(questions) <= rules.most_questions:
        raise wrong_value(path, f"must hold 1 to {rules.most_questions} questions")
    return [_question(question, rules) for question in questions]


def _question(fields: Fields, rules: DecisionRules) -> Asking:
    kind = fields.required_text("type")
    read = READERS.get(kind)
    if read is None:
        text = f"{fields.path('type')} must be one of {', '.join(READERS)}."
        raise RequestError(Code.UNSUPPORTED_QUESTION, text, param=fields.path("type"))
    text = read_parts(fields.required("instructions"), fields.path("instructions"))
    options, tell = read(fields, fields.text("name"))
    question = Question(fields.whole, text, options, rules.of_kind(KINDS[kind]))
    return Asking(question, tell)


def _predicate(fields: Fields, name: str | None) -> tuple[tuple[str, ...], Teller]:
    def tell(probabilities: Sequence[float]) -> dict[str, Any]:
        return {"type": "predicate", "name": name, "probability": rounded(probabilities[0])}

    return ("true", "false"), tell


def _choice(fields: Fields, name: str | None) -> tuple[tuple[str, ...], Teller]:
    choices = _several(fields, "choices", MOST_CHOICES)
    values = [_value(choice) for choice in choices]
    for at, value in enumerate(values):
        if any(value == other and type(value) is type(other) for other in values[:at]):
            raise wrong_value(choices[at].path("value"), "must be there once only")

    def tell(probabilities: Sequence[float]) -> dict[str, Any]:
        return {
            "type": "choice",
            "name": name,
            "choice": values[likeliest(probabilities)],
            "confidence": rounded(choice_confidence(probabilities)),
            "probabilities": [
                {"value": value, "probability": rounded(p)}
                for value, p in zip(values, probabilities, strict=True)
            ],
        }

    options = tuple(
        described(_shown(value), choice.text("description"))
        for choice, value in zip(choices, values, strict=True)
    )
    return options, tell


def _score(fields: Fields, name: str | None) -> tuple[tuple[str, ...], Teller]:
    levels = _several(fields, "levels", MOST_LEVELS)
    labels = [level.required_text("label") for level in levels]

    def tell(probabilities: Sequence[float]) -> dict[str, Any]:
        return {
            "type": "score",
            "name": name,
            "score": rounded(expected_level(probabilities)),
            "confidence": rounded(score_confidence(probabilities)),
            "probabilities": [
                {"value": at, "label": label, "probability": rounded(p)}
                for at, (label, p) in enumerate(zip(labels, probabilities, strict=True))
            ],
        }

    options = tuple(
        described(label, level.text("description"))
        for level, label in zip(levels, labels, strict=True)
    )
    return options, tell


READERS = {"predicate": _predicate, "choice": _choice, "score": _score}


def _several(fields: Fields, name: str, most: int) -> list[Fields]:
    as_array(fields.required(name), fields.path(name))
    found = fields.each(name)
    if not 2 <= len(found) <= most:
        raise wrong_value(fields.path(name), f"must hold 2 to {most} entries")
    return found


def _value(choice: Fields) -> str | bool:
    value = choice.required("value")
    if not isinstance(value, str | bool):
        raise wrong_type(choice.path("value"), "a string or a boolean")
    return value


def _shown(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
