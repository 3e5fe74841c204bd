"""What the protocols of decisions have in common: texts to show, and numbers to tell.

The formulas are those of wire contract 9.3. Probabilities sum to 1 before they are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from headrace.http.wire.fields import Fields, as_text, wrong_type
from headrace.http.wire.rules import Rule, only
from headrace.http.wire.sampling import RULES as SAMPLING
from headrace.http.wire.shared_fields import check
from headrace.runtime.readings import Question

DECIMALS = 6

# Probabilities to the answer to one question.
Teller = Callable[[Sequence[float]], dict[str, Any]]

# Nothing is drawn and nothing is streamed, so nobody may think that it was.
REFUSED: dict[str, Rule] = {
    **{name: only(None) for name in SAMPLING},
    "stream": only(False),
    "tools": only(None),
    "max_tokens": only(None),
}


@attrs.frozen
class Asking:
    """One question in the words of the core, and how its answer is told."""

    question: Question
    tell: Teller


@attrs.frozen
class DecisionRules:
    """The settings that apply to decisions. `temperature` is by kind of question, 1 if missing."""

    most_questions: int = 400
    temperature: Mapping[str, float] = attrs.field(factory=dict)

    def of_kind(self, kind: str) -> float:
        return self.temperature.get(kind, 1.0)


def check_refused(fields: Fields) -> None:
    """Raises `RequestError` (unsupported_parameter)."""
    check(fields, REFUSED)


def as_shown(value: Any, path: str) -> str:
    """A text as it is, objects and arrays as compact JSON in their own order."""
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if not isinstance(value, str):
        raise wrong_type(path, "a string, an object or an array")
    return as_text(value, path)


def described(name: str, text: str | None) -> str:
    """An option by its name, with what is said of it."""
    return f"{name}: {text}" if text else name


def rounded(number: float) -> float:
    return round(number, DECIMALS)


def likeliest(probabilities: Sequence[float]) -> int:
    """Of equals the first."""
    return max(range(len(probabilities)), key=lambda index: probabilities[index])


def choice_confidence(probabilities: Sequence[float]) -> float:
    """How far the likeliest option stands above a blind guess: 0 for that, 1 for certainty."""
    options = len(probabilities)
    if options == 1:
        return 1.0
    guess = 1 / options
    return max(0.0, (max(probabilities) - guess) / (1 - guess))


def expected_level(probabilities: Sequence[float]) -> float:
    return math.fsum(level * p for level, p in enumerate(probabilities))


def score_confidence(probabilities: Sequence[float]) -> float:
    """1 minus the mean distance from the likeliest level, over that of a blind guess from the
    middle."""
    levels = len(probabilities)
    if levels == 1:
        return 1.0
    top = likeliest(probabilities)
    spread = math.fsum(p * abs(level - top) for level, p in enumerate(probabilities))
    even = math.fsum(abs(level - (levels - 1) / 2) for level in range(levels)) / levels
    return max(0.0, 1 - spread / even)
