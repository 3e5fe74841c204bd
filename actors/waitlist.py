"""Who may run a row of one model, and who waits. Pure: tickets and times in, grants out.

A request takes a place when it comes, which never waits and may be refused; it gets in line for a
row when its prompt is ready; of those in line, who came first gets the next row.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable
from statistics import fmean, pstdev

import attrs

from headrace.actors.messages import Ticket
from headrace.actors.returning import RETRY_AFTER_SECONDS, Returning

SERVICES_REMEMBERED = 32
# Until one has been measured, none is taken to be shorter.
UNMEASURED_SECONDS = 1.0
# What is promised allows for so many standard deviations of the mean of what was measured.
DEVIATIONS = 2.0
# For each place.
PROMISES_REMEMBERED = 4


@attrs.frozen
class WaitlistStatistics:
    """`waiting` counts every request that holds a place without a row, however many prompts it
    has; `running` counts tickets."""

    waiting: int
    running: int


class Waitlist:
    """Places and rows of one model: `max_rows` run, `queue_limit` more may hold a place. Who comes
    back when told to is let in beyond that, for as many as `queue_limit` again. The first in line
    waits for as long as `may_run` says no of it."""

    def __init__(
        self,
        max_rows: int,
        queue_limit: int,
        may_run: Callable[[Ticket], bool] = lambda ticket: True,
    ) -> None:
        self._may_run = may_run
        self._max_rows = max_rows
        self._queue_limit = queue_limit
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
        self._returning = Returning(PROMISES_REMEMBERED * self._places)

    def enter(self, ticket: Ticket, now: float, group: Hashable = None) -> bool:
        """Take a place; False when all are taken. A request counts once, whatever it wants: the
        tickets of one `group` share a place, None is a group of its own."""
        group = ticket if group is None else group
        if group not in self._sizes:
            kept = self._queue_limit if self._returning.keep(now) else 0
            if len(self._sizes) >= self._places + kept:
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
        ahead = len(self._entered) + self._returning.ahead(now) + 1
        between = self._service_seconds(now, DEVIATIONS) / self._max_rows
        return self._returning.promise(now, ahead * between, between)

    def retry_after_seconds(self, now: float) -> float:
        """Those ahead x mean service time / rows, as far as clients obey it."""
        low, high = RETRY_AFTER_SECONDS
        estimate = (len(self._entered) + 1) * self._service_seconds(now) / self._max_rows
        return min(max(estimate, low), high)

    def _service_seconds(self, now: float, deviations: float = 0.0) -> float:
        """The mean, or more by so many of its standard deviations. Before the first service has
        ended, the age of the oldest running row stands for it."""
        count = len(self._services)
        if not count:
            return max(UNMEASURED_SECONDS, now - min(self._running.values(), default=now))
        return fmean(self._services) + deviations * pstdev(self._services) / math.sqrt(count)

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
