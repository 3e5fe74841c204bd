"""POST /v1/systemone, and /v1/decisions with an object of questions: the shape of Jev's clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from headrace.http.wire.asking import Stamp
from headrace.http.wire.decided import (
    Asking,
    DecisionRules,
    Teller,
    as_shown,
    check_refused,
    choice_confidence,
    described,
    expected_level,
    likeliest,
    rounded,
    score_confidence,
)
from headrace.http.wire.fields import Fields, as_array, as_object, wrong_value
from headrace.http.wire.readings import Readings
from headrace.runtime.contracts import Event
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import DecisionRequest, Question

NAME_CHARACTERS = 128
MOST_LABELS, MOST_LEVELS = 255, 32
MEMBERS = {"type", "instructions", "criteria"}


@attrs.frozen
class SystemOne:
    """The decisions that were asked for, by name."""

    requests: tuple[DecisionRequest]
    response_id: str
    tellers: dict[str, Teller]

    @property
    def prompt_field(self) -> str:
        return "state"

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        run = Readings.of(events)
        answers = {
            name: tell(probabilities)
            for (name, tell), probabilities in zip(
                self.tellers.items(), run.probabilities(), strict=True
            )
        }
        usage = {
            "input_tokens": run.usage.prompt_tokens,
            "output_tokens": run.usage.completion_tokens,
        }
        answered = {"id": self.response_id, "model": run.model, "answers": answers, "usage": usage}
        return answered | run.warnings


def parse(
    body: dict[str, Any], stamp: Stamp, rules: DecisionRules, parts: Sequence[str] = ()
) -> SystemOne:
    """Read a body; `parts` are the names of the files that came with it. Raises `RequestError`."""
    fields = Fields(body)
    check_refused(fields)
    _check_assets(fields, parts)
    state = as_shown(fields.required("state"), fields.path("state"))
    asked = _questions(fields, rules)
    request = DecisionRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        state=state,
        questions=tuple(asking.question for asking in asked.values()),
        route=stamp.route,
    )
    tellers = {name: asking.tell for name, asking in asked.items()}
    return SystemOne((request,), f"dec_{stamp.token}", tellers)


def _questions(fields: Fields, rules: DecisionRules) -> dict[str, Asking]:
    path = fields.path("questions")
    questions = as_object(fields.required("questions"), path)
    if not 1 <= len(questions) <= rules.most_questions:
        raise wrong_value(path, f"must hold 1 to {rules.most_questions} questions")
    for name in questions:
        if not 1 <= len(name) <= NAME_CHARACTERS:
            raise wrong_value(path, f"must have names of 1 to {NAME_CHARACTERS} characters")
    return {
        name: _question(name, Fields.of(value, f"{path}.{name}"), rules)
        for name, value in questions.items()
    }


def _question(name: str, fields: Fields, rules: DecisionRules) -> Asking:
    kind = fields.required_text("type")
    read = READERS.get(kind)
    if read is None:
        text = f"{fields.path('type')} must be one of {', '.join(READERS)}."
        raise RequestError(Code.UNSUPPORTED_QUESTION, text, param=fields.path("type"))
    if unknown := fields.names() - MEMBERS:
        raise wrong_value(fields.path(min(unknown)), "is no member of a question")
    options, tell = read(fields)
    text = fields.read("instructions", as_shown) or name
    return Asking(Question(fields.whole, text, options, rules.of_kind(kind)), tell)


def _noul(fields: Fields) -> tuple[tuple[str, ...], Teller]:
    criteria = fields.object("criteria")
    texts = {
        name: None if criteria is None else criteria.read(name, as_shown)
        for name in ("true", "false")
    }

    def tell(probabilities: Sequence[float]) -> dict[str, Any]:
        return {"type": "noul", "noul": rounded(probabilities[0])}

    return tuple(described(name, text) for name, text in texts.items()), tell


def _choice(fields: Fields) -> tuple[tuple[str, ...], Teller]:
    path = fields.path("criteria")
    criteria = as_object(fields.required("criteria"), path)
    if not 1 <= len(criteria) <= MOST_LABELS:
        raise wrong_value(path, f"must hold 1 to {MOST_LABELS} labels")
    options = tuple(
        described(label, None if text is None else as_shown(text, f"{path}.{label}"))
        for label, text in criteria.items()
    )
    labels = tuple(criteria)

    def tell(probabilities: Sequence[float]) -> dict[str, Any]:
        return {
            "type": "choice",
            "choice": labels[likeliest(probabilities)],
            "confidence": rounded(choice_confidence(probabilities)),
            "probabilities": dict(zip(labels, map(rounded, probabilities), strict=True)),
        }

    return options, tell


def _score(fields: Fields) -> tuple[tuple[str, ...], Teller]:
    path = fields.path("criteria")
    levels = as_array(fields.required("criteria"), path)
    if not 1 <= len(levels) <= MOST_LEVELS:
        raise wrong_value(path, f"must hold 1 to {MOST_LEVELS} levels")
    options = tuple(as_shown(level, f"{path}[{at}]") for at, level in enumerate(levels))

    def tell(probabilities: Sequence[float]) -> dict[str, Any]:
        return {
            "type": "score",
            "score": rounded(expected_level(probabilities)),
            "confidence": rounded(score_confidence(probabilities)),
            "legend": {str(at): level for at, level in enumerate(levels)},
            "probabilities": {str(at): rounded(p) for at, p in enumerate(probabilities)},
        }

    return options, tell


READERS = {"noul": _noul, "choice": _choice, "score": _score}


def _check_assets(fields: Fields, parts: Sequence[str]) -> None:
    """Raises `RequestError`: for files that nobody claims, and for images, which no model here
    can see."""
    assets = fields.object("assets")
    claims: list[str] = []
    for name in sorted(assets.names()) if assets is not None else ():
        asset = assets.required_object(name) if assets is not None else Fields({})
        if (part := asset.text("part")) is not None:
            if part not in parts or part in claims:
                raise wrong_value(asset.path("part"), "must name a part of its own")
            claims.append(part)
    if unclaimed := [part for part in parts if part not in claims]:
        raise wrong_value("assets", f"does not claim the part {unclaimed[0]!r}")
    if assets is not None:
        if not assets.names():
            raise wrong_value(fields.path("assets"), "must not be empty")
        text = "This model cannot see images."
        raise RequestError(Code.VISION_TOWER_ABSENT, text, param=fields.path("assets"))
