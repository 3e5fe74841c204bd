"""What the text of an answer turns out to be. An answer is a sequence of these, in order."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Text:
    """Visible text. `at` is where it begins in the row's decoded text, in characters; it is a
    verbatim piece of that text."""

    text: str
    at: int = 0


@attrs.frozen
class Reasoning:
    """Text of the hidden block, without its marks."""

    text: str


@attrs.frozen
class CallStarted:
    """The model calls a tool that it was given. `index` counts the calls of the answer from 0."""

    index: int
    name: str


@attrs.frozen
class CallArguments:
    """More of a call's arguments. All pieces of one call, joined, are its JSON text; raw text
    where the model wrote something that cannot be read as arguments."""

    index: int
    text: str


@attrs.frozen
class CallEnded:
    """The call is complete. A call without this was cut by the end of the answer."""

    index: int


AnswerEvent: TypeAlias = Text | Reasoning | CallStarted | CallArguments | CallEnded
