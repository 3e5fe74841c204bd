"""What a load has measured, in figures. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs


@attrs.define
class Sample:
    """One request. Times are in seconds on one clock; `gaps` lie between two pieces of text."""

    began: float
    first: float | None = None
    last: float | None = None
    gaps: list[float] = attrs.field(factory=list)
    tokens: int = 0
    # Why it did not end well.
    error: str | None = None

    def heard(self, now: float) -> None:
        """A piece of text has come."""
        if self.last is None:
            self.first = now
        else:
            self.gaps.append(now - self.last)
        self.last = now


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that so many percent of the values do not exceed (nearest rank)."""
    if not values:
        return None
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[max(rank, 1) - 1]


def summary(samples: Sequence[Sample], concurrency: int, seconds: float) -> dict[str, Any]:
    """A load of so many at a time that took so many seconds."""
    good = [sample for sample in samples if sample.error is None]
    firsts = [sample.first - sample.began for sample in good if sample.first is not None]
    gaps = [gap for sample in good for gap in sample.gaps]
    tokens = sum(sample.tokens for sample in good)
    errors = Counter(sample.error for sample in samples if sample.error is not None)
    return {
        "concurrency": concurrency,
        "requests": len(samples),
        "errors": len(samples) - len(good),
        "error_kinds": dict(errors),
        "seconds": seconds,
        "ttft_p50_s": percentile(firsts, 50),
        "ttft_p99_s": percentile(firsts, 99),
        "inter_token_p50_s": percentile(gaps, 50),
        "inter_token_p99_s": percentile(gaps, 99),
        "tokens": tokens,
        "tokens_per_second": tokens / seconds if seconds > 0 else 0.0,
    }
