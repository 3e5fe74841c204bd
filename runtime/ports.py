"""The ports behind which models live. Everything here is synchronous.

An `Engine` is owned by one OS thread for its whole life (`runtime.thread.PinnedThread`): loaded
there, stepped there, closed there. A `Tokenizer` is plain CPU work without device arrays and may
be called from any thread, but by one at a time per object.

Only Python scalars, bytes and tuples cross a port; no device array ever leaves an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from headrace.runtime.contracts import ModelInfo, Prompt, Sampling


class RowMask(Protocol):
    """What a row may say next. Made by a `Compiler`; used by one row on the engine's thread."""

    def fork(self) -> RowMask:
        """The same state for another row."""


@attrs.frozen
class RowSpec:
    """A sequence to generate. `tokens` has at least one element.

    `row` is unique in the engine's life. `choice` numbers the alternatives of one request; draws
    depend on (sampling.seed, choice, position in the answer) only. `siblings` are further rows of
    the same prompt: they come to life when it is complete, without computing it again, and draw
    as choices 1, 2, ... of it.
    """

    row: int
    tokens: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    choice: int = 0
    siblings: tuple[int, ...] = ()
    # Alternatives to score at each of its tokens; None: none, not even the token itself.
    logprobs: int | None = None
    mask: RowMask | None = None


@attrs.frozen
class TokenScores:
    """Natural log-probabilities before the draw: of the token, and of the likeliest tokens."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@attrs.frozen
class RowToken:
    """A token sampled for a row. End tokens are reported like any other."""

    row: int
    token: int
    scores: TokenScores | None = None


@attrs.frozen
class RowFailed:
    """A row that the engine had to give up on; it is already removed. `reason` is for the log."""

    row: int
    reason: str


@attrs.frozen
class StepResult:
    """What one step brought. `seconds` is the step's own wall time."""

    tokens: tuple[RowToken, ...] = ()
    failed: tuple[RowFailed, ...] = ()
    seconds: float = 0.0
    # Prompt tokens computed by this step.
    prefilled: int = 0


@attrs.frozen
class Memory:
    """Bytes as the device's allocator counts them."""

    active_bytes: int = 0
    cache_bytes: int = 0
    peak_bytes: int = 0


class Engine(Protocol):
    """One model and its generating batch.

    A row is added, prefilled in chunks until `remaining` says 0, and is then part of every
    `decode` until it is removed. The engine never removes a row by itself except one that failed.
    """

    def add(self, spec: RowSpec) -> None:
        """Take a row in, without computing anything yet."""

    def remove(self, row: int) -> None:
        """Drop a row and its KV in whatever phase it is; unknown rows are ignored."""

    def remaining(self, row: int) -> int:
        """Prompt tokens still to prefill before the row can decode (the last token never counts:
        it is the first decode step's input)."""

    def prefill(self, chunks: Sequence[tuple[int, int]]) -> StepResult:
        """Advance the given rows by the given numbers of prompt tokens, as one unit of work.

        With more than one row each number must be all that the row has left.
        """

    def decode(self) -> StepResult:
        """One token for every row whose prompt is complete."""

    def force(self, row: int, tokens: Sequence[int]) -> None:
        """Let the row say these tokens next, whatever it would draw. Its drawing goes on behind
        them; unknown rows are ignored."""

    def kv_bytes(self) -> int:
        """Bytes of KV held by all rows, as allocated."""

    def memory(self) -> Memory: ...

    def close(self) -> None:
        """Free the model. The engine is not used afterwards."""


class Decoder(Protocol):
    """Token ids of one row into text, without ever showing part of a character."""

    def add(self, token: int) -> str:
        """Text completed by this token, often empty."""

    def flush(self) -> str:
        """What is held at the end; an unfinished character becomes one U+FFFD. Called once."""


class Tokenizer(Protocol):
    """Prompt text to ids and back."""

    @property
    def end_tokens(self) -> frozenset[int]: ...

    @property
    def template(self) -> str:
        """The source of the chat template, "" without one."""

    def has_token(self, text: str) -> bool:
        """Whether the vocabulary has this text as one token."""

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for; none for a special token."""

    def render(self, prompt: Prompt) -> str:
        """The text of a prompt as `build` encodes it, special tokens included. "" for ids."""

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        """Render the template and encode. Raises `RequestError` (template_error,
        unsupported_capability, invalid_token_id). Never empty, never shortened."""

    def decoder(self, prompt: Prompt | None = None) -> Decoder:
        """For an answer to `prompt`: whether its first token keeps a leading space may depend on
        what it continues."""


@attrs.frozen
class LoadedModel:
    """What a loader gives: the engine stays on the thread that loaded it."""

    info: ModelInfo
    engine: Engine
    tokenizer: Tokenizer


class Loader(Protocol):
    """Brings a model into memory. Called on the thread that will own the engine."""

    def __call__(self, source: str, progress: Callable[[float], None]) -> LoadedModel:
        """`source` is a folder or a repository id; progress runs from 0 to 1. Raises
        `RequestError` (load-failed) with a short reason."""
