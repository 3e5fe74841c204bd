"""How many prompt tokens one step may compute, so that it takes no longer than it should. Pure.

A chunk is what a running stream waits for between two tokens, and what a cancel waits for. Its
length in tokens is therefore set by time, as measured on this machine with this model: the last
decode steps tell how long streams are used to wait, and what a chunk costs however short it is,
for it reads all weights once, as they do; the last chunks tell what each token adds to that, and
how much more behind others.
"""

from __future__ import annotations

import statistics
from collections import deque

from headrace.actors.token_seconds import TokenSeconds

FIRST_CHUNK_TOKENS = 64
LEAST_CHUNK_TOKENS = 16
# A chunk beside running streams takes so many times a decode step, and one without them no less:
# shorter ones would spend more than a quarter of their time on reading weights.
DECODE_STEPS = 4.0
# Where streams are given their tokens in the same step, that is all that they wait for.
MIXED_STEPS = 4.75
# For rows of low priority it takes fewer: whoever comes meanwhile waits for its end.
LOW_DECODE_STEPS = 1.5
# What a chunk costs besides its tokens, in decode steps: those have rows, which cost as well.
READING_STEPS = 0.75
# The same where it decodes as well.
MIXED_READING_STEPS = 1.25
# A short chunk can come out as costing next to nothing besides that, and the next one would be as
# long as may be: so much of its time is its tokens' in any case.
LEAST_SHARE = 0.5
# Of a step that decodes as well: a short piece is the smaller part of it.
MIXED_LEAST_SHARE = 0.25
# Weight of the newest measurement against all before it.
NEWEST = 0.5
# Decode steps of which the middle one counts: a single slow one, in which rows came or went, would
# make the next chunk several times too long.
LAST_STEPS = 5


class Pace:
    """`most_tokens` and `chunk_seconds` bound a chunk; `chunk_seconds` 0 means by tokens alone."""

    def __init__(self, most_tokens: int, chunk_seconds: float) -> None:
        self.most_tokens = most_tokens
        self._chunk_seconds = chunk_seconds
        self._token_seconds = TokenSeconds()
        self._decode_seconds: deque[float] = deque(maxlen=LAST_STEPS)

    def chunk_tokens(
        self, decoding: int, *, low: bool = False, depth: int = 0, mixed: bool = False
    ) -> int:
        """The most prompt tokens for the next chunk, with so many rows decoding, behind `depth`
        tokens of the same prompt. `low`: it is for prompts of low priority, and always short.
        `mixed`: those rows decode in the same step."""
        if self._chunk_seconds == 0:
            return self.most_tokens
        first = self._token_seconds.at(depth)
        if first is None:
            return min(FIRST_CHUNK_TOKENS, self.most_tokens)
        seconds = self._seconds(decoding, low, mixed) - self._reading_seconds(mixed)
        # They cost what the one in the middle does.
        middle = self._token_seconds.at(depth + self._count(seconds, first) / 2)
        tokens = self._count(seconds, middle or first)
        # Whole multiples, so that compiled kernels see few shapes.
        tokens -= tokens % LEAST_CHUNK_TOKENS
        return max(LEAST_CHUNK_TOKENS, min(tokens, self.most_tokens))

    def _count(self, seconds: float, token_seconds: float) -> int:
        if token_seconds <= 0:
            return self.most_tokens
        return int(min(seconds / token_seconds, self.most_tokens))

    def _seconds(self, decoding: int, low: bool, mixed: bool) -> float:
        step_seconds = self._step_seconds
        if step_seconds is None:
            return self._chunk_seconds
        if low:
            return LOW_DECODE_STEPS * step_seconds
        few_steps = (MIXED_STEPS if mixed else DECODE_STEPS) * step_seconds
        return few_steps if decoding else max(self._chunk_seconds, few_steps)

    def prefilled(
        self, tokens: int, seconds: float, depth: int = 0, *, mixed: bool = False
    ) -> None:
        """So many tokens took so long behind `depth` others, a decode included where `mixed`."""
        if tokens > 0:
            # The few tokens that a kept prefix leaves to compute say little of a long prompt's.
            weight = NEWEST * min(1.0, tokens / FIRST_CHUNK_TOKENS)
            least_share = MIXED_LEAST_SHARE if mixed else LEAST_SHARE
            added = max(seconds - self._reading_seconds(mixed), least_share * seconds)
            self._token_seconds.measured(depth + tokens / 2, added / tokens, weight)

    def _reading_seconds(self, mixed: bool) -> float:
        count = MIXED_READING_STEPS if mixed else READING_STEPS
        return count * (self._step_seconds or 0.0)

    @property
    def _step_seconds(self) -> float | None:
        """What a decode takes of late; None before the first."""
        return statistics.median(self._decode_seconds) if self._decode_seconds else None

    def decoded(self, seconds: float) -> None:
        self._decode_seconds.append(seconds)
