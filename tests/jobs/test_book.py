"""The states of jobs and the order of their kinds, whatever is asked in whatever order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.actors.jobs.book import Book
from headrace.actors.jobs.ending import UNFORESEEN, failed
from headrace.actors.jobs.job import NEXT, Job, Result, Status, end_event
from headrace.runtime.errors import Code, RequestError

KINDS = ("bake", "boil")
QUEUE_LIMIT = 3
MOVES: dict[Status, Any] = {
    "running": lambda job, now: job.started(now),
    "done": lambda job, now: job.done(now, Result("file", {"n": 1})),
    "failed": lambda job, now: job.failed(now, "why"),
    "cancelled": lambda job, now: job.cancelled(now),
    "zombie": lambda job, now: job.left_behind(now),
}


def job(name: str = "j", kind: str = "bake") -> Job:
    return Job(id=name, kind=kind, config={}, created_at=0)


@given(st.lists(st.sampled_from(list(MOVES)), max_size=6))
def test_a_job_moves_as_the_table_says_and_its_row_tells_when(moves: list[Status]) -> None:
    row = job()
    for now, move in enumerate(moves, start=1):
        if move not in NEXT[row.status]:
            with pytest.raises(ValueError, match=f"{row.status} cannot become {move}"):
                MOVES[move](row, now)
            continue
        row = MOVES[move](row, now)
        assert row.status == move
    assert row.ended == (row.ended_at is not None)
    assert (row.error is not None) == (row.status in ("failed", "cancelled", "zombie"))
    assert (row.progress == 1.0) == (row.status == "done")
    if row.ended:
        event = end_event(row)
        assert event["type"] == ("done" if row.status == "done" else "failed")
        assert event["ts"] == row.ended_at


@given(st.lists(st.tuples(st.none() | st.floats(-1, 2), st.none() | st.text()), max_size=5))
def test_progress_stays_between_nothing_and_all(told: list[tuple[float | None, Any]]) -> None:
    row = job().started(1)
    for progress, message in told:
        row = row.at(progress, message)
        assert 0.0 <= row.progress <= 1.0
        assert message is None or row.message == message


def test_of_failures_together_the_one_that_was_foreseen_is_told() -> None:
    refusal = RequestError(Code.INVALID_VALUE, "No such file.")
    both = ExceptionGroup("", [KeyError("x"), ExceptionGroup("", [refusal])])
    assert failed(both).error == "No such file."
    assert failed(OSError(28, "No space left on device")).error == "No space left on device."
    assert failed(KeyError("secret")).error == UNFORESEEN


class Books(RuleBasedStateMachine):
    """A book beside a plain list of what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Book(QUEUE_LIMIT)
        self.now = 0
        self.waiting: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.running: dict[str, str] = {}

    @rule(kind=st.sampled_from(KINDS))
    def submit(self, kind: str) -> None:
        self.now += 1
        places = QUEUE_LIMIT + (kind not in self.running)
        assert self.book.is_full(kind) == (len(self.waiting[kind]) >= places)
        if not self.book.is_full(kind):
            self.book.add(job(f"j{self.now}", kind))
            self.waiting[kind].append(f"j{self.now}")

    @rule(kind=st.sampled_from(KINDS))
    def begin(self, kind: str) -> None:
        begun = self.book.begin(kind, self.now)
        if kind in self.running or not self.waiting[kind]:
            assert begun is None
            return
        assert begun is not None
        assert (begun.id, begun.status) == (self.waiting[kind].pop(0), "running")
        self.running[kind] = begun.id

    @rule(kind=st.sampled_from(KINDS), how=st.sampled_from(["done", "failed", "cancelled"]))
    def end(self, kind: str, how: str) -> None:
        if kind in self.running:
            name = self.running.pop(kind)
            ended = {
                "done": lambda: self.book.done(name, self.now, Result()),
                "failed": lambda: self.book.failed(name, self.now, "why"),
                "cancelled": lambda: self.book.cancelled(name, self.now, "why"),
            }[how]()
            assert ended.status == how

    @rule(kind=st.sampled_from(KINDS), data=st.data())
    def drop(self, kind: str, data: st.DataObject) -> None:
        if self.waiting[kind]:
            name = data.draw(st.sampled_from(self.waiting[kind]))
            self.waiting[kind].remove(name)
            assert self.book.drop(name, self.now).status == "cancelled"

    @rule(kind=st.sampled_from(KINDS))
    def advance(self, kind: str) -> None:
        for name in self.waiting[kind]:
            assert self.book.advance(name, 0.5, None) is None
        if kind in self.running:
            moved = self.book.advance(self.running[kind], 0.5, "half")
            assert moved is not None
            assert self.book.get(moved.id) == moved

    @invariant()
    def the_book_tells_what_is_there(self) -> None:
        live = {kind: (len(self.waiting[kind]), int(kind in self.running)) for kind in KINDS}
        assert self.book.counts() == {kind: n for kind, n in live.items() if n != (0, 0)}
        queued = {found.id for found in self.book.queued()}
        assert queued == {name for names in self.waiting.values() for name in names}


TestBooks = Books.TestCase
