"""Questions about a state as one prompt that they share, and what the model holds of each option.

Wire contract 9.3. Each option stands behind a label, and the answer opens with a cue after which
each label is one token. So what the model would say next, among the labels alone, are the
probabilities of the options: nothing has to be generated.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

import attrs

from headrace.actors.dialect import Dialect
from headrace.actors.reading import BuiltReading, Passage
from headrace.actors.thinking import SWITCH
from headrace.runtime.contracts import Message, Prompt, Reading
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import Continuation, RowRead, Tokenizer
from headrace.runtime.readings import Decided, DecisionRequest, Question

SYSTEM = (
    "You are a careful decision maker. You are shown a state and a question about it with labelled "
    "options. Judge by the state alone, and answer with the label of the best option."
)

# Where the question goes, while the template is rendered; of Unicode's private use.
PLACE = "\ue000\ue001\ue000"
# The answer's beginning, and what comes between it and a label. Which of them makes labels single
# tokens depends on where a tokenizer puts its spaces.
CUES = (("Answer:", " "), ("Answer: ", ""))
MOST_LABELS = 255


@attrs.frozen
class Label:
    """What an option is called, and the token that says so."""

    name: str
    token: int


@attrs.frozen
class Labels:
    """The labels that a tokenizer has behind a cue, in their order."""

    cue: str
    labels: tuple[Label, ...]


Shown: TypeAlias = tuple[Label, str]


class Deciding:
    """Builds the decisions of one model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._labels = _most_labels(tokenizer)

    def build(self, request: DecisionRequest) -> BuiltReading:
        """Raises `RequestError` (template_error, too_many_options)."""
        for question in request.questions:
            self._check(question)
        head, rest = self._rendered(request.state)
        # The two are encoded apart, so that all questions go on from the very same tokens.
        continuations = tuple(self._continuation(question, rest) for question in request.questions)
        passage = Passage(self._tokenizer.encode(head), continuations)
        answer = partial(_answers, request.questions)
        return BuiltReading((passage,), answer, answer_tokens=len(request.questions))

    def _check(self, question: Question) -> None:
        most = len(self._labels.labels)
        if len(question.options) > most:
            text = f"{question.path} has more options than this model has labels for ({most})."
            raise RequestError(Code.TOO_MANY_OPTIONS, text, param=question.path)

    def _rendered(self, state: str) -> tuple[str, str]:
        """What comes before the question, and what between it and the label."""
        asked = f"State:\n{state}\n{PLACE}"
        messages = (Message("system", SYSTEM), Message("user", asked))
        prompt = Prompt(messages=messages, template_args={SWITCH: False})
        text = self._tokenizer.render(prompt)
        marked = Dialect.of(self._tokenizer).plain
        if marked is not None and marked.markup.start(text, "") == "inside":
            # The template opens a block for thoughts whatever it is told.
            text += marked.markup.closing
        head, place, rest = text.rpartition(PLACE)
        if not place:
            reason = "The model's chat template leaves out the question."
            raise RequestError(Code.TEMPLATE_ERROR, reason, param="messages")
        return head, rest + self._labels.cue

    def _continuation(self, question: Question, rest: str) -> Continuation:
        shown = tuple(zip(self._labels.labels, question.options, strict=False))
        tokens = self._tokenizer.encode(_shown(question.text, shown) + rest)
        return Continuation(tokens, tuple(label.token for label, _ in shown))


def _shown(text: str, options: Sequence[Shown]) -> str:
    lines = [f"Question: {text}" if text else "Question:", "Options:"]
    lines += [f"{label.name}. {option}" for label, option in options]
    return "\n".join(lines)


def _answers(questions: Sequence[Question], index: int, read: RowRead) -> list[Reading]:
    return [
        Decided(number, softmax(logits, question.temperature))
        for number, (question, logits) in enumerate(zip(questions, read.logits, strict=True))
    ]


def softmax(logits: Sequence[float], temperature: float = 1.0) -> tuple[float, ...]:
    """exp(l/T) / sum(exp(l/T)), shifted by the greatest so that nothing overflows."""
    greatest = max(logits)
    weights = [math.exp((logit - greatest) / temperature) for logit in logits]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def _most_labels(tokenizer: Tokenizer) -> Labels:
    found = [_labels(tokenizer, cue, between) for cue, between in CUES]
    return max(found, key=lambda labels: len(labels.labels))


def _labels(tokenizer: Tokenizer, cue: str, between: str) -> Labels:
    """Those that are one token each, and different ones, right after the cue."""
    before = tokenizer.encode(cue)
    found: dict[int, str] = {}
    for name in _names():
        tokens = tokenizer.encode(f"{cue}{between}{name}")
        if tokens[:-1] == before:
            found.setdefault(tokens[-1], name)
        if len(found) == MOST_LABELS:
            break
    return Labels(cue, tuple(Label(name, token) for token, name in found.items()))


def _names() -> Iterator[str]:
    """A to Z, then AA to ZZ."""
    letters = string.ascii_uppercase
    yield from letters
    yield from map("".join, itertools.product(letters, repeat=2))
