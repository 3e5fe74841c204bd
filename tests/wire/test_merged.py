"""Several prompts' runs as one, and what a run leaves unsaid."""

from __future__ import annotations

from typing import TypeAlias

import attrs
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.answer import Answer
from headrace.http.wire.merged import Merged
from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Failed,
    Finished,
    Usage,
    Warning_,
)
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.testing.runs import runs

ACCEPTED = Accepted("m", 9, 50, "fp_0123456789ab")
EARLY = Warning_("stopped_early", "the time limit was reached")
FAILED = Failed(ErrorInfo(Code.CLOSED, "The server is closing."))


Parts: TypeAlias = list[tuple[int, Event]]


def merge(n: int, *parts: tuple[int, Event], prompts: int = 1) -> list[Event]:
    merged = Merged(prompts, n)
    return [after for prompt, event in parts for after in merged.feed(prompt, event)]


def test_answers_of_later_prompts_have_later_numbers() -> None:
    events = merge(2, (0, Delta("a", choice=1)), (2, Delta("b", choice=1)), prompts=3)
    assert [event.choice for event in events if isinstance(event, Delta)] == [1, 5]


def test_the_end_is_that_of_the_last_run_with_the_usage_of_all() -> None:
    first: Parts = [(0, ChoiceEnded("stop")), (0, Finished("stop", Usage(5, 2, 1, 0)))]
    second: Parts = [(1, ChoiceEnded("length")), (1, Finished("length", Usage(7, 3, 0, 4)))]
    events = merge(1, *first, *second, prompts=2)
    assert events == [
        ChoiceEnded("stop"),
        ChoiceEnded("length", choice=1),
        Finished("length", Usage(12, 5, 1, 4)),
    ]


def test_the_first_failure_is_the_end_of_all() -> None:
    events = merge(1, (1, FAILED), (0, Delta("late")), (0, FAILED), prompts=2)
    assert events == [FAILED]


def test_an_answer_that_was_not_told_to_end_ends_with_the_run() -> None:
    finished = Finished("length", Usage(9, 2), warnings=(EARLY,))
    assert merge(2, (0, ChoiceEnded("stop")), (0, finished)) == [
        ChoiceEnded("stop"),
        ChoiceEnded("length", None, 1, (EARLY,)),
        Finished("length", Usage(9, 2)),
    ]


def test_a_warning_of_a_run_whose_answers_have_ended_is_kept_for_the_end() -> None:
    finished = Finished("stop", Usage(9, 2), warnings=(EARLY,))
    *_, last = merge(1, (0, ChoiceEnded("stop")), (0, finished))
    assert last == finished


def test_a_complete_call_has_arguments() -> None:
    bare: Parts = [(0, CallStarted(0, "now")), (0, CallEnded(0))]
    empty: Parts = [(0, CallStarted(1, "now")), (0, CallArguments(1, "")), (0, CallEnded(1))]
    full: Parts = [(0, CallStarted(2, "f")), (0, CallArguments(2, "{")), (0, CallEnded(2))]
    cut: Parts = [(0, CallStarted(3, "f")), (0, ChoiceEnded("length"))]
    texts = ["", "", "", ""]
    for event in merge(1, *bare, *empty, *full, *cut):
        if isinstance(event, CallArguments):
            texts[event.call] += event.text
    assert texts == ["{}", "{}", "{", ""]


@given(st.data(), st.integers(1, 4), st.integers(1, 2))
def test_every_answer_is_the_one_of_its_own_run(data: st.DataObject, prompts: int, n: int) -> None:
    alone = [data.draw(runs(n=n, plain=True)) for _ in range(prompts)]
    turns = [prompt for prompt, run in enumerate(alone) for _ in run]
    left = [iter(run) for run in alone]
    order = data.draw(st.permutations(turns))
    events = merge(n, *((prompt, next(left[prompt])) for prompt in order), prompts=prompts)
    together = Answer.of(events, prompts * n)
    for prompt, run in enumerate(alone):
        for answer in Answer.of(merge(n, *((0, event) for event in run)), n).choices:
            found = together.choices[prompt * n + answer.index]
            assert found.text == answer.text
            assert attrs.evolve(found.ended, choice=answer.index) == answer.ended
    tokens = sum(run[-1].usage.completion_tokens for run in alone if isinstance(run[-1], Finished))
    assert together.finished.usage.completion_tokens == tokens
