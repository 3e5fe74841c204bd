"""Bodies of Responses, and the requests that are made of them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire import openai_responses
from headrace.http.wire.asking import Stamp
from headrace.http.wire.openai_responses import AskedResponse, Known, Wanted
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import InferenceRequest, Message, Thinking, Tool
from headrace.runtime.errors import Code, ErrorInfo, RequestError

STAMP = Stamp("req_1", "0123456789abcdef" * 2, seed=7, created=1760000000, route="/v1/responses")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": False}
SPACE = {
    "type": "namespace",
    "name": "days",
    "description": "Days.",
    "tools": [{"type": "function", "name": "set"}, {"type": "function", "name": "get"}],
}
PATCH: dict[str, Any] = {"type": "custom", "name": "patch", "description": "Patch."}
SEARCH = {"type": "web_search"}


def parsed(known: Known | None = None, **fields: Any) -> AskedResponse:
    return openai_responses.parse({"input": "Hi"} | fields, STAMP, known or Known())


def ask(**fields: Any) -> InferenceRequest:
    return parsed(**fields).request


def turns(*items: Any, **fields: Any) -> tuple[Message, ...]:
    read = ask(input=list(items), **fields).prompt.messages
    assert read is not None
    return read


def refused(**fields: Any) -> ErrorInfo:
    with pytest.raises(RequestError) as caught:
        parsed(**fields)
    return caught.value.info


class TestItems:
    def test_a_text_is_a_message_of_the_user(self) -> None:
        assert ask(input="Hi").prompt.messages == (Message("user", "Hi"),)

    def test_messages_of_any_role_with_and_without_a_type_j2_j4(self) -> None:
        part = {"type": "input_text", "text": "a"}
        read = turns(
            {"type": "message", "role": "developer", "content": [part, part]},
            {"role": "user", "content": "b"},
            {"role": "system", "content": "c"},
            instructions="d",
        )
        assert read == (
            Message("system", "d"),
            Message("system", "a\na"),
            Message("user", "b"),
            Message("system", "c"),
        )

    def test_calls_results_and_thoughts_become_turns_j1_l8(self) -> None:
        read = turns(
            {"role": "user", "content": "A"},
            {"type": "reasoning", "summary": [], "content": [{"type": "t", "text": "hm"}]},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "get", "arguments": "{oops"}
            | {"namespace": "days"},
            {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "x"},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
            {"type": "function_call_output", "call_id": "c2", "output": {"b": 1}},
            {"type": "custom_tool_call_output", "call_id": "c3"}
            | {"output": [{"type": "input_text", "text": "done"}]},
        )
        calls = [(m.tool_calls[0]["id"], m.tool_calls[0]["function"]) for m in read[1:4]]
        assert calls == [
            ("c1", {"name": "add", "arguments": {"a": 1}}),
            ("c2", {"name": "days.get", "arguments": "{oops"}),
            ("c3", {"name": "patch", "arguments": {"input": "x"}}),
        ]
        assert [message.reasoning for message in read[1:4]] == ["hm", None, None]
        assert [(m.tool_call_id, m.content) for m in read[4:]] == [
            ("c1", "2"),
            ("c2", '{"b":1}'),
            ("c3", "done"),
        ]

    def test_what_was_before_comes_before_and_instructions_are_not_inherited(self) -> None:
        before = ({"type": "message", "role": "user", "content": "A"},)
        asked = parsed(
            Known(conversation=before), previous_response_id="resp_1", instructions="now"
        )
        assert asked.request.prompt.messages == (
            Message("system", "now"),
            Message("user", "A"),
            Message("user", "Hi"),
        )
        assert [item["role"] for item in asked.conversation] == ["user", "user"]
        assert len(asked.input) == 1
        assert asked.input[0]["id"].startswith("msg_")

    def test_items_that_are_named_are_looked_up(self) -> None:
        named = [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_2"}]
        body = {"input": named, "previous_response_id": "resp_1"}
        assert openai_responses.wanted(body) == Wanted("resp_1", ("msg_1", "msg_2"))
        stored = {
            name: {"type": "message", "id": name, "role": "user", "content": name}
            for name in ("msg_1", "msg_2")
        }
        asked = parsed(Known(items=stored), input=named)
        assert asked.request.prompt.messages == (Message("user", "msg_1"), Message("user", "msg_2"))
        assert refused(input=named).code is Code.ITEM_NOT_FOUND

    def test_the_oldest_items_can_be_left_out_but_not_what_matters(self) -> None:
        asked = parsed(
            input=[
                {"role": "system", "content": "S"},
                {"role": "user", "content": "A"},
                {"role": "assistant", "content": "B"},
                {"role": "user", "content": "C"},
            ],
            instructions="I",
            truncation="auto",
        )
        assert (asked.truncates, asked.spare) == (True, 2)
        shorter = asked.without(2)
        assert shorter.request.prompt.messages == (
            Message("system", "I"),
            Message("system", "S"),
            Message("user", "C"),
        )
        assert [(w.code, "2 of" in w.message) for w in shorter.request.warnings] == [
            ("input_truncated", True)
        ]
        assert asked.without(0) == asked


class TestFields:
    @pytest.mark.parametrize(
        ("fields", "cap"),
        [
            ({}, None),
            ({"max_tokens": 5}, 5),
            ({"max_output_tokens": 7, "max_tokens": 5}, 7),
        ],
    )
    def test_the_cap(self, fields: dict[str, Any], cap: int | None) -> None:
        assert ask(**fields).max_tokens == cap

    def test_thinking(self) -> None:
        asked = parsed(reasoning={"effort": "low", "summary": "auto"}, reasoning_budget=9)
        assert asked.request.thinking == Thinking(None, "low", 9)
        assert asked.made.summary
        assert asked.made.fixed["reasoning"] == {"effort": "low", "summary": "auto"}

    @pytest.mark.parametrize(
        ("fields", "alternatives"),
        [
            ({}, None),
            ({"top_logprobs": 0}, None),
            ({"top_logprobs": 3}, 3),
            ({"include": ["message.output_text.logprobs"]}, 0),
            ({"include": ["reasoning.encrypted_content"]}, None),
        ],
    )
    def test_log_probabilities(self, fields: dict[str, Any], alternatives: int | None) -> None:
        assert ask(**fields).logprobs == alternatives

    def test_a_form_for_the_answer(self) -> None:
        form = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
        asked = parsed(text={"format": form})
        assert asked.request.constraint == Constraint(
            "json_schema", SCHEMA, param="text.format.schema"
        )
        assert asked.made.fixed["text"] == {"format": form}

    def test_the_object_says_how_tokens_are_drawn(self) -> None:
        known = Known(defaults={"temperature": 0.2, "top_p": 0.9})
        fixed = parsed(known, top_p=0.5).made.fixed
        assert (fixed["temperature"], fixed["top_p"]) == (0.2, 0.5)


class TestTools:
    def test_each_kind_reaches_the_model_as_a_function_o6(self) -> None:
        asked = parsed(tools=[ADD, SPACE, PATCH, SEARCH])
        use = asked.request.tools
        assert use is not None
        assert [tool.name for tool in use.tools] == ["add", "days.set", "days.get", "patch"]
        assert use.tools[0] == Tool("add", SCHEMA)
        assert use.tools[3].parameters is not None
        assert use.tools[3].parameters["required"] == ["input"]
        assert [warning.code for warning in asked.request.warnings] == ["tool_dropped"]
        echoed = asked.made.fixed["tools"]
        assert [tool["type"] for tool in echoed] == [
            "function",
            "namespace",
            "custom",
            "web_search",
        ]

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("none", ("none", ())),
            ("required", ("required", ())),
            ({"type": "function", "name": "add"}, ("required", ("add",))),
            ({"type": "function", "name": "set"}, ("required", ("days.set",))),
            (
                {"type": "function", "name": "get", "namespace": "days"},
                ("required", ("days.get",)),
            ),
            ({"type": "custom", "name": "patch"}, ("required", ("patch",))),
            (
                {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"} | ADD]},
                ("auto", ("add",)),
            ),
        ],
    )
    def test_choices(self, choice: Any, expected: Any) -> None:
        use = ask(tools=[ADD, SPACE, PATCH], tool_choice=choice).tools
        assert use is not None
        assert (use.choice, use.named) == expected

    def test_the_form_of_a_custom_tool_is_kept_where_it_can_be(self) -> None:
        regex = {"type": "grammar", "syntax": "regex", "definition": "a+"}
        lark = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
        held = ask(tools=[PATCH | {"format": regex}])
        assert held.tools is not None
        assert held.tools.tools[0].strict
        assert [w.code for w in ask(tools=[PATCH | {"format": lark}]).warnings] == [
            "schema_not_enforced"
        ]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": []}, Code.INVALID_VALUE, "input"),
        ({"input": None}, Code.MISSING_FIELD, "input"),
        ({"input": [{"type": "computer_call"}]}, Code.UNSUPPORTED_INPUT_ITEM, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            Code.UNSUPPORTED_INPUT_ITEM,
            "input[0]",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            Code.VISION_TOWER_ABSENT,
            "input[0].content[0]",
        ),
        ({"input": [{"role": "poet", "content": "x"}]}, Code.INVALID_VALUE, "input[0].role"),
        ({"input": [{"type": "message", "role": "user"}]}, Code.MISSING_FIELD, "input[0].content"),
        ({"background": True, "store": False}, Code.INVALID_VALUE, "background"),
        ({"include": ["all"]}, Code.INVALID_VALUE, "include[0]"),
        ({"truncation": "some"}, Code.INVALID_VALUE, "truncation"),
        ({"conversation": "c"}, Code.UNSUPPORTED_PARAMETER, "conversation"),
        ({"prompt": {"id": "p"}}, Code.UNSUPPORTED_PARAMETER, "prompt"),
        ({"metadata": 5}, Code.INVALID_TYPE, "metadata"),
        ({"max_output_tokens": 0}, Code.INVALID_VALUE, "max_output_tokens"),
        ({"tool_choice": "required"}, Code.INVALID_TOOL_CHOICE, "tool_choice"),
        (
            {"tools": [ADD], "tool_choice": {"type": "web_search"}},
            Code.INVALID_TOOL_CHOICE,
            "tool_choice",
        ),
        ({"text": {"format": {"type": "xml"}}}, Code.INVALID_VALUE, "text.format.type"),
        ({"temperature": "x"}, Code.INVALID_TYPE, "temperature"),
    ],
)
def test_what_cannot_be_done_names_its_field_i3(
    fields: dict[str, Any], code: Code, param: str
) -> None:
    info = refused(**fields)
    assert (info.code, info.param) == (code, param)
