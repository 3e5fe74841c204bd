"""Rows in the order of the line, places within the bound, and nothing held after leaving."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.actors.returning import MARGIN
from headrace.actors.waitlist import Waitlist, WaitlistStatistics

MAX_ROWS, QUEUE_LIMIT = 2, 3


def test_more_than_rows_and_places_are_refused() -> None:
    waitlist = Waitlist(MAX_ROWS, QUEUE_LIMIT)
    assert [waitlist.enter(f"t{n}", 0.0) for n in range(6)] == [True] * 5 + [False]


def test_a_leaver_makes_room_for_who_came_first_of_those_in_line() -> None:
    waitlist = Waitlist(1, 3)
    for ticket in ("a", "b", "c", "d"):
        waitlist.enter(ticket, 0.0)
    assert waitlist.line_up("a", 0.0) == ["a"]
    assert waitlist.line_up("d", 1.0) == []
    assert waitlist.line_up("c", 2.0) == []
    assert waitlist.leave("a", 3.0) == ["c"]


def test_several_rows_are_granted_together_and_nobody_passes_who_waits_for_them() -> None:
    waitlist = Waitlist(2, 3)
    for ticket in ("a", "b", "c"):
        waitlist.enter(ticket, 0.0)
    assert waitlist.line_up("a", 0.0) == ["a"]
    assert waitlist.line_up("b", 1.0, rows=2) == []
    assert waitlist.line_up("c", 2.0) == []
    assert waitlist.leave("a", 3.0) == ["b"]
    assert waitlist.leave("b", 4.0) == ["c"]


def test_all_others_pass_those_of_low_priority_who_keep_their_own_order() -> None:
    waitlist = Waitlist(1, 6)
    for ticket in ("a", "low", "lower", "b", "c"):
        waitlist.enter(ticket, 0.0)
    assert waitlist.line_up("a", 0.0) == ["a"]
    assert waitlist.line_up("low", 1.0, low=True) == []
    assert waitlist.line_up("lower", 1.0, low=True) == []
    assert waitlist.line_up("b", 2.0) == []
    assert waitlist.leave("a", 3.0) == ["b"]
    assert waitlist.line_up("c", 3.0) == []
    assert [waitlist.leave(ticket, 4.0) for ticket in ("b", "c", "low")] == [
        ["c"],
        ["low"],
        ["lower"],
    ]


@pytest.mark.parametrize(
    ("service_seconds", "waiting", "expected"), [(0.1, 1, 1.0), (10.0, 3, 20.0), (500.0, 3, 120.0)]
)
def test_retry_after_is_those_ahead_times_the_mean_service(
    service_seconds: float, waiting: int, expected: float
) -> None:
    waitlist = Waitlist(2, 10)
    waitlist.enter("done", 0.0)
    waitlist.line_up("done", 0.0)
    waitlist.leave("done", service_seconds)
    for n in range(waiting):
        waitlist.enter(f"w{n}", 0.0)
    assert waitlist.retry_after_seconds(service_seconds) == pytest.approx(expected)


def test_those_who_find_no_place_are_told_to_come_one_after_another() -> None:
    """Given one row that takes 10 seconds and two more places, when four find none, then they are
    told to come as fast as places become free, and who comes later counts from then."""
    waitlist = Waitlist(1, 2)
    for number in range(4):
        waitlist.enter(f"t{number}", 0.0)
        waitlist.line_up(f"t{number}", 0.0)
    waitlist.leave("t0", 10.0)
    waitlist.enter("t4", 10.0)
    assert not waitlist.enter("t5", 10.0)
    expected = [30.0, 40.0, 50.0, 60.0]
    assert [waitlist.refuse(10.0) for _ in range(4)] == [MARGIN * seconds for seconds in expected]
    assert waitlist.refuse(60.0) == MARGIN * 60.0, "one of the four should have come"


def test_who_comes_again_and_again_puts_nobody_off_for_ever() -> None:
    waitlist = Waitlist(1, 0)
    waitlist.enter("runs", 0.0)
    waitlist.line_up("runs", 0.0)
    assert all(1.0 <= waitlist.refuse(1.0) <= 120.0 for _ in range(1000))
    assert waitlist.refuse(200.0) <= 120.0


class Histories(RuleBasedStateMachine):
    """Random arrivals, line-ups and departures, also of tickets that are gone or unknown."""

    def __init__(self) -> None:
        super().__init__()
        self.waitlist = Waitlist(MAX_ROWS, QUEUE_LIMIT)
        self.now = 0.0
        self.next_ticket = 0
        self.entered: set[str] = set()
        self.line: list[str] = []
        self.running: set[str] = set()
        self.rows: dict[str, int] = {}

    def expect(self, granted: list[str]) -> None:
        while self.line and self.taken() + self.rows[self.line[0]] <= MAX_ROWS:
            ticket = self.line.pop(0)
            self.entered.discard(ticket)
            self.running.add(ticket)
            assert granted.pop(0) == ticket
        assert granted == []

    def taken(self) -> int:
        return sum(self.rows[ticket] for ticket in self.running)

    @rule()
    def enter(self) -> None:
        ticket = f"t{self.next_ticket}"
        self.next_ticket += 1
        full = len(self.entered) + len(self.running) >= MAX_ROWS + QUEUE_LIMIT
        assert self.waitlist.enter(ticket, self.now) is not full
        if not full:
            self.entered.add(ticket)

    @rule(back=st.integers(1, 8), rows=st.integers(1, MAX_ROWS + 1))
    def line_up(self, back: int, rows: int) -> None:
        ticket = f"t{self.next_ticket - back}"
        granted = self.waitlist.line_up(ticket, self.now, rows)
        if ticket in self.entered and ticket not in self.line:
            self.rows[ticket] = min(rows, MAX_ROWS)
            self.line = sorted([*self.line, ticket], key=lambda name: int(name[1:]))
        self.expect(granted)

    @rule(back=st.integers(1, 8), seconds=st.floats(0, 10))
    def leave(self, back: int, seconds: float) -> None:
        self.now += seconds
        ticket = f"t{self.next_ticket - back}"
        granted = self.waitlist.leave(ticket, self.now)
        self.entered.discard(ticket)
        self.running.discard(ticket)
        self.line = [other for other in self.line if other != ticket]
        self.expect(granted)

    @invariant()
    def no_more_rows_run_than_there_are(self) -> None:
        assert self.taken() <= MAX_ROWS

    @invariant()
    def counts_are_exact(self) -> None:
        expected = WaitlistStatistics(len(self.entered), len(self.running))
        assert self.waitlist.statistics() == expected

    @invariant()
    def retry_after_is_within_what_clients_obey(self) -> None:
        assert 1.0 <= self.waitlist.retry_after_seconds(self.now) <= 120.0


TestHistories = Histories.TestCase
