"""Who is told to come back, and does so at that time, finds a place."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.returning import GRACE_SECONDS, MARGIN, RETRY_AFTER_SECONDS, Returning
from headrace.actors.waitlist import Waitlist


class TestPromises:
    def test_each_is_told_a_later_time_even_where_none_waits(self) -> None:
        returning = Returning(10)
        assert [returning.promise(0.0, 0.1, 2.0) for _ in range(3)] == [1.0, 3.5, 6.0]

    def test_a_promise_is_used_once_and_only_in_its_time(self) -> None:
        returning = Returning(10)
        seconds = returning.promise(0.0, 4.0, 1.0)
        assert seconds == 4.0 * MARGIN
        assert not returning.keep(seconds - 0.1)
        assert returning.keep(seconds)
        assert not returning.keep(seconds)

    def test_one_who_does_not_come_is_forgotten(self) -> None:
        returning = Returning(10)
        seconds = returning.promise(0.0, 4.0, 1.0)
        assert returning.ahead(seconds + GRACE_SECONDS) == 1
        assert returning.ahead(seconds + GRACE_SECONDS + 0.1) == 0
        assert not returning.keep(seconds + GRACE_SECONDS + 0.1)

    def test_what_is_too_far_off_is_not_promised(self) -> None:
        returning = Returning(10)
        assert returning.promise(0.0, 1000.0, 1.0) == RETRY_AFTER_SECONDS[1]
        assert returning.ahead(0.0) == 0

    @given(
        st.integers(1, 5),
        st.lists(
            st.tuples(st.floats(0, 30), st.floats(0, 200), st.floats(0, 20), st.booleans()),
            max_size=40,
        ),
    )
    def test_times_are_within_what_clients_obey_and_promises_within_their_bound(
        self, most: int, calls: list[tuple[float, float, float, bool]]
    ) -> None:
        returning, now = Returning(most), 0.0
        made = kept = 0
        for after, expected, between, comes in calls:
            now += after
            if comes:
                kept += returning.keep(now)
                continue
            before = returning.ahead(now)
            low, high = RETRY_AFTER_SECONDS
            assert low <= returning.promise(now, expected, between) <= high
            made += returning.ahead(now) - before
            assert returning.ahead(now) <= most
        assert kept <= made


@attrs.frozen
class Burst:
    """Clients that come at once, on a list of so many rows and places. Each service takes what
    `service` draws times `slower`; what is known beforehand was drawn alike, but not slowed."""

    clients: int
    rows: int
    queue: int
    service: Callable[[Random], float]
    slower: float = 1.0


def refused_again(burst: Burst, seed: int, newcomers_per_second: float = 0.0) -> tuple[int, int]:
    """How many were told to come back, and how many of these found no place then."""
    chance = Random(seed)
    waitlist = Waitlist(burst.rows, burst.queue)
    for n in range(2 * burst.rows):
        began = waitlist_serves(waitlist, f"before {n}", burst.service(chance))
        assert began
    # What happens next, by time; the second says in which order at one time.
    order = itertools.count()
    events: list[tuple[float, int, str, str]] = []
    start = 1000.0
    for n in range(burst.clients):
        heapq.heappush(events, (start, next(order), "comes", f"client {n}"))
    at = start
    while newcomers_per_second and at < start + 100:
        at += chance.expovariate(newcomers_per_second)
        heapq.heappush(events, (at, next(order), "comes anew", f"newcomer {at}"))
    told = again = 0
    while events:
        now, _, what, name = heapq.heappop(events)
        if what == "leaves":
            granted = waitlist.leave(name, now)
        elif waitlist.enter(name, now):
            granted = waitlist.line_up(name, now)
        elif what == "comes":
            told += 1
            # A little late, as clients are.
            back = now + waitlist.refuse(now) + chance.uniform(0, 0.05)
            heapq.heappush(events, (back, next(order), "comes again", name))
            continue
        else:
            again += what == "comes again"
            waitlist.refuse(now)
            continue
        for other in granted:
            seconds = burst.slower * burst.service(chance)
            heapq.heappush(events, (now + seconds, next(order), "leaves", other))
    return told, again


def waitlist_serves(waitlist: Waitlist, name: str, seconds: float) -> bool:
    came = waitlist.enter(name, 0.0) and waitlist.line_up(name, 0.0) == [name]
    waitlist.leave(name, seconds)
    return came


BURSTS = {
    "much alike": Burst(24, 2, 4, lambda chance: chance.uniform(0.8, 1.2)),
    "of all lengths": Burst(60, 4, 12, lambda chance: chance.expovariate(1.0)),
    "short": Burst(200, 8, 64, lambda chance: chance.uniform(0.01, 0.03)),
    "half as fast as before": Burst(24, 2, 4, lambda chance: chance.uniform(0.8, 1.2), 1.5),
}


@pytest.mark.parametrize("name", BURSTS)
def test_all_who_obey_are_let_in(name: str) -> None:
    """But for one in a thousand, where eight services say too little of those to come."""
    found = [refused_again(BURSTS[name], seed) for seed in range(40)]
    told, again = (sum(column) for column in zip(*found, strict=True))
    assert told > 0
    assert again <= told / 1000


def test_newcomers_do_not_take_the_places_of_those_who_come_back() -> None:
    """With more newcomers than can be served, who come at any time and are mistaken for those
    who return, few of these are refused again."""
    burst = BURSTS["much alike"]
    found = [refused_again(burst, seed, newcomers_per_second=3.0) for seed in range(20)]
    told, again = (sum(column) for column in zip(*found, strict=True))
    assert again <= told / 10
