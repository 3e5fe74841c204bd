"""The official client of Anthropic's API against the real server, its real model and its small
one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from headrace.runtime.testing.serving import Serving

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
BODIES = Path(__file__).parent / "bodies"
COUNTING = "List the numbers from 1 to 300, each on its own line."
SCHEMA = {
    "type": "object",
    "properties": {"day": {"type": "integer", "minimum": 1, "maximum": 31}},
    "required": ["day"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {"name": "set_day", "description": "Set the day.", "input_schema": SCHEMA}
ONE_CALL = {"type": "any", "disable_parallel_tool_use": True}
GREEDY = {"extra_body": {"temperature": 0}}


def client_of(server: Serving) -> anthropic.Anthropic:
    url = server.base_url
    return anthropic.Anthropic(base_url=url, api_key="any", max_retries=0, timeout=240)


@pytest.fixture(scope="module")
def claude(served: Serving) -> Iterator[anthropic.Anthropic]:
    with client_of(served) as client:
        yield client


@pytest.fixture(scope="module")
def quick(served_small: Serving) -> Iterator[anthropic.Anthropic]:
    """For what depends on no weights."""
    with client_of(served_small) as client:
        yield client


def asking(text: str = COUNTING, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "default", "max_tokens": 12, "messages": messages} | GREEDY | fields


def posted(served: Serving, body: dict[str, Any], path: str = "/v1/messages") -> httpx.Response:
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "any"}
    return httpx.post(f"{served.base_url}{path}", json=body, headers=headers, timeout=240)


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    lines = response.text.split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


class TestMessages:
    def test_the_stream_helper_gives_the_plain_answer(self, claude: Any) -> None:
        plain = claude.messages.create(**asking())
        with claude.messages.stream(**asking()) as stream:
            text = "".join(stream.text_stream)
            whole = stream.get_final_message()
        assert plain.content[0].type == "text"
        assert plain.content[0].text == text == whole.content[0].text
        assert (plain.stop_reason, whole.stop_reason) == ("max_tokens", "max_tokens")
        assert plain.usage.output_tokens == whole.usage.output_tokens == 12

    def test_every_event_is_one_of_the_clients_and_the_first_counts_o2_o7(
        self, quick: Any, nothing_left_small: Serving
    ) -> None:
        fields: dict[str, Any] = {"system": "Be brief.", "tools": [TOOL]}
        asked = {"model": "default", "messages": [{"role": "user", "content": "Hi"}], **fields}
        counted = quick.messages.count_tokens(**asked).input_tokens
        response = posted(nothing_left_small, {**asked, "max_tokens": 8, "stream": True})
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = events_of(response)
        for event in events:
            if event["type"] != "ping":
                EVENT.validate_python(event)
        first, last = events[0]["message"]["usage"], events[-2]["usage"]
        for usage in (first, last):
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            assert sum(usage[name] for name in names) == counted > 20
        assert [events[0]["type"], events[1]["type"], events[-1]["type"]] == [
            "message_start",
            "ping",
            "message_stop",
        ]

    def test_a_stop_sequence_is_named(self, quick: Any) -> None:
        plain = quick.messages.create(**asking())
        said = plain.content[0].text
        stop = said[len(said) // 2 :][:6]
        cut = quick.messages.create(**asking(stop_sequences=["never said", stop]))
        assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", stop)
        shown = "".join(block.text for block in cut.content if block.type == "text")
        assert shown == said[: said.index(stop)]

    def test_a_last_turn_of_the_assistant_is_gone_on_with_j5(self, claude: Any) -> None:
        turns = [
            {"role": "user", "content": COUNTING},
            {"role": "assistant", "content": "1\n2\n3\n"},
        ]
        answer = claude.messages.create(**asking(messages=turns, max_tokens=6))
        assert answer.content[0].text.startswith("4")

    def test_roles_in_any_order_are_one_conversation_o1_j3_j4(self, served_small: Serving) -> None:
        turns = [
            {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi again."},
        ]
        mixed = {"model": "default", "messages": turns}
        system_first: dict[str, Any] = {"model": "default", "system": "Be brief."}
        system_first["messages"] = [{"role": "user", "content": "Hello.\n\nHi again."}]
        counts = [
            posted(served_small, body, "/v1/messages/count_tokens").json()["input_tokens"]
            for body in (mixed, system_first)
        ]
        assert counts[0] == counts[1] > 0
        assert posted(served_small, mixed | {"max_tokens": 2}).status_code == 200


class TestTools:
    def test_a_forced_call_keeps_to_its_schema_in_both_ways_l1_l6_l7(self, quick: Any) -> None:
        forced = asking("Set day 12.", tools=[TOOL], tool_choice=ONE_CALL, max_tokens=60)
        plain = quick.messages.create(**forced)
        with quick.messages.stream(**forced) as stream:
            whole = stream.get_final_message()
        for answer in (plain, whole):
            (call,) = [block for block in answer.content if block.type == "tool_use"]
            assert call.id.startswith("toolu_")
            assert call.name == "set_day"
            assert isinstance(call.input["day"], int)
            assert answer.stop_reason == "tool_use"

    def test_with_none_nothing_is_called_l7(self, quick: Any) -> None:
        answer = quick.messages.create(**asking(tools=[TOOL], tool_choice={"type": "none"}))
        assert {block.type for block in answer.content} == {"text"}

    def test_a_turn_with_a_call_and_its_result_goes_on_j1(self, quick: Any) -> None:
        turns: list[Any] = [{"role": "user", "content": "Set day 12."}]
        called = quick.messages.create(
            **asking(messages=turns, tools=[TOOL], tool_choice=ONE_CALL, max_tokens=60)
        )
        (call,) = [block for block in called.content if block.type == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "done"}
        turns += [
            {"role": "assistant", "content": called.content},
            {"role": "user", "content": [result]},
        ]
        assert quick.messages.create(**asking(messages=turns, tools=[TOOL])).content

    def test_a_form_for_the_answer(self, claude: Any) -> None:
        form: Any = {"format": {"type": "json_schema", "schema": SCHEMA}}
        answer = claude.messages.create(**asking("Day 3.", output_config=form, max_tokens=60))
        value = json.loads(answer.content[0].text)
        assert isinstance(value["day"], int)


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "kind", "param"),
        [
            ({"messages": []}, anthropic.BadRequestError, "messages"),
            ({"model": "mini"}, anthropic.NotFoundError, "model"),
            ({"extra_body": {"temperature": 9}}, anthropic.BadRequestError, "temperature"),
        ],
    )
    def test_each_is_an_error_of_the_clients_own_h6_i4(
        self,
        claude: Any,
        fields: dict[str, Any],
        kind: type[anthropic.APIStatusError],
        param: str,
    ) -> None:
        for stream in (False, True):
            with pytest.raises(kind) as caught:
                claude.messages.create(**(asking() | fields), stream=stream)
            body: Any = caught.value.body
            assert body["type"] == "error"
            assert body["error"]["param"] == param
            assert body["request_id"] == caught.value.request_id
            assert not any(word in str(body) for word in ("Traceback", "Error(", ".py"))

    def test_a_prompt_over_the_window_is_told_in_the_clients_words_k1(self, claude: Any) -> None:
        long = asking("word " * 9000)
        for stream in (False, True):
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long: "):
                claude.messages.create(**long, stream=stream)
        del long["max_tokens"], long["extra_body"]
        assert claude.messages.count_tokens(**long).input_tokens > 8192

    def test_a_doubled_prefix_is_explained_o5(self, served: Serving) -> None:
        response = posted(served, asking(), "/v1/v1/messages")
        assert response.status_code == 404
        assert response.json()["type"] == "error"
        assert "must not end in /v1" in response.json()["error"]["message"]


def test_models_in_the_clients_shape_have_their_window_o3(served: Serving, claude: Any) -> None:
    rows = httpx.get(f"{served.base_url}/v1/models", timeout=240).json()["data"]
    assert [row["id"] for row in rows] == [model.id for model in claude.models.list()]
    assert (rows[0]["current"], rows[0]["context_window"]) == (True, 8192)
    model = claude.models.retrieve(rows[0]["id"])
    assert (model.id, model.max_input_tokens) == (rows[0]["id"], 8192)
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.models.retrieve("mini")
    body: Any = caught.value.body
    assert body["type"] == "error"


@pytest.mark.parametrize("path", sorted(BODIES.glob("messages-*.json")), ids=lambda path: path.stem)
def test_what_coding_agents_send_is_taken_as_it_is_o1(served_small: Serving, path: Path) -> None:
    """Bodies as the agents send them, long texts cut; only the model and the cap are ours."""
    body = json.loads(path.read_text(encoding="utf-8")) | {"model": "default"}
    counted = posted(served_small, body, "/v1/messages/count_tokens?beta=true")
    assert counted.json()["input_tokens"] > 0
    if "count-tokens" in path.stem:
        return
    capped = body | {"max_tokens": 4}
    events = events_of(posted(served_small, capped, "/v1/messages?beta=true"))
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
