"""The protocol-neutral language between the edge, the actors and the engines.

A protocol parses a body into an `InferenceRequest` and renders events back; it knows nothing
else of what happens below. All classes are frozen and hold plain values only, so that any of
them can cross a process border as a msgpack frame.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from headrace.runtime.constraints import Constraint
from headrace.runtime.errors import ErrorInfo
from headrace.runtime.footprint import Footprint
from headrace.runtime.readings import (
    Decided,
    DecisionRequest,
    Embedded,
    EmbeddingRequest,
    EmbeddingTraits,
)

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]
Stage: TypeAlias = Literal["queued", "loading", "prefilling", "decoding", "ended"]
# Why a request was ended from outside; the label of headrace_cancelled_total.
CancelReason: TypeAlias = Literal["disconnect", "api", "drain", "timeout", "stall"]


@attrs.frozen
class Sampling:
    """How one row draws its tokens. Field meanings and ranges: wire contract 3.2.

    `seed` is never absent here: the edge draws fresh entropy when the client sent none, so a
    row's draws depend on (seed, choice, position) only.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_context_size: int = 20
    presence_context_size: int = 20
    frequency_context_size: int = 20
    # (token id, bias) pairs; -100 masks the token.
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0


@attrs.frozen
class Message:
    """One turn, already reduced to text. `tool_calls` are in the template's own shape."""

    role: Role
    content: str
    reasoning: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@attrs.frozen
class Prompt:
    """What the model is to continue: exactly one of messages, text and token ids is set.

    `continue_final` leaves the last assistant message open. `template_args` are forwarded to
    the chat template.
    """

    messages: tuple[Message, ...] | None = None
    text: str | None = None
    tokens: tuple[int, ...] | None = None
    continue_final: bool = False
    template_args: dict[str, Any] = attrs.field(factory=dict)


ToolChoice: TypeAlias = Literal["none", "auto", "required"]


@attrs.frozen
class Tool:
    """A function that the model may call. `parameters` is a JSON schema; None: no arguments."""

    name: str
    parameters: dict[str, Any] | None = None
    description: str | None = None
    strict: bool = False


@attrs.frozen
class ToolUse:
    """The tools of a request. `named` narrows the choice to some of them; empty means all."""

    tools: tuple[Tool, ...]
    choice: ToolChoice = "auto"
    named: tuple[str, ...] = ()
    # Whether one answer may hold several calls.
    parallel: bool = True


@attrs.frozen
class Thinking:
    """Whether and how hard the model is to reason; None leaves it to the model."""

    enabled: bool | None = None
    effort: str | None = None
    # Tokens after which the block is closed.
    budget_tokens: int | None = None


@attrs.frozen
class InferenceRequest:
    """One request to generate text, whatever protocol it came in."""

    id: str
    # The name the client used; None where it named none.
    model: str | None
    prompt: Prompt
    sampling: Sampling
    # The client's cap on generated tokens; None means the room that is left.
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    # Which route it came by, for reports only.
    route: str = ""
    # Names of the sampling fields that the client itself set; the model's own defaults may
    # replace the others.
    given: tuple[str, ...] = ()
    # How many answers to draw; they share the prompt's prefill.
    n: int = 1
    # Alternatives to report for each token of the visible text; None: no log-probabilities.
    logprobs: int | None = None
    tools: ToolUse | None = None
    thinking: Thinking = Thinking()
    # The form that each answer must have.
    constraint: Constraint | None = None
    # Report the prompt's own text, and its scores with `logprobs`, before the answer's.
    echo: bool = False
    # What its protocol already left out or read differently, for the client to be told.
    warnings: tuple[Warning_, ...] = ()


# What a request scope is opened for.
Request: TypeAlias = InferenceRequest | EmbeddingRequest | DecisionRequest


@attrs.frozen
class Warning_:
    """Told to the client when it was served differently from what it asked (contract 1.9)."""

    code: str
    message: str
    param: str | None = None


@attrs.frozen
class Usage:
    """Token counts of one request. `completion_tokens` leaves the end token out."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


# ---- events: what a sink carries to the protocol writer, in this order -------------------


@attrs.frozen
class Accepted:
    """All checks have passed and the row has a place in the batch. First event of a stream."""

    model: str
    prompt_tokens: int
    # The cap in force after clamping, in tokens.
    max_tokens: int
    fingerprint: str
    warnings: tuple[Warning_, ...] = ()


@attrs.frozen
class TokenLogprob:
    """A token with its natural log-probability, over the whole vocabulary before the draw.

    The first token of a prompt has none: nothing comes before it.
    """

    raw: bytes
    logprob: float | None


@attrs.frozen
class ScoredToken:
    """A token of the visible text, as far as it is visible, and the likeliest in its place."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


@attrs.frozen
class Delta:
    """Text that became visible. Pieces of one kind that pile up in a sink are merged.

    `choice` numbers the answers of one request from 0, here and in all events that have it.
    """

    text: str
    # How many sampled tokens this text stands for.
    tokens: int = 1
    choice: int = 0
    scored: tuple[ScoredToken, ...] = ()


@attrs.frozen
class ReasoningDelta:
    """Text of the model's reasoning, without its marks."""

    text: str
    tokens: int = 1
    choice: int = 0


@attrs.frozen
class CallStarted:
    """The model calls a tool. `call` numbers the calls of one answer from 0."""

    call: int
    name: str
    choice: int = 0


@attrs.frozen
class CallArguments:
    """More of a call's arguments; all pieces joined are its JSON text."""

    call: int
    text: str
    tokens: int = 1
    choice: int = 0


@attrs.frozen
class CallEnded:
    """The call is complete. A call without this was cut by the end of the answer."""

    call: int
    choice: int = 0


@attrs.frozen
class ChoiceEnded:
    """One answer is complete. Every answer has exactly one, before the request's end.

    `warnings` are about its end.
    """

    reason: FinishReason
    matched_stop: str | None = None
    choice: int = 0
    warnings: tuple[Warning_, ...] = ()


@attrs.frozen
class Finished:
    """The request's proper end, when all its answers are complete. Always the last event.

    `reason` and `matched_stop` are those of the first answer.
    """

    reason: FinishReason
    usage: Usage
    matched_stop: str | None = None
    warnings: tuple[Warning_, ...] = ()


@attrs.frozen
class Failed:
    """The request's end by an error. Always the last event; there is exactly one end."""

    error: ErrorInfo


Piece: TypeAlias = Delta | ReasoningDelta | CallArguments
Reading: TypeAlias = Embedded | Decided
Event: TypeAlias = (
    Accepted | Piece | CallStarted | CallEnded | ChoiceEnded | Reading | Finished | Failed
)
End: TypeAlias = Finished | Failed


@attrs.frozen
class ModelInfo:
    """What is known of a loaded model. Sizes in bytes, lengths in tokens."""

    id: str
    context_window: int
    vocab_size: int
    weights_bytes: int
    # Bytes that one token of one row adds to the KV cache while no window is full.
    kv_bytes_per_token: int
    # `fp_` and 12 hex digits over weights, engine version and numerics mode.
    fingerprint: str
    # Sampling fields of the model's own generation_config, by contract name.
    defaults: dict[str, Any] = attrs.field(factory=dict)
    model_type: str = ""
    dtype: str = ""
    has_chat_template: bool = True
    # Whether its answers may begin with reasoning.
    reasons: bool = False
    # What multiplies its matrices, in words.
    blas: str = ""
    # What its rows take in memory.
    footprint: Footprint = attrs.field(factory=Footprint)
    # Of a model that was made for embeddings, and writes nothing.
    embedding: EmbeddingTraits | None = None
