"""Message lists, as clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.messages import read_messages
from headrace.http.wire.turns import continues_final
from headrace.runtime.contracts import Message
from headrace.runtime.errors import Code, RequestError

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_message_is_a_role_and_a_text() -> None:
    assert read_messages([user("Hi")]) == (Message("user", "Hi"),)


@pytest.mark.parametrize(
    ("role", "read"), [("developer", "system"), ("function", "tool"), ("tool", "tool")]
)
def test_roles_of_other_times_are_understood(role: str, read: str) -> None:
    (message,) = read_messages([{"role": role, "content": "x"}])
    assert message.role == read


def test_parts_are_joined_by_line_breaks_j2() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "input_text", "text": "two"}]
    assert read_messages([user(parts)]) == read_messages([user("one\ntwo")])


def test_a_call_without_content_is_a_turn_j1() -> None:
    for content in ({"content": None}, {}):
        turn = {"role": "assistant", "tool_calls": [CALL], **content}
        (message,) = read_messages([turn])
        function = {"name": "add", "arguments": {"a": 1}}
        assert message.content == ""
        assert message.tool_calls == ({"id": "call_1", "type": "function", "function": function},)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [("{oops", "{oops"), ("", {}), (None, {}), ({"a": [1]}, {"a": [1]}), ("[1]", [1])],
)
def test_arguments_that_are_not_json_stay_text_l8(arguments: Any, read: Any) -> None:
    function = {"name": "add", "arguments": arguments}
    (message,) = read_messages([{"role": "assistant", "tool_calls": [{"function": function}]}])
    assert message.tool_calls[0]["function"]["arguments"] == read


def test_a_legacy_call_and_reasoning_are_kept() -> None:
    turn = {
        "role": "assistant",
        "function_call": {"name": "f", "arguments": "{}"},
        "reasoning": "r",
    }
    (message,) = read_messages([turn])
    assert message.reasoning == "r"
    assert message.tool_calls[0]["function"] == {"name": "f", "arguments": {}}


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
AUDIO = {"type": "input_audio", "input_audio": {}}


@pytest.mark.parametrize(
    ("messages", "code", "param"),
    [
        ("text", Code.INVALID_TYPE, "messages"),
        ([], Code.INVALID_VALUE, "messages"),
        (["Hi"], Code.INVALID_TYPE, "messages[0]"),
        ([user("a"), {"content": "x"}], Code.MISSING_FIELD, "messages[1].role"),
        ([{"role": "narrator", "content": "x"}], Code.INVALID_VALUE, "messages[0].role"),
        ([{"role": 5, "content": "x"}], Code.INVALID_TYPE, "messages[0].role"),
        ([user(None)], Code.MISSING_FIELD, "messages[0].content"),
        ([user(5)], Code.INVALID_TYPE, "messages[0].content"),
        ([user({"type": "text"})], Code.INVALID_TYPE, "messages[0].content"),
        ([user(["x"])], Code.INVALID_TYPE, "messages[0].content[0]"),
        ([user([{"text": "x"}])], Code.MISSING_FIELD, "messages[0].content[0].type"),
        ([user([{"type": "text"}])], Code.MISSING_FIELD, "messages[0].content[0].text"),
        (
            [user([{"type": "text", "text": 1}])],
            Code.INVALID_TYPE,
            "messages[0].content[0].text",
        ),
        (
            [user([{"type": "file"}])],
            Code.UNSUPPORTED_CONTENT_PART,
            "messages[0].content[0]",
        ),
        ([user([IMAGE])], Code.VISION_TOWER_ABSENT, "messages[0].content[0]"),
        ([user([AUDIO])], Code.AUDIO_TOWER_UNAVAILABLE, "messages[0].content[0]"),
        ([{"role": "user", "content": "x", "name": 1}], Code.INVALID_TYPE, "messages[0].name"),
        (
            [{"role": "assistant", "tool_calls": [{}]}],
            Code.MISSING_FIELD,
            "messages[0].tool_calls[0].function",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {}}]}],
            Code.MISSING_FIELD,
            "messages[0].tool_calls[0].function.name",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}],
            Code.INVALID_TYPE,
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(messages: Any, code: Code, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_messages(messages)
    assert (caught.value.code, caught.value.info.param) == (code, param)


ASSISTANT = Message("assistant", "1\n2\n")
CALLING = Message("assistant", "", tool_calls=({"type": "function"},))
USER = Message("user", "Go")
SYSTEM = Message("system", "Be brief.")


@pytest.mark.parametrize(
    ("messages", "asked", "open_"),
    [
        ([USER], None, False),
        ([USER, ASSISTANT], None, True),
        ([USER, ASSISTANT], False, False),
        ([USER, ASSISTANT], True, True),
        ([USER, ASSISTANT, SYSTEM], None, True),
        ([USER, CALLING], None, False),
        ([SYSTEM], None, False),
    ],
)
def test_a_last_assistant_turn_is_continued_unless_told_j5(
    messages: list[Message], asked: bool | None, open_: bool
) -> None:
    assert continues_final(messages, asked) is open_


@pytest.mark.parametrize("messages", [[USER], [SYSTEM], [USER, CALLING]])
def test_nothing_else_can_be_continued(messages: list[Message]) -> None:
    with pytest.raises(RequestError) as caught:
        continues_final(messages, True)
    assert caught.value.info.param == "continue_final_message"
