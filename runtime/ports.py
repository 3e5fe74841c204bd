"""The ports behind which models live. Everything here is synchronous.

An `Engine` is owned by one OS thread for its whole life (`runtime.thread.PinnedThread`): loaded
there, stepped there, closed there. A `Tokenizer` is plain CPU work without device arrays and may
be called from any thread, but by one at a time per object.

Only Python scalars, bytes and tuples cross a port; no device array ever leaves an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import attrs

from headrace.runtime.constraints import Grammar
from headrace.runtime.contracts import ModelInfo, Prompt, Sampling
from headrace.runtime.readings import PoolingKind


class RowMask(Protocol):
    """What a row may say next. Used by one row, on the engine's thread.

    `broken` says why it can no longer be followed, in words for the log; its row is given up.
    """

    broken: str | None

    def fork(self) -> RowMask:
        """The same state for another row."""

    def consume(self, token: int) -> None:
        """Go on by a token that the row has sampled."""


@attrs.frozen
class Continuation:
    """Tokens that go on from a row's prompt, and the tokens whose logits are read behind them."""

    tokens: tuple[int, ...]
    labels: tuple[int, ...]


@attrs.frozen
class Pooling:
    """How a prompt's hidden states become one vector, of so many numbers (None: all)."""

    kind: PoolingKind
    normalized: bool = True
    dimensions: int | None = None


@attrs.frozen
class RowSpec:
    """A sequence to generate. `tokens` has at least one element.

    `row` is unique in the engine's life. `choice` numbers the alternatives of one request; draws
    depend on (sampling.seed, choice, position in the answer) only. `siblings` are further rows of
    the same prompt: they come to life when it is complete, without computing it again, and draw
    as choices 1, 2, ... of it. A row that may say nothing (`max_tokens` 0) has its prompt computed
    and never decodes, nor do its siblings.
    """

    row: int
    tokens: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    choice: int = 0
    siblings: tuple[int, ...] = ()
    # Alternatives to score at each of its tokens; None: none, not even the token itself.
    logprobs: int | None = None
    # Score the tokens of its prompt too. All of it must then be computed anew.
    scores_prompt: bool = False
    mask: RowMask | None = None
    # The last so many of `tokens` are its own answer so far: a row that was suspended goes on.
    # `max_tokens`, positions and draws count them.
    resumed: int = 0
    # What it is to say first, as with `Engine.force`.
    forced: tuple[int, ...] = ()
    # A row that has one of these is read and generates nothing: all of its prompt is computed,
    # then each continuation from there, as if the others were not. Its `max_tokens` is 0.
    continuations: tuple[Continuation, ...] = ()
    pooling: Pooling | None = None
    # Other rows go first where only one can; for the owner of the batch, not for the engine.
    low: bool = False

    @property
    def is_read(self) -> bool:
        return bool(self.continuations) or self.pooling is not None


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
class PromptScores:
    """Scores of a row's prompt tokens from the place `first` on. Its very first token, in place 0,
    has none, as nothing comes before it. A row that was suspended may be scored anew."""

    row: int
    scores: tuple[TokenScores, ...]
    first: int = 1


@attrs.frozen
class RowFailed:
    """A row that the engine had to give up on; it is already removed. `reason` is for the log."""

    row: int
    reason: str


@attrs.frozen
class RowRead:
    """What a row was read for: the logits of each continuation's labels, or the vector, float32
    and little-endian."""

    row: int
    logits: tuple[tuple[float, ...], ...] = ()
    vector: bytes = b""


@attrs.frozen
class StepResult:
    """What one step brought. `seconds` is the step's own wall time."""

    tokens: tuple[RowToken, ...] = ()
    failed: tuple[RowFailed, ...] = ()
    seconds: float = 0.0
    # Prompt tokens computed by this step.
    prefilled: int = 0
    # Rows to be read that have nothing left to compute.
    read: tuple[RowRead, ...] = ()
    prompt_scores: tuple[PromptScores, ...] = ()


@attrs.frozen
class Memory:
    """Bytes as the device's allocator counts them."""

    active_bytes: int = 0
    cache_bytes: int = 0
    peak_bytes: int = 0


@attrs.frozen
class CacheUse:
    """What an engine keeps of prompts and answers for rows that begin alike. `bytes` are held in
    the device's memory; hits and misses are rows; the four last are counters since the load."""

    entries: int = 0
    bytes: int = 0
    max_bytes: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    # Prompt tokens that were taken from the cache and not computed.
    tokens_reused: int = 0


