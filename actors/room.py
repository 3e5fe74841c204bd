"""How many tokens a request may generate. Pure (wire contract 3.3)."""

from __future__ import annotations

import attrs

from headrace.runtime.contracts import Warning_
from headrace.runtime.errors import Code, RequestError


@attrs.frozen
class Room:
    """The cap in force, in tokens, and what the client must be told about it."""

    max_tokens: int
    warnings: tuple[Warning_, ...] = ()


def token_room(context_window: int, prompt_tokens: int, wanted: int | None) -> Room:
    """The cap for a prompt of `prompt_tokens` when the client `wanted` so many (None: no cap).

    A cap above the room is clamped with a warning. Raises `RequestError`
    (context_length_exceeded) when there is no room for a single token, unless none is wanted.
    """
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
    if wanted is None or wanted <= room:
        return Room(room if wanted is None else wanted)
    warning = Warning_(
        "max_tokens_clamped",
        f"max_tokens was lowered from {wanted} to {room}, the room left in the context window",
        "max_tokens",
    )
    return Room(room, (warning,))
