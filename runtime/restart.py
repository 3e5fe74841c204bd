"""How often a child may be started again, and how soon. Pure: times come in as arguments."""

from __future__ import annotations

from collections import deque

FIRST_BACKOFF_SECONDS = 1.0
MOST_BACKOFF_SECONDS = 10.0


class RestartBudget:
    """`limit` restarts within any `period_seconds`: the first at once, each further one after
    twice the wait of the one before. Then the budget is exhausted until it is reset by hand."""

    def __init__(self, limit: int, period_seconds: float) -> None:
        self._limit = limit
        self._period_seconds = period_seconds
        self._deaths: deque[float] = deque()

    def died(self, now: float) -> float | None:
        """Seconds to wait before the restart, or None when there is to be none."""
        while self._deaths and self._deaths[0] <= now - self._period_seconds:
            self._deaths.popleft()
        if len(self._deaths) >= self._limit:
            return None
        self._deaths.append(now)
        recent = len(self._deaths) - 1
        if recent == 0:
            return 0.0
        return min(FIRST_BACKOFF_SECONDS * 2.0 ** (recent - 1), MOST_BACKOFF_SECONDS)

    def exhausted(self, now: float) -> bool:
        """Whether one more death within the period would not be followed by a restart."""
        recent = sum(death > now - self._period_seconds for death in self._deaths)
        return recent >= self._limit

    def reset(self) -> None:
        """Somebody asked for the child by hand: start counting anew."""
        self._deaths.clear()

    def __repr__(self) -> str:
        return f"<RestartBudget {len(self._deaths)} of {self._limit} used>"
