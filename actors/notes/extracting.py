"""What a model is asked about a segment, and what is made of its answer. Pure."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from headrace.actors.notes.source import Segment
from headrace.actors.notes.titles import cleaned, normal
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import (
    InferenceRequest,
    Message,
    Prompt,
    Sampling,
    Thinking,
)

MOST_TITLE, MOST_TOPIC, MOST_FACT = 60, 30, 200
MOST_TOPICS, MOST_FACTS = 4, 6
SYSTEM = (
    "You keep notes. You are shown a part of a text. Answer in JSON: a short title of what it is "
    "about, a few topics of one or two words each, and the facts worth keeping, each a sentence."
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": MOST_TITLE},
        "topics": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MOST_TOPIC},
            "maxItems": MOST_TOPICS,
        },
        "facts": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MOST_FACT},
            "maxItems": MOST_FACTS,
        },
    },
    "required": ["title", "topics", "facts"],
    "additionalProperties": False,
}


@attrs.frozen
class Extract:
    """What a model found in a segment. `read` is False where its answer could not be read; then
    there is a title, so that the segment has a note all the same."""

    title: str
    topics: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    read: bool = True


class _Answer(msgspec.Struct):
    title: str
    topics: list[str] = msgspec.field(default_factory=list)
    facts: list[str] = msgspec.field(default_factory=list)


def row_for(text: str, id: str, model: str | None, answer_tokens: int) -> InferenceRequest:
    """A greedy row: equal texts give equal answers."""
    return InferenceRequest(
        id=id,
        model=model,
        prompt=Prompt(messages=(Message("system", SYSTEM), Message("user", text))),
        sampling=Sampling(seed=0, temperature=0.0),
        max_tokens=answer_tokens,
        route="synthesize",
        given=("temperature", "seed"),
        thinking=Thinking(enabled=False),
        constraint=Constraint("json_schema", SCHEMA),
    )


def extract_of(segment: Segment, answer: str) -> Extract:
    """What the answer says, as far as it can be read."""
    name = f"{segment.source} part {segment.part}"
    try:
        said = msgspec.json.decode(answer, type=_Answer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Extract(name, read=False)
    title = cleaned(said.title, MOST_TITLE)
    return Extract(
        title if normal(title) else name,
        _lines(said.topics, MOST_TOPIC, MOST_TOPICS),
        _lines(said.facts, MOST_FACT, MOST_FACTS),
    )


def _lines(texts: list[str], most_characters: int, most: int) -> tuple[str, ...]:
    """Different lines with something in them, in order."""
    lines = [cleaned(text, most_characters) for text in texts]
    return tuple(dict.fromkeys(line for line in lines if normal(line)))[:most]
