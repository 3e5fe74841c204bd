"""Messages are arranged so that strict templates take them, and nothing said is lost."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.prompting import fold_system, merge_turns
from headrace.runtime.contracts import Message, Role

Messages = tuple[Message, ...]
ROLES: list[Role] = ["system", "user", "assistant", "tool"]
ARRANGEMENTS = pytest.mark.parametrize("arrange", [merge_turns, fold_system])


def call(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": {}}}


@st.composite
def conversations(draw: st.DrawFn) -> Messages:
    """Each text is a line of its own that names its place, so that loss and order can be seen."""
    roles = draw(st.lists(st.sampled_from(ROLES), max_size=9))
    return tuple(draw(message(role, place)) for place, role in enumerate(roles))


@st.composite
def message(draw: st.DrawFn, role: Role, place: int) -> Message:
    spoken = draw(st.sampled_from(["", f"{role} {place}"]))
    if role != "assistant":
        return Message(role, spoken, name=draw(st.sampled_from([None, "ann", "bob"])))
    thought = draw(st.sampled_from([None, f"thought {place}"]))
    calls = draw(st.lists(st.just(call(f"call {place}")), max_size=2))
    return Message(role, spoken, reasoning=thought, tool_calls=tuple(calls))


def lines(messages: Messages) -> list[str]:
    """What was said, in order, without the blank lines of joining."""
    return [line for m in messages for line in m.content.split("\n") if line]


# ---- rule 2: system text ------------------------------------------------------------------


def test_system_text_from_anywhere_leads() -> None:
    arranged = merge_turns(
        (
            Message("system", "Be brief."),
            Message("user", "Hi"),
            Message("assistant", "Hello"),
            Message("system", "Be kind."),
            Message("user", "Bye"),
        )
    )
    assert arranged == (
        Message("system", "Be brief.\n\nBe kind."),
        Message("user", "Hi"),
        Message("assistant", "Hello"),
        Message("user", "Bye"),
    )


def test_users_whom_only_system_text_parted_become_one_turn() -> None:
    arranged = merge_turns((Message("user", "a"), Message("system", "s"), Message("user", "b")))
    assert arranged == (Message("system", "s"), Message("user", "a\n\nb"))


def test_an_empty_system_message_is_kept() -> None:
    """It is how a client switches off the system text that a template has of its own."""
    assert merge_turns((Message("user", "a"), Message("system", "")))[0] == Message("system", "")


@pytest.mark.parametrize(
    ("messages", "folded"),
    [
        ((Message("user", "Hi"),), (Message("user", "s\n\nHi"),)),
        (
            (Message("assistant", "Welcome"), Message("user", "Hi")),
            (Message("assistant", "Welcome"), Message("user", "s\n\nHi")),
        ),
        (
            (Message("assistant", "Welcome"),),
            (Message("user", "s"), Message("assistant", "Welcome")),
        ),
        ((), (Message("user", "s"),)),
    ],
    ids=["user first", "assistant first", "no user", "system only"],
)
def test_without_a_system_role_its_text_opens_the_first_user_turn(
    messages: Messages, folded: Messages
) -> None:
    assert fold_system((Message("system", "s"), *messages)) == folded


# ---- rule 3: neighbours -------------------------------------------------------------------


def test_assistant_neighbours_become_one_turn_with_their_calls_in_order() -> None:
    first = Message("assistant", "a", reasoning="r", tool_calls=(call("f"), call("g")))
    second = Message("assistant", "b", reasoning="t", tool_calls=(call("h"),))
    calls = (call("f"), call("g"), call("h"))
    assert merge_turns((first, second)) == (
        Message("assistant", "a\n\nb", reasoning="r\n\nt", tool_calls=calls),
    )


def test_tool_results_are_never_joined() -> None:
    results = (
        Message("tool", "1", tool_call_id="x"),
        Message("tool", "2", tool_call_id="y"),
    )
    assert merge_turns(results) == results


def test_a_name_survives_only_where_all_agree() -> None:
    ann, bob = Message("user", "a", name="ann"), Message("user", "b", name="bob")
    assert merge_turns((ann, ann))[0].name == "ann"
    assert merge_turns((ann, bob))[0].name is None


def test_white_space_at_the_ends_stays() -> None:
    arranged = merge_turns((Message("assistant", "1\n"), Message("assistant", " 2\n")))
    assert arranged[0].content == "1\n\n\n 2\n"


# ---- for all conversations ----------------------------------------------------------------


@ARRANGEMENTS
@given(messages=conversations())
def test_no_text_is_lost_and_the_order_is_kept(arrange: Any, messages: Messages) -> None:
    said = lines(messages)
    moved = [line for line in said if line.startswith("system")]
    stayed = [line for line in said if not line.startswith("system")]
    arranged = lines(arrange(messages))
    assert [line for line in arranged if line.startswith("system")] == moved
    assert [line for line in arranged if not line.startswith("system")] == stayed


@ARRANGEMENTS
@given(messages=conversations())
def test_thoughts_and_calls_are_kept_in_order(arrange: Any, messages: Messages) -> None:
    arranged = arrange(messages)
    assert [c for m in arranged for c in m.tool_calls] == [
        c for m in messages for c in m.tool_calls
    ]
    thoughts = [m.reasoning for m in messages if m.reasoning]
    assert "\n\n".join(m.reasoning for m in arranged if m.reasoning) == "\n\n".join(thoughts)


@ARRANGEMENTS
@given(messages=conversations())
def test_arranging_twice_is_arranging_once(arrange: Any, messages: Messages) -> None:
    assert arrange(arrange(messages)) == arrange(messages)


@ARRANGEMENTS
@given(messages=conversations())
def test_only_tool_results_have_a_neighbour_of_their_role(arrange: Any, messages: Messages) -> None:
    arranged = arrange(messages)
    for left, right in itertools.pairwise(arranged):
        assert left.role != right.role or left.role == "tool"
    assert [m for m in arranged if m.role == "tool"] == [m for m in messages if m.role == "tool"]


@given(messages=conversations())
def test_system_text_stands_first_or_nowhere(messages: Messages) -> None:
    assert all(m.role != "system" for m in merge_turns(messages)[1:])
    assert all(m.role != "system" for m in fold_system(messages))
