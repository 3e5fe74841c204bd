"""Calls and results reach a template in the form that it takes, and nothing of them is lost."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.tool_turns import arranged, described, offered, written_out
from headrace.runtime.contracts import Message, Tool
from headrace.runtime.ports import TemplateTraits

ANY = TemplateTraits(tools=True, calls=True)
ONE_CALL = TemplateTraits(tools=True, calls=True, several_calls=False)
SHORT_IDS = TemplateTraits(tools=True, calls=True, short_ids=True)
LONG = "call_0123456789abcdef01234567"


def call(name: str, arguments: Any, call_id: str | None = None) -> dict[str, Any]:
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return made if call_id is None else {"id": call_id, **made}


def calling(*calls: dict[str, Any], content: str = "") -> Message:
    return Message("assistant", content, tool_calls=calls)


def result(content: str, call_id: str | None = None, name: str | None = None) -> Message:
    return Message("tool", content, tool_call_id=call_id, name=name)


def arguments_of(turn: Message) -> list[Any]:
    return [call["function"]["arguments"] for call in turn.tool_calls]


# ---- tools --------------------------------------------------------------------------------


def test_a_tool_comes_to_a_template_with_all_its_parts() -> None:
    assert offered([Tool("now")]) == [
        {
            "type": "function",
            "function": {
                "name": "now",
                "description": "",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


def test_a_tools_own_schema_is_not_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    function = offered([Tool("add", schema, "Adds.")])[0]["function"]
    assert function == {"name": "add", "description": "Adds.", "parameters": schema}


def test_tools_are_described_one_a_line_in_json() -> None:
    text = described([Tool("add", {"properties": {"a": {}}}, 'Says "é"'), Tool("now")]).content
    lines = text.partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["add", "now"]
    assert json.loads(lines[0])["description"] == 'Says "é"'
    assert '{"name": "the tool\'s name", "arguments": {"an argument": "its value"}}' in text


# ---- written out --------------------------------------------------------------------------


def test_calls_and_results_are_written_out() -> None:
    turns = written_out(
        (
            calling(call("add", {"a": 1}), call("now", {}), content="Let me see."),
            result("2", "x"),
        )
    )
    assert turns == (
        Message(
            "assistant",
            'Let me see.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n'
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        ),
        Message("user", "<tool_response>\n2\n</tool_response>"),
    )


def test_a_template_that_shows_no_calls_gets_them_written_out() -> None:
    """J1: there is no text beside the call."""
    history = (Message("user", "Hi"), calling(call("add", {"a": 1})), result("2"))
    assert arranged(history, TemplateTraits()) == written_out(history)
    assert "tool_call" in arranged(history, TemplateTraits())[1].content


def test_arguments_that_are_no_json_are_written_out_as_text() -> None:
    """L8."""
    (turn,) = written_out((calling(call("add", "{oops")),))
    assert '"arguments": "{oops"' in turn.content


# ---- arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "given_as", "comes_as"),
    [
        ("either", {"a": 1}, {"a": 1}),
        ("either", "{oops", "{oops"),
        ("object", {"a": 1}, {"a": 1}),
        ("object", "{oops", {"arguments": "{oops"}),
        ("object", [1], {"arguments": [1]}),
        ("text", {"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ("text", "{oops", "{oops"),
    ],
)
def test_arguments_have_the_form_that_the_template_takes(
    form: Literal["object", "text", "either"], given_as: Any, comes_as: Any
) -> None:
    traits = TemplateTraits(calls=True, arguments=form)
    (turn,) = arranged((calling(call("add", given_as)),), traits)
    assert arguments_of(turn) == [comes_as]


# ---- ids and names ------------------------------------------------------------------------


def test_a_result_has_the_name_of_what_it_comes_from() -> None:
    history = (
        calling(call("add", {}, "a"), call("now", {}, "b")),
        result("2", "b"),
        result("1", "a"),
        result("own", "a", "mine"),
    )
    assert [turn.name for turn in arranged(history, ANY)[1:]] == ["now", "add", "mine"]


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    history = (calling(call("add", {}, "a"), call("now", {}, "b")), result("1"), result("2"))
    turns = arranged(history, ANY)[1:]
    assert [(turn.tool_call_id, turn.name) for turn in turns] == [("a", "add"), ("b", "now")]


def test_short_ids_are_made_of_long_ones_and_still_belong_together() -> None:
    history = (
        calling(call("add", {}, LONG), call("now", {}), call("go", {}, "abcDEF123")),
        result("1", LONG),
        result("2"),
        result("3", "abcDEF123"),
    )
    turn, *results = arranged(history, SHORT_IDS)
    ids = [call["id"] for call in turn.tool_calls]
    assert [len(call_id) for call_id in ids] == [9, 9, 9]
    assert ids[2] == "abcDEF123"
    assert [answer.tool_call_id for answer in results] == ids


def test_ids_stay_where_a_template_does_not_mind() -> None:
    (turn,) = arranged((calling(call("add", {}, LONG), call("now", {})),), ANY)
    assert [call.get("id") for call in turn.tool_calls] == [LONG, None]


# ---- one call in a turn -------------------------------------------------------------------


def test_each_call_is_followed_by_its_own_result() -> None:
    history = (
        calling(call("add", {}, "a"), call("now", {}, "b"), content="Both."),
        result("from b", "b"),
        result("from a", "a"),
        Message("user", "Thanks"),
    )
    turns = arranged(history, ONE_CALL)
    assert [(turn.role, turn.content) for turn in turns] == [
        ("assistant", "Both."),
        ("tool", "from a"),
        ("assistant", ""),
        ("tool", "from b"),
        ("user", "Thanks"),
    ]


def test_calls_in_neighbouring_turns_come_apart_too() -> None:
    history = (
        calling(call("add", {}, "a"), content="One."),
        calling(call("now", {}, "b"), content="Two."),
        result("from a", "a"),
        result("from b", "b"),
    )
    turns = arranged(history, ONE_CALL)
    assert [turn.content for turn in turns] == ["One.\n\nTwo.", "from a", "", "from b"]


def test_a_result_without_an_id_leaves_those_with_one_their_calls() -> None:
    history = (
        calling(call("f", {}), call("g", {}), call("h", {}, "id-h")),
        result("of f"),
        result("of h", "id-h"),
        result("of g"),
    )
    turns = arranged(history, ONE_CALL)
    assert [turn.content for turn in turns] == ["", "of f", "", "of g", "", "of h"]
    assert [turn.name for turn in turns if turn.role == "tool"] == ["f", "g", "h"]


# ---- for all conversations ----------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    turns = list[Message]()
    for place in range(draw(st.integers(0, 5))):
        turns.append(Message("user", f"user {place}"))
        names = [f"f{place}_{at}" for at in range(draw(st.integers(0, 3)))]
        ids = [f"id-{name}" if draw(st.booleans()) else None for name in names]
        arguments = st.sampled_from([{}, {"a": [1]}, "{oops", 3])
        calls = [call(name, draw(arguments), ids[at]) for at, name in enumerate(names)]
        thought = draw(st.sampled_from([None, f"thought {place}"]))
        turns.append(Message("assistant", f"said {place}", thought, tuple(calls)))
        answered = draw(st.permutations(range(len(names))))[: draw(st.integers(0, 3))]
        turns += [result(f"result {names[at]}", ids[at]) for at in answered]
    return tuple(turns)


TRAITS = st.builds(
    TemplateTraits,
    tools=st.booleans(),
    calls=st.booleans(),
    several_calls=st.booleans(),
    arguments=st.sampled_from(["object", "text", "either"]),
    short_ids=st.booleans(),
)


def said(turns: tuple[Message, ...]) -> list[str]:
    return sorted(word for turn in turns for word in turn.content.split("\n") if word)


@given(history=histories(), traits=TRAITS)
def test_nothing_said_is_lost(history: tuple[Message, ...], traits: TemplateTraits) -> None:
    turns = arranged(history, traits)
    if traits.calls:
        assert said(turns) == said(history)
    else:
        assert set(said(turns)) >= set(said(history))
    thoughts = [turn.reasoning for turn in history if turn.reasoning]
    assert [turn.reasoning for turn in turns if turn.reasoning] == thoughts


@given(history=histories(), traits=TRAITS)
def test_every_call_is_there_in_its_order(
    history: tuple[Message, ...], traits: TemplateTraits
) -> None:
    names = [call["function"]["name"] for turn in history for call in turn.tool_calls]
    turns = arranged(history, traits)
    if not traits.calls:
        assert not any(turn.tool_calls or turn.role == "tool" for turn in turns)
        whole = "\n".join(turn.content for turn in turns)
        places = [whole.index(f'"name": "{name}"') for name in names]
        assert places == sorted(places)
        return
    assert [call["function"]["name"] for turn in turns for call in turn.tool_calls] == names
    if not traits.several_calls:
        assert all(len(turn.tool_calls) <= 1 for turn in turns)
    if traits.short_ids:
        ids = [call["id"] for turn in turns for call in turn.tool_calls]
        assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)
        assert len(set(ids)) == len(ids)


@given(history=histories(), traits=TRAITS)
def test_arranging_twice_is_arranging_once(
    history: tuple[Message, ...], traits: TemplateTraits
) -> None:
    once = arranged(history, traits)
    assert arranged(once, traits) == once
