"""How many prompt tokens one step may compute, so that it takes no longer than it should. Pure.

A chunk is what a running stream waits for between two tokens, and what a cancel waits for. Its
length in tokens is therefore set by time, as measured on this machine with this model: the last
decode steps tell how long streams are used to wait, and what a chunk costs however short it is,
for it reads all weights once, as they do; the last chunks tell what each token adds to that.
"""

from __future__ import annotations

import statistics
from collections import deque

FIRST_CHUNK_TOKENS = 64
LEAST_CHUNK_TOKENS = 16
# A chunk beside running streams takes so many times a decode step, and one without them no less:
# shorter ones would spend more than a quarter of their time on reading weights.
DECODE_STEPS = 4.0
# For rows of low priority it takes fewer: whoever comes meanwhile waits for its end.
LOW_DECODE_STEPS = 1.5
# What a chunk costs besides its tokens, in decode steps: those have rows, which cost as well.
READING_STEPS = 0.75
# A short chunk can come out as costing next to nothing besides that, and the next one would be as
# long as may be: so much of its time is its tokens' in any case.
LEAST_SHARE = 0.5
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
        self._token_seconds: float | None = None
        self._decode_seconds: deque[float] = deque(maxlen=LAST_STEPS)

    def chunk_tokens(self, decoding: int, *, low: bool = False) -> int:
        """The most prompt tokens for the next chunk, with so many rows decoding. `low`: it is for
        prompts of low priority, and always short."""
        if self._chunk_seconds == 0:
            return self.most_tokens
        if self._token_seconds is None:
            return min(FIRST_CHUNK_TOKENS, self.most_tokens)
        seconds = self._seconds(decoding, low) - self._reading_seconds()
        tokens = int(seconds / self._token_seconds) if self._token_seconds > 0 else self.most_tokens
        # Whole multiples, so that compiled kernels see few shapes.
        tokens -= tokens % LEAST_CHUNK_TOKENS
        return max(LEAST_CHUNK_TOKENS, min(tokens, self.most_tokens))

    def _seconds(self, decoding: int, low: bool) -> float:
        if not self._decode_seconds:
            return self._chunk_seconds
        step_seconds = statistics.median(self._decode_seconds)
        if low:
            return LOW_DECODE_STEPS * step_seconds
        few_steps = DECODE_STEPS * step_seconds
        return few_steps if decoding else max(self._chunk_seconds, few_steps)

    def prefilled(self, tokens: int, seconds: float) -> None:
        if tokens > 0:
            # The few tokens that a kept prefix leaves to compute say little of a long prompt's.
            weight = NEWEST * min(1.0, tokens / FIRST_CHUNK_TOKENS)
            added = max(seconds - self._reading_seconds(), LEAST_SHARE * seconds)
            self._token_seconds = _moved(self._token_seconds, added / tokens, weight)

    def _reading_seconds(self) -> float:
        steps = self._decode_seconds
        return READING_STEPS * statistics.median(steps) if steps else 0.0

    def decoded(self, seconds: float) -> None:
        self._decode_seconds.append(seconds)


def _moved(before: float | None, newest: float, weight: float) -> float:
    return newest if before is None else before + weight * (newest - before)
