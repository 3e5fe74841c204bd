"""Who may run a row of one model, and who waits. Pure: tickets and times in, grants out.

A request takes a place when it comes, which never waits and may be refused; it gets in line for a
row when its prompt is ready; of those in line, who came first gets the next row.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable

import attrs

from headrace.actors.messages import Ticket

# Clients give up when told to wait for more than two minutes (wire contract 2.3).
RETRY_AFTER_SECONDS = (1.0, 120.0)
SERVICES_REMEMBERED = 32
# For each place; who comes again and again without waiting must not put off all others.
REFUSALS_REMEMBERED = 4


@attrs.frozen
class WaitlistStatistics:
    """`waiting` counts every request that holds a place without a row, however many prompts it
    has; `running` counts tickets."""

    waiting: int
    running: int


class Waitlist:
    """Places and rows of one model: `max_rows` run, `queue_limit` more may hold a place. The first
    in line waits for as long as `may_run` says no of it."""

    def __init__(
        self,
        max_rows: int,
        queue_limit: int,
        may_run: Callable[[Ticket], bool] = lambda ticket: True,
    ) -> None:
        self._may_run = may_run
        self._max_rows = max_rows
        self._places = max_rows + queue_limit
        self._arrivals = itertools.count()
        # Ticket -> its number in the order of arrival; kept until it leaves.
        self._numbers: dict[Ticket, int] = {}
        # Ticket -> the request that it is a part of, and how many tickets each request has.
        self._groups: dict[Ticket, Hashable] = {}
        self._sizes: Counter[Hashable] = Counter()
        # Those without a row, and of them those who are ready, by order of arrival.
        self._entered: set[Ticket] = set()
        # Those who let all others pass.
        self._low: set[Ticket] = set()
        self._line: list[Ticket] = []
        # Ticket -> how many rows it wants, all at once.
        self._rows: dict[Ticket, int] = {}
        # Ticket -> when its rows were granted, in seconds.
        self._running: dict[Ticket, float] = {}
        self._services: deque[float] = deque(maxlen=SERVICES_REMEMBERED)
        # When those come back who found no place, as far as they were told.
        self._told: deque[float] = deque()

    def enter(self, ticket: Ticket, group: Hashable = None) -> bool:
        """Take a place; False when all are taken. A request counts once, whatever it wants: the
        tickets of one `group` share a place, None is a group of its own."""
        group = ticket if group is None else group
        if group not in self._sizes and len(self._sizes) >= self._places:
            return False
        self._groups[ticket] = group
        self._sizes[group] += 1
        self._entered.add(ticket)
        self._numbers[ticket] = next(self._arrivals)
        return True

    def line_up(
        self, ticket: Ticket, now: float, rows: int = 1, *, late: bool = False, low: bool = False
    ) -> list[Ticket]:
        """The ticket is ready to run so many rows; a `late` one goes behind all that have come,
        one of `low` priority also behind all that come. Answers who gets theirs now."""
        if ticket in self._entered and ticket not in self._line:
            if late:
                self._numbers[ticket] = next(self._arrivals)
            # More than there are would wait for ever.
            self._rows[ticket] = min(rows, self._max_rows)
            if low:
                self._low.add(ticket)
            bisect.insort(self._line, ticket, key=self._order)
        return self._grant(now)

    def _order(self, ticket: Ticket) -> tuple[bool, int]:
        return ticket in self._low, self._numbers[ticket]

    def leave(self, ticket: Ticket, now: float) -> list[Ticket]:
        """The ticket is done, whatever it held. Answers who gets a row now."""
        began = self._running.pop(ticket, None)
        if began is not None:
            self._services.append(now - began)
        elif ticket in self._entered:
            self._entered.discard(ticket)
            self._line = [other for other in self._line if other != ticket]
        self._numbers.pop(ticket, None)
        self._rows.pop(ticket, None)
        self._low.discard(ticket)
        self._leave_group(ticket)
        return self._grant(now)

    def retry(self, now: float) -> list[Ticket]:
        """Something has changed of which `may_run` knows. Answers who gets a row now."""
        return self._grant(now)

    def _leave_group(self, ticket: Ticket) -> None:
        if ticket in self._groups:
            group = self._groups.pop(ticket)
            self._sizes[group] -= 1
            if not self._sizes[group]:
                del self._sizes[group]

    def _grant(self, now: float) -> list[Ticket]:
        granted: list[Ticket] = []
        taken = sum(self._rows[ticket] for ticket in self._running)
        # Nobody passes the first in line: one that wants many rows would wait for ever.
        while (
            self._line
            and taken + self._rows[self._line[0]] <= self._max_rows
            and self._may_run(self._line[0])
        ):
            ticket = self._line.pop(0)
            taken += self._rows[ticket]
            self._entered.discard(ticket)
            self._running[ticket] = now
            granted.append(ticket)
        return granted

    def refuse(self, now: float) -> float:
        """When one for whom there is no place is to come back. Those told so before count as ahead
        of it until they come, or all of them would come at once, and most in vain."""
        while self._told and self._told[0] <= now:
            self._told.popleft()
        seconds = self.retry_after_seconds(now, len(self._told))
        bisect.insort(self._told, now + seconds)
        if len(self._told) > REFUSALS_REMEMBERED * self._places:
            self._told.popleft()
        return seconds

    def retry_after_seconds(self, now: float, told: int = 0) -> float:
        """Those ahead x mean service time / rows. Before the first service has ended, the age of
        the oldest running row stands for its time. `told` are on their way."""
        services = list(self._services) or [now - min(self._running.values(), default=now)]
        mean = sum(services) / len(services)
        estimate = (len(self._entered) + told + 1) * mean / self._max_rows
        low, high = RETRY_AFTER_SECONDS
        return min(max(estimate, low), high)

    def statistics(self) -> WaitlistStatistics:
        groups = self._groups
        served = {groups[ticket] for ticket in self._running}
        waiting = {groups[ticket] for ticket in self._entered} - served
        return WaitlistStatistics(len(waiting), len(self._running))

    def __repr__(self) -> str:
        return (
            f"<Waitlist {len(self._running)} of {self._max_rows} rows, {len(self._entered)} "
            f"waiting, {len(self._line)} of them in line>"
        )
