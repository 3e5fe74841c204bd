"""Bodies of Anthropic's shape, and the requests that are made of them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from headrace.http.wire import anthropic_messages
from headrace.http.wire.asking import Stamp
from headrace.http.wire.errors import envelope
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import InferenceRequest, Message, Thinking, Tool
from headrace.runtime.errors import Code, ErrorInfo, RequestError

STAMP = Stamp("req_1", "0123456789abcdef" * 2, seed=7, created=1760000000, route="/v1/messages")
BODY: dict[str, Any] = {"max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = {"name": "add", "input_schema": SCHEMA}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


def ask(**fields: Any) -> InferenceRequest:
    return anthropic_messages.parse(BODY | fields, STAMP).request


def turns(*messages: dict[str, Any], **fields: Any) -> tuple[Message, ...]:
    read = ask(messages=list(messages), **fields).prompt.messages
    assert read is not None
    return read


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def block(text: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **members}


def refused(body: dict[str, Any]) -> ErrorInfo:
    with pytest.raises(RequestError) as caught:
        anthropic_messages.parse(body, STAMP)
    return caught.value.info


class TestConversation:
    def test_system_comes_first_wherever_it_stands_o1_j4(self) -> None:
        read = turns(user(block("A")), {"role": "system", "content": "B"}, system="C")
        assert read == (Message("system", "C"), Message("user", "A"), Message("system", "B"))

    def test_texts_of_a_message_are_joined_j2(self) -> None:
        assert turns(user(block("a"), block("b"))) == (Message("user", "a\nb"),)
        assert turns(user("x") | {"content": "y"}, system=[block("a"), block("b")])[0] == Message(
            "system", "a\nb"
        )

    @pytest.mark.parametrize(
        "system",
        [
            [block("x-anthropic-billing-header: cc_version=2.1; cc=1;"), block("Be kind.")],
            "x-anthropic-billing-header: cc_version=2.1;\nBe kind.",
        ],
    )
    def test_a_clients_billing_line_is_no_part_of_the_prompt(self, system: Any) -> None:
        assert turns(user(block("A")), system=system)[0] == Message("system", "Be kind.")

    def test_what_says_what_to_cache_changes_nothing(self) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        plain = ask(system=[block("S")], tools=[ADD])
        marked = ask(system=[block("S", **mark)], tools=[ADD | mark], **mark)
        assert marked == plain

    def test_calls_and_their_results_become_turns_j1(self) -> None:
        call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"}
        broken = {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True}
        broken["content"] = [block("no"), block("way")]
        read = turns(user(block("A")), assistant(call), user(block("so"), result, broken))
        function = {"name": "add", "arguments": {"a": 1}}
        assert read[1] == Message(
            "assistant", "", None, ({"id": "toolu_1", "type": "function", "function": function},)
        )
        assert read[2:] == (
            Message("tool", "2", tool_call_id="toolu_1"),
            Message("tool", "Error: no\nway", tool_call_id="toolu_2"),
            Message("user", "so"),
        )

    def test_thoughts_are_given_back_to_the_template(self) -> None:
        thought = {"type": "thinking", "thinking": "hm", "signature": ""}
        redacted = {"type": "redacted_thinking", "data": "x"}
        read = turns(user(block("A")), assistant(thought, redacted, block("B")), user(block("C")))
        assert read[1] == Message("assistant", "B", "hm")

    @pytest.mark.parametrize(
        ("source", "text"),
        [
            ({"type": "text", "media_type": "text/plain", "data": "one"}, "T\none"),
            ({"type": "content", "content": "two"}, "T\ntwo"),
            ({"type": "content", "content": [block("a"), block("b")]}, "T\na\nb"),
        ],
    )
    def test_documents_are_their_text(self, source: Any, text: str) -> None:
        document = {"type": "document", "title": "T", "source": source}
        assert turns(user(document)) == (Message("user", text),)

    def test_blocks_of_tools_that_run_elsewhere_are_left_out_and_told_of(self) -> None:
        use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
        found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
        body = [user(block("A")), assistant(use, found, block("B")), user(block("C"))]
        request = ask(messages=body)
        assert [w.code for w in request.warnings] == ["block_dropped", "block_dropped"]
        assert [w.param for w in request.warnings] == [
            "messages[1].content[0]",
            "messages[1].content[1]",
        ]
        assert request.prompt.messages is not None
        assert request.prompt.messages[1] == Message("assistant", "B")

    @pytest.mark.parametrize(("asked", "continues"), [(None, True), (True, True), (False, False)])
    def test_a_last_turn_of_the_assistant_is_gone_on_with_j5(
        self, asked: bool | None, continues: bool
    ) -> None:
        body = [user(block("A")), assistant(block("1\n2"))]
        request = ask(messages=body, continue_final_message=asked)
        assert request.prompt.continue_final is continues


class TestFields:
    def test_the_cap_is_needed_and_may_be_nought(self) -> None:
        without = {name: value for name, value in BODY.items() if name != "max_tokens"}
        assert refused(without).code is Code.MISSING_FIELD
        assert ask(max_tokens=0).max_tokens == 0

    @pytest.mark.parametrize(
        ("fields", "thinking"),
        [
            ({}, Thinking()),
            ({"thinking": {"type": "enabled", "budget_tokens": 9}}, Thinking(True, None, 9)),
            ({"thinking": {"type": "adaptive"}}, Thinking(True)),
            ({"thinking": {"type": "between_tools"}}, Thinking(True)),
            (
                {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
                Thinking(False, "high"),
            ),
            ({"output_config": {"effort": "low"}}, Thinking(None, "low")),
        ],
    )
    def test_thinking(self, fields: dict[str, Any], thinking: Thinking) -> None:
        assert ask(**fields).thinking == thinking

    def test_a_form_for_the_answer(self) -> None:
        given = {"format": {"type": "json_schema", "schema": SCHEMA}}
        param = "output_config.format.schema"
        assert ask(output_config=given).constraint == Constraint("json_schema", SCHEMA, param=param)
        both = refused(BODY | {"output_config": given, "guided_regex": "a+"})
        assert both.code is Code.CONFLICTING_CONSTRAINTS

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            (None, ("auto", (), True)),
            ({"type": "auto", "disable_parallel_tool_use": True}, ("auto", (), False)),
            ({"type": "any"}, ("required", (), True)),
            ({"type": "tool", "name": "add"}, ("required", ("add",), True)),
            ({"type": "none"}, ("none", (), True)),
        ],
    )
    def test_choices_among_tools_l7(self, choice: Any, expected: Any) -> None:
        request = ask(tools=[ADD, SEARCH], tool_choice=choice)
        use = request.tools
        assert use is not None
        assert (use.choice, use.named, use.parallel) == expected
        assert use.tools == (Tool("add", SCHEMA),)
        assert [warning.code for warning in request.warnings] == ["tool_dropped"]

    @pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "web_search"}])
    def test_a_tool_that_was_left_out_cannot_be_forced(self, choice: Any) -> None:
        body = BODY | {"tools": [SEARCH], "tool_choice": choice}
        assert refused(body).code is Code.INVALID_TOOL_CHOICE

    def test_nothing_more_is_needed_to_count(self) -> None:
        body = {"messages": BODY["messages"], "tools": [ADD], "system": "S"}
        counted = anthropic_messages.parse_counted(body, STAMP).request
        sent = anthropic_messages.parse(body | {"max_tokens": 5}, STAMP).request
        assert attrs.evolve(counted, max_tokens=5) == sent


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
FILE = {"type": "image", "source": {"type": "file", "file_id": "f"}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}}


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"messages": []}, Code.INVALID_VALUE, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, Code.INVALID_VALUE, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, Code.MISSING_FIELD, "messages[0].content"),
        ({"messages": [user(IMAGE)]}, Code.VISION_TOWER_ABSENT, "messages[0].content[0]"),
        ({"messages": [user(FILE)]}, Code.UNSUPPORTED_CONTENT_PART, "messages[0].content[0]"),
        (
            {"messages": [assistant(IMAGE)]},
            Code.UNSUPPORTED_CONTENT_PART,
            "messages[0].content[0]",
        ),
        ({"messages": [user(PDF)]}, Code.UNSUPPORTED_CONTENT_PART, "messages[0].content[0].source"),
        (
            {"messages": [user({"type": "text", "text": 5})]},
            Code.INVALID_TYPE,
            "messages[0].content[0].text",
        ),
        ({"system": 5}, Code.INVALID_TYPE, "system"),
        ({"stop_sequences": "x"}, Code.INVALID_TYPE, "stop_sequences"),
        ({"max_tokens": -1}, Code.INVALID_VALUE, "max_tokens"),
        ({"temperature": 3}, Code.INVALID_VALUE, "temperature"),
        ({"thinking": {"type": "perhaps"}}, Code.INVALID_VALUE, "thinking.type"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, Code.INVALID_VALUE, "tools[0].name"),
        ({"tools": [{"name": "add"}]}, Code.MISSING_FIELD, "tools[0].input_schema"),
        ({"tool_choice": {"type": "any"}}, Code.INVALID_TOOL_CHOICE, "tool_choice"),
        ({"mcp_servers": []}, Code.UNSUPPORTED_PARAMETER, "mcp_servers"),
        ({"container": "c"}, Code.UNSUPPORTED_PARAMETER, "container"),
        ({"thread": {"type": "create"}}, Code.UNSUPPORTED_PARAMETER, "thread"),
        ({"metadata": 5}, Code.INVALID_TYPE, "metadata"),
    ],
)
def test_what_cannot_be_done_names_its_field_i3(
    fields: dict[str, Any], code: Code, param: str
) -> None:
    info = refused(BODY | fields)
    assert (info.code, info.param) == (code, param)


def test_an_image_in_a_tools_result_is_refused_by_the_same_rule_o7() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}
    body = {"messages": [user(result)]}
    with pytest.raises(RequestError) as caught:
        anthropic_messages.parse_counted(body, STAMP)
    assert caught.value.code is Code.VISION_TOWER_ABSENT


@pytest.mark.parametrize("code", [Code.CONTEXT_LENGTH_EXCEEDED, Code.CONTEXT_OVER_BUDGET])
def test_its_clients_are_told_in_their_words_that_a_prompt_is_too_long_k1(code: Code) -> None:
    details = {"prompt_tokens": 9000, "limit_tokens": 8192}
    body = envelope(ErrorInfo(code, "It is.", "messages", details), "anthropic", "req_1")
    assert body["type"] == "error"
    assert body["request_id"] == "req_1"
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["message"].startswith("prompt is too long: 9000 tokens > 8192 maximum")
