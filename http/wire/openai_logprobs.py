"""Log-probabilities in the two shapes of the OpenAI routes (wire contract 3.8, 4.2 and 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.runtime.contracts import ScoredToken, TokenLogprob

LEAST_LOGPROB = -9999.0


def token_name(raw: bytes) -> str:
    """A token as text; bytes that are no characters by themselves are spelled out."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def shown(logprob: float | None) -> float | None:
    """JSON has no infinity, and a masked token has no less."""
    if logprob is None:
        return None
    return logprob if logprob > LEAST_LOGPROB else LEAST_LOGPROB


# ---- chat ----------------------------------------------------------------------------------


def chat_scores(scored: Iterable[ScoredToken]) -> dict[str, Any]:
    return {"content": [_entry(token) for token in scored], "refusal": None}


def _entry(token: ScoredToken) -> dict[str, Any]:
    return _named(token.chosen) | {"top_logprobs": [_named(other) for other in token.top]}


def _named(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": token_name(token.raw),
        "logprob": shown(token.logprob),
        "bytes": list(token.raw),
    }


# ---- completions ---------------------------------------------------------------------------


class LegacyScores:
    """The four lists of one answer, piece by piece. `offset` is where its tokens begin in the
    text, in characters."""

    def __init__(self, alternatives: int, offset: int = 0) -> None:
        self._alternatives = alternatives
        self._offset = offset

    def take(self, scored: Sequence[ScoredToken]) -> dict[str, Any]:
        alternatives = [_alternatives(token) for token in scored]
        return {
            "tokens": [token_name(token.chosen.raw) for token in scored],
            "token_logprobs": [shown(token.chosen.logprob) for token in scored],
            "top_logprobs": alternatives if self._alternatives else None,
            "text_offset": [self._place(token.chosen.raw) for token in scored],
        }

    def _place(self, raw: bytes) -> int:
        """Where a token begins; within a character it begins where that does."""
        inside = bool(raw) and _continues(raw[0])
        begins = self._offset - inside
        self._offset += sum(not _continues(byte) for byte in raw)
        return begins


def _alternatives(token: ScoredToken) -> dict[str, float | None] | None:
    """The likeliest tokens and the chosen one. Of tokens with one name the likeliest is shown.

    The first token of a prompt was not chosen among others."""
    if token.chosen.logprob is None:
        return None
    found: dict[str, float | None] = {}
    for other in (*token.top, token.chosen):
        found.setdefault(token_name(other.raw), shown(other.logprob))
    return found


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 goes on with a character that an earlier one began."""
    return byte & 0xC0 == 0x80
