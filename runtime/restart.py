"""How often a child may be started again, and how soon. Pure: times come in as arguments."""

from __future__ import annotations

from collections import deque

FIRST_BACKOFF_SECONDS = 1.0
MOST_BACKOFF_SECONDS = 10.0


class RestartBudget:
    """`limit` restarts within any `period_seconds`: the first at once, each further one after
    twice the wait of the one before. A death beyond that is not followed by a restart, and the
    budget stays exhausted until somebody asks for the child by hand."""

    def __init__(self, limit: int, period_seconds: float) -> None:
        self._limit = limit
        self._period_seconds = period_seconds
        self._restarts: deque[float] = deque()
        self.exhausted = False

    def died(self, now: float) -> float | None:
        """Seconds to wait before the restart, or None when there is to be none."""
        while self._restarts and self._restarts[0] <= now - self._period_seconds:
            self._restarts.popleft()
        recent = len(self._restarts)
        if self.exhausted or recent >= self._limit:
            self.exhausted = True
            return None
        self._restarts.append(now)
        if recent == 0:
            return 0.0
        return min(FIRST_BACKOFF_SECONDS * 2.0 ** (recent - 1), MOST_BACKOFF_SECONDS)

    def reset(self) -> None:
        """Somebody asked for the child by hand: start counting anew."""
        self._restarts.clear()
        self.exhausted = False

    def __repr__(self) -> str:
        state = "exhausted" if self.exhausted else f"{len(self._restarts)} of {self._limit} used"
        return f"<RestartBudget {state}>"
