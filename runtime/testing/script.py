"""What a scripted row says, and where it goes wrong."""

from __future__ import annotations

import itertools
import string
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import attrs

from headrace.runtime.ports import RowSpec
from headrace.runtime.testing.tokens import ScriptedTokenizer

ALPHABET = string.ascii_uppercase


@attrs.frozen
class Script:
    """One row, token by token. Positions count from 1, and 0 is the prefill of its prompt.

    `tokens` are ids, or a text that stands for its tokens; the end token follows them, and the
    alphabet if nobody listens to it. With `end` false they are said again and again instead.
    Without tokens the row walks through the alphabet for ever, from a letter that depends on its
    prompt and choice only.
    """

    tokens: str | tuple[int, ...] | None = None
    end: bool = True
    # So many tokens of its prompt need no computing.
    cached_tokens: int = 0
    # At this token the engine gives the row up (`RowFailed`).
    fail_at: int | None = None
    # At this token the whole step raises `ScriptedFault`, for every row of the batch.
    raise_at: int | None = None
    # At this token the whole step hangs.
    hang_at: int | None = None


# Which script a row follows.
ScriptChoice: TypeAlias = Callable[[RowSpec], Script]


class ScriptedFault(RuntimeError):
    """The fault that a script or a hook asked for."""


def by_text(scripts: Mapping[str, Script], tokenizer: ScriptedTokenizer) -> ScriptChoice:
    """The first script whose key occurs in the row's prompt; the alphabet walk where none does."""

    def choose(spec: RowSpec) -> Script:
        prompt = tokenizer.text(spec.tokens)
        return next((script for key, script in scripts.items() if key in prompt), Script())

    return choose


def play(script: Script, spec: RowSpec, tokenizer: ScriptedTokenizer) -> Iterator[int]:
    """The row's tokens in order, without end."""
    said = script.tokens
    if said is not None:
        tokens = tokenizer.encode(said) if isinstance(said, str) else said
        yield from tokens if script.end or not tokens else itertools.cycle(tokens)
        yield tokenizer.end_token
    yield from _alphabet_walk(spec)


def _alphabet_walk(spec: RowSpec) -> Iterator[int]:
    at = zlib.crc32(repr((spec.tokens, spec.choice)).encode()) % len(ALPHABET)
    while True:
        yield ord(ALPHABET[at])
        at = (at + 1) % len(ALPHABET)
