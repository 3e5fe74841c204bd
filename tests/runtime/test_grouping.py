"""Which sequences behind one context share a pass: bounded in rows, copies, padding and logits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.grouping import (
    COPIED_TOKENS,
    MOST_ROWS,
    TAIL_TOKENS,
    first_group,
    most_rows,
    padded_tokens,
    widest_group,
)

lengths = st.lists(st.integers(1, 200), min_size=1, max_size=40).map(sorted)
rooms = st.integers(1, 600)
contexts = st.integers(1, 40_000)


def test_questions_of_one_length_share_a_pass_as_far_as_there_is_room() -> None:
    assert first_group([33] * 20, 132, 1000) == 4
    assert first_group([33] * 20, 131, 1000) == 3
    assert first_group([33] * 20, 2000, 1000) == MOST_ROWS


def test_a_long_one_is_not_padded_to() -> None:
    assert first_group([4, 6, 90], 500, 100) == 2


def test_behind_a_long_context_fewer_are_copied_for() -> None:
    assert first_group([8] * 20, 500, 8000) == 2
    assert first_group([8] * 20, 500, COPIED_TOKENS + 1) == 1


def test_one_that_does_not_fit_goes_alone() -> None:
    assert first_group([33, 33], 16, 1000) == 1


@given(lengths, rooms, contexts)
def test_every_pass_is_within_its_bounds(all_: list[int], room: int, context: int) -> None:
    left = list(all_)
    while left:
        rows = first_group(left, room, context)
        group, left = left[:rows], left[rows:]
        assert rows >= 1
        if rows > 1:
            assert sum(group) <= room
            assert rows * group[-1] <= padded_tokens(room)
            assert rows * (group[-1] - group[0] + 1) <= TAIL_TOKENS
            assert rows * context <= COPIED_TOKENS
        assert rows <= widest_group(all_, room, context) <= most_rows(context) <= MOST_ROWS
