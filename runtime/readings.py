"""Requests that are answered by reading a model, which writes nothing: embeddings and decisions.

Like `contracts`, whose unions they are part of: frozen, plain values, fit for a frame.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs

# A text, or token ids exactly as the model is to see them.
Input: TypeAlias = str | tuple[int, ...]
# How the hidden states of a text become one vector: the mean over its tokens, or the state of its
# first or of its last token.
PoolingKind: TypeAlias = Literal["mean", "first", "last"]


@attrs.frozen
class EmbeddingRequest:
    """One vector is wanted for each input, in their order.

    `pooling` is how a model embeds that was made for text; None: such a model refuses. A model
    that was made for embeddings goes by its own files.
    """

    id: str
    # The name the client used; None where it named none.
    model: str | None
    inputs: tuple[Input, ...]
    # The numbers that a vector is cut to; None: all of them.
    dimensions: int | None = None
    # What the texts are embedded for, to be put before each in the model's own way.
    instruction: str | None = None
    pooling: PoolingKind | None = None
    route: str = ""
    # As those of a request to generate.
    n: ClassVar[int] = 1
    max_tokens: ClassVar[int] = 0
    stream: ClassVar[bool] = False
    warnings: ClassVar[tuple[()]] = ()


@attrs.frozen
class Question:
    """What is to be decided. The model sees each of the `options` behind a label.

    `path` is what the client knows the question by, for what is wrong with it. `temperature`
    divides the logits of the labels.
    """

    path: str
    text: str
    options: tuple[str, ...]
    temperature: float = 1.0


@attrs.frozen
class DecisionRequest:
    """How likely the model holds each option of each question to be, given the state."""

    id: str
    model: str | None
    state: str
    questions: tuple[Question, ...]
    route: str = ""
    n: ClassVar[int] = 1
    max_tokens: ClassVar[int] = 0
    stream: ClassVar[bool] = False
    warnings: ClassVar[tuple[()]] = ()


@attrs.frozen
class Embedded:
    """The vector of one input: float32, little-endian."""

    index: int
    vector: bytes


@attrs.frozen
class Decided:
    """The probabilities of one question's options, in their order; they sum to 1."""

    question: int
    probabilities: tuple[float, ...]


@attrs.frozen
class EmbeddingTraits:
    """How a model that was made for embeddings embeds, by its own files."""

    # Numbers of a vector.
    width: int
    pooling: PoolingKind
    # Vectors have the length 1.
    normalized: bool = True
    # A vector may be cut to its first numbers.
    cuts: bool = False
    # What stands before and after an instruction; the text follows. None: it takes none.
    instruction: tuple[str, str] | None = None
