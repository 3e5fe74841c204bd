"""When those who found no place are to come back, and that they are let in then. Pure.

Each is told a time of its own, one after another as fast as places become free; whoever comes when
such a time has passed uses up the oldest promise. Nothing tells who it is: one that comes without
having been told may be taken for one that has, which then is told anew.
"""

from __future__ import annotations

from collections import deque

# Clients give up when told to wait for more than two minutes (wire contract 2.3).
RETRY_AFTER_SECONDS = (1.0, 120.0)
# Services are not all alike, and a machine that is busy becomes slower: what is told is longer
# than what is expected by this.
MARGIN = 1.25
# For how long after its time a promise is kept: a timer is late, and a connection has to be made.
GRACE_SECONDS = 5.0


class Returning:
    """Of one model. `most` bounds the promises that are remembered: who comes again and again
    without waiting must not put off all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        # When those come who were told to, the first first; in seconds like all times here.
        self._due: deque[float] = deque()

    def ahead(self, now: float) -> int:
        """How many are still to come."""
        while self._due and self._due[0] + GRACE_SECONDS < now:
            self._due.popleft()
        return len(self._due)

    def promise(self, now: float, expected_seconds: float, between_seconds: float) -> float:
        """After how many seconds to come. `expected_seconds` is when all who are ahead will have
        been served, `between_seconds` how often a place becomes free."""
        low, high = RETRY_AFTER_SECONDS
        after_last = self._due[-1] + MARGIN * between_seconds if self.ahead(now) else now
        seconds = max(low, MARGIN * expected_seconds, after_last - now)
        if seconds > high or len(self._due) >= self._most:
            # Told to come, but without a promise: that is too far off to be kept.
            return min(seconds, high)
        self._due.append(now + seconds)
        return seconds

    def keep(self, now: float) -> bool:
        """Somebody has come. Whether that is one to whom it was promised."""
        if self.ahead(now) and self._due[0] <= now:
            self._due.popleft()
            return True
        return False