class Engine(Protocol):
    """One model and its generating batch.

    A row is added, prefilled in chunks until `remaining` says 0, and is then part of every
    `decode` until it is removed. One that is to be read takes part in no `decode`: the prefill
    that computes its last token reports what was read. The engine never removes a row by itself
    except one that failed.
    """

    def add(self, spec: RowSpec) -> None:
        """Take a row in, without computing anything yet."""

    def remove(self, row: int) -> None:
        """Drop a row and its KV in whatever phase it is; unknown rows are ignored."""

    def suspend(self, row: int) -> RowSpec | None:
        """Drop a row and its KV, and answer with what it can be added again to go on as if nothing
        had been; None for a row that is unknown or is read. A row that waits for another's prompt
        is not asked for: it goes and comes with that one."""

    def remaining(self, row: int) -> int:
        """Prompt tokens still to prefill before the row can decode (the last token never counts:
        it is the first decode step's input), or all tokens left before the row can be read."""

    def prefill(self, chunks: Sequence[tuple[int, int]]) -> StepResult:
        """Advance the given rows by the given numbers of prompt tokens, as one unit of work.

        With more than one row each number must be all that the row has left. A row that cannot be
        computed in parts is computed to its end, and one with continuations may be computed less
        far, as several of them are computed in one pass.
        """

    def decode(self) -> StepResult:
        """One token for every row whose prompt is complete and that may say anything."""

    def can_mix(self, row: int) -> bool:
        """Whether the row's prompt can be advanced in a decode, as things stand."""

    def mixed(self, row: int, count: int) -> StepResult:
        """Both as one unit of work: so many tokens of one row's prompt, and one token for every row
        whose prompt was complete before. Only where `can_mix` says so."""

    def force(self, row: int, tokens: Sequence[int]) -> None:
        """Let the row say these tokens next, whatever it would draw. Its drawing goes on behind
        them; unknown rows are ignored."""

    def kv_bytes(self) -> int:
        """Bytes of KV held by all rows, as allocated."""

    def limit_cache(self, max_bytes: int) -> None:
        """Keep what rows compute for others that begin alike, up to so many bytes; 0, as it is at
        first: keep nothing."""

    def free_cache(self, nbytes: int) -> int:
        """Give up at least so many bytes of what is kept, or all that no row is about to use.
        Answers how many it were."""

    def cache_use(self) -> CacheUse: ...

    def keep_on_disk(self, folder: str, fingerprint: str, max_bytes: int) -> None:
        """Keep past prompts in this folder too, up to so many bytes, and use what is there.
        `fingerprint` stands for model, tokenizer, template and numbers: a file with another is put
        aside. An engine for whose caches that does not do keeps none. Raises `OSError` where the
        folder cannot be used."""

    def disk_work(self) -> Sequence[Callable[[], str | None]]:
        """What has to be done for the disk since the last call, for another thread, in order.
        Each answers what went wrong, in words for the log."""

    def reused(self, row: int) -> int:
        """Prompt tokens that the row took from the cache. Final once its prompt is complete."""

    def memory(self) -> Memory: ...

    def close(self) -> None:
        """Free the model. The engine is not used afterwards."""


class Decoder(Protocol):
    """Token ids of one row into text, without ever showing part of a character."""

    def add(self, token: int) -> str:
        """Text completed by this token, often empty."""

    def flush(self) -> str:
        """What is held at the end; an unfinished character becomes one U+FFFD. Called once."""


@attrs.frozen
class TemplateTraits:
    """What a chat template makes of tools. One that shows no calls is given text instead."""

    # It shows the tools that it is given, or does so beside a system message only.
    tools: bool = False
    tools_beside_system: bool = False
    # It shows the calls of earlier turns and their results, in turns of role `tool`.
    calls: bool = False
    # A turn may hold more than one call.
    several_calls: bool = True
    # How arguments are given: as objects only, as JSON text, or text where they are no object.
    arguments: Literal["object", "text", "either"] = "either"
    # Ids of calls are nine letters or digits, and each call has one.
    short_ids: bool = False
    # What the assistant has to say between a result and the user's next turn; None: nothing.
    said_after_results: str | None = None


@attrs.frozen
class CallParser:
    """A reader of one family's tool calls that is not our own.

    `parse` takes the text between the marks and the tools in OpenAI's shape, and gives one call
    or a list of calls, each `{"name": ..., "arguments": {...}}`. It raises what it likes.
    """

    opener: str
    closer: str
    parse: Callable[[str, list[dict[str, Any]]], Any]


class Tokenizer(Protocol):
    """Prompt text to ids and back."""

    @property
    def end_tokens(self) -> frozenset[int]: ...

    @property
    def vocab_size(self) -> int:
        """Ids from here on are no tokens of the model."""

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Texts and ids of the tokens that a decoder leaves out unless told otherwise."""

    @property
    def template(self) -> str:
        """The source of the chat template, or what it renders; "" without one."""

    @property
    def traits(self) -> TemplateTraits:
        """What the chat template makes of tools."""

    @property
    def declared_calls(self) -> str | None:
        """The name of the format of tool calls, where the model's settings have it."""

    def call_parser(self, name: str) -> CallParser | None:
        """The parser for a format that is known by this name, if there is one."""

    def special(self, text: str) -> int | None:
        """The id of the token with this name, if it never stands for text."""

    def warm(self) -> None:
        """Make ready what `special` and `compile` need, which takes seconds for a large
        vocabulary. May run beside everything but those two."""

    def compile(self, grammar: Grammar) -> RowMask:
        """What a row is held to. Raises `RequestError` (invalid_schema, invalid_grammar,
        unsupported_execution)."""

    def has_token(self, text: str) -> bool:
        """Whether the vocabulary has this text as one token."""

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for; none for a special token."""

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        """The text of a prompt, special tokens included. "" for ids. `tools` are in OpenAI's
        shape. Raises `RequestError` like `build`."""

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a rendered text, exactly as it stands. Raises `RequestError` like `build`."""

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        """Render the template and encode. Raises `RequestError` (template_error,
        unsupported_capability, invalid_token_id). Never empty, never shortened."""

    def decoder(self, prompt: Prompt | None = None, shown: frozenset[int] = frozenset()) -> Decoder:
        """For an answer to `prompt`: whether its first token keeps a leading space may depend on
        what it continues. `shown` are special tokens that are shown as their text."""


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
