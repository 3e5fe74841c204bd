"""A trace as a story: what is told in order, what is not, and how a failure reads."""

from __future__ import annotations

import pytest

from headrace.runtime.testing import Story
from headrace.runtime.trace import TraceEvent

EVENTS = (
    TraceEvent(0.0, "request.accepted", "t1", {"model": "m"}),
    TraceEvent(0.1, "step", "", {"kind": "prefill", "rows": 1}),
    TraceEvent(0.2, "step", "", {"kind": "decode", "rows": 1}),
    TraceEvent(0.3, "row.removed", "t1", {"reason": "disconnect"}),
)


@pytest.mark.parametrize(
    "lines",
    [
        ("step",),
        ("request.accepted t1", "row.removed t1"),
        ("step kind=prefill rows=1", "step kind=decode", "row.removed reason=disconnect"),
        ("step", "step"),
        (),
    ],
)
def test_what_happened_in_this_order_is_told(lines: tuple[str, ...]) -> None:
    Story(EVENTS).tells(*lines)


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (("row.removed t1", "step"), "'step' did not happen after 'row.removed t1'"),
        (("step", "step", "step"), "'step' did not happen after 'step'"),
        (("row.removed t2",), "'row.removed t2' did not happen at all"),
        (("step kind=decode rows=2",), "did not happen at all"),
        (("step weather=fine",), "did not happen at all"),
    ],
)
def test_what_did_not_is_named_beside_what_did(lines: tuple[str, ...], missing: str) -> None:
    with pytest.raises(AssertionError, match=r"row\.removed t1 reason=disconnect") as caught:
        Story(EVENTS).tells(*lines)
    assert missing in str(caught.value)


def test_what_must_not_happen_is_shown_where_it_did() -> None:
    Story(EVENTS).never("row.failed", "step kind=verify")
    with pytest.raises(AssertionError, match="'step kind=decode' happened:"):
        Story(EVENTS).never("row.failed", "step kind=decode")


def test_events_are_counted() -> None:
    assert Story(EVENTS).count("step") == 2
    assert Story(EVENTS).count("step kind=decode") == 1
