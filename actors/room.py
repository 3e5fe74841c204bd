"""How many tokens a request may generate. Pure (wire contract 3.3)."""

from __future__ import annotations

import attrs

from headrace.runtime.contracts import ModelInfo, Warning_
from headrace.runtime.errors import Code, RequestError


@attrs.frozen
class Room:
    """The cap in force, in tokens, and what the client must be told about it."""

    max_tokens: int
    warnings: tuple[Warning_, ...] = ()


@attrs.frozen
class MemoryLimit:
    """How far memory lets the rows of one request go: `tokens` in `available_bytes`."""

    tokens: int
    available_bytes: int
    # What one token more than the prompt would take.
    predicted_bytes: int


def memory_limit(
    info: ModelInfo, available_bytes: int, chunk_tokens: int, prompt_tokens: int, rows: int
) -> MemoryLimit:
    """For so many rows of one prompt, when no others take any of `available_bytes`."""
    footprint = info.footprint
    tokens = footprint.longest(available_bytes, chunk_tokens, info.context_window, rows)
    predicted = footprint.lone_bytes(prompt_tokens + 1, chunk_tokens, rows)
    return MemoryLimit(tokens, available_bytes, predicted)


def token_room(
    context_window: int, prompt_tokens: int, wanted: int | None, memory: MemoryLimit | None = None
) -> Room:
    """The cap for a prompt of `prompt_tokens` when the client `wanted` so many (None: no cap).

    A cap above the room is clamped with a warning. Raises `RequestError`, by what sets the limit
    (context_length_exceeded, context_over_budget), when there is no room for a single token,
    unless none is wanted.
    """
    if memory is not None and memory.tokens < context_window:
        return _memory_room(context_window, prompt_tokens, wanted, memory)
    room = context_window - prompt_tokens
    if room < (0 if wanted == 0 else 1):
        raise RequestError(
            Code.CONTEXT_LENGTH_EXCEEDED,
            f"This model's maximum context length is {context_window} tokens, but the prompt has "
            f"{prompt_tokens} tokens (context_length_exceeded).",
            param="messages",
            details={
                "prompt_tokens": prompt_tokens,
                "limit_tokens": context_window,
                "context_window": context_window,
                "limited_by": "context_window",
            },
        )
    return _clamped(room, wanted, "the room left in the context window")


def _memory_room(
    context_window: int, prompt_tokens: int, wanted: int | None, memory: MemoryLimit
) -> Room:
    room = memory.tokens - prompt_tokens
    if room >= (0 if wanted == 0 else 1):
        return _clamped(room, wanted, "the room that memory leaves")
    raise RequestError(
        Code.CONTEXT_OVER_BUDGET,
        f"With this server's memory the maximum context length is {memory.tokens} tokens, but the "
        f"prompt has {prompt_tokens} tokens (context_length_exceeded).",
        param="messages",
        details={
            "prompt_tokens": prompt_tokens,
            "limit_tokens": memory.tokens,
            "context_window": context_window,
            "limited_by": "memory",
            "predicted_bytes": memory.predicted_bytes,
            "margin_bytes": memory.available_bytes - memory.predicted_bytes,
            "available_bytes": memory.available_bytes,
        },
    )


def _clamped(room: int, wanted: int | None, what: str) -> Room:
    if wanted is None or wanted <= room:
        return Room(room if wanted is None else wanted)
    text = f"max_tokens was lowered from {wanted} to {room}, {what}"
    return Room(room, (Warning_("max_tokens_clamped", text, "max_tokens"),))
