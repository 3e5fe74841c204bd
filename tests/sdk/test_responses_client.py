"""The official client's Responses against the real server, its real model and its small one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from headrace.runtime.testing.serving import Serving

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
BODIES = Path(__file__).parent / "bodies"
COUNTING = "List the numbers from 1 to 300, each on its own line."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"day": {"type": "integer", "minimum": 1, "maximum": 31}},
    "required": ["day"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "name": "set_day", "parameters": SCHEMA, "strict": True}
ONE_CALL: dict[str, Any] = {"parallel_tool_calls": False, "max_output_tokens": 60}
SPACE: Any = {"type": "namespace", "name": "days", "description": "Days.", "tools": [TOOL]}


def asking(said: str = COUNTING, **fields: Any) -> dict[str, Any]:
    usual = {"model": "default", "input": said, "max_output_tokens": 8, "temperature": 0}
    return usual | fields


def ends(client: Any, **fields: Any) -> Any:
    """The response that a stream ends with; every event on the way is one of the client's."""
    last: Any = None
    with client.responses.create(**asking(**fields), stream=True) as stream:
        for number, event in enumerate(stream):
            assert event.sequence_number == number
            EVENT.validate_python(event.model_dump(by_alias=True, exclude_unset=True))
            last = event
    assert isinstance(last.response, Response)
    return last.response


class TestResponses:
    def test_a_stream_ends_with_the_plain_answer_o4(
        self, client: Any, nothing_left: Serving
    ) -> None:
        plain = client.responses.create(**asking())
        streamed = ends(client)
        assert plain.output_text == streamed.output_text != ""
        assert {plain.status, streamed.status} == {"incomplete"}
        assert plain.incomplete_details is not None
        assert plain.incomplete_details.reason == "max_output_tokens"
        assert plain.usage is not None
        assert plain.usage.output_tokens == 8
        assert client.responses.retrieve(plain.id).to_dict() == plain.to_dict()

    def test_the_stream_helper_gives_the_answer_up_to_a_stop(self, quick: Any) -> None:
        whole = quick.responses.create(**asking()).output_text
        stop = {"extra_body": {"stop": [whole[3:5]]}}
        with quick.responses.stream(**asking(), **stop) as stream:
            helped = stream.get_final_response()
        assert helped.status == "completed"
        assert helped.output_text == whole[: whole.index(whole[3:5])]

    def test_a_conversation_goes_on_and_can_be_looked_up(self, quick: Any) -> None:
        first = quick.responses.create(**asking("My name is Bo."))
        second = quick.responses.create(**asking("What is my name?", previous_response_id=first.id))
        whole = quick.responses.create(
            **asking(
                input=[
                    {"role": "user", "content": "My name is Bo."},
                    {"role": "assistant", "content": first.output_text},
                    {"role": "user", "content": "What is my name?"},
                ]
            )
        )
        assert second.output_text == whole.output_text
        items = quick.responses.input_items.list(second.id).data
        assert [item.type for item in items] == ["message"]
        quick.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            quick.responses.retrieve(first.id)

    def test_counting_is_exact_o7(self, quick: Any) -> None:
        fields: dict[str, Any] = {"input": "Hi", "instructions": "Be brief.", "tools": [TOOL]}
        counted = quick.responses.input_tokens.count(model="default", **fields)
        usage = quick.responses.create(**asking(**fields)).usage
        assert usage is not None
        assert counted.input_tokens == usage.input_tokens > 20

    def test_scores_travel_with_the_text(self, quick: Any) -> None:
        fields: dict[str, Any] = {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}
        plain, streamed = quick.responses.create(**asking(**fields)), ends(quick, **fields)
        for response in (plain, streamed):
            part: Any = response.output[0].content[0]
            assert "".join(entry.token for entry in part.logprobs) == response.output_text
            assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)


class TestTools:
    @pytest.mark.slow
    def test_the_default_model_is_held_to_a_call_l1_l6(self, client: Any) -> None:
        self.check_forced(client, TOOL, {"type": "function", "name": "set_day"}, None)

    @pytest.mark.parametrize(
        ("tool", "choice", "space"),
        [
            (TOOL, "required", None),
            (SPACE, {"type": "function", "name": "set_day", "namespace": "days"}, "days"),
        ],
    )
    def test_a_forced_call_is_valid_in_both_ways_l1_l6_o6(
        self, quick: Any, tool: Any, choice: Any, space: str | None
    ) -> None:
        self.check_forced(quick, tool, choice, space)

    def check_forced(self, client: Any, tool: Any, choice: Any, space: str | None) -> None:
        fields = {"tools": [tool], "tool_choice": choice} | ONE_CALL
        asked = "Set day 12."
        for response in (
            client.responses.create(**asking(asked, **fields)),
            ends(client, input=asked, **fields),
        ):
            (call,) = [item for item in response.output if item.type == "function_call"]
            assert isinstance(json.loads(call.arguments)["day"], int)
            assert (call.name, call.namespace) == ("set_day", space)
            assert call.call_id.startswith("call_")

    def test_a_turn_with_a_call_and_its_result_goes_on_j1(self, quick: Any) -> None:
        fields: dict[str, Any] = {"tools": [TOOL]} | ONE_CALL
        called = quick.responses.create(**asking("Day 12.", tool_choice="required", **fields))
        (call,) = [item for item in called.output if item.type == "function_call"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
        after = quick.responses.create(
            **asking(input=[result], previous_response_id=called.id, tools=[TOOL])
        )
        assert after.status in ("completed", "incomplete")

    def test_a_custom_tool_takes_text(self, quick: Any) -> None:
        regex = {"type": "grammar", "syntax": "regex", "definition": "[ab]{3}"}
        tool: Any = {"type": "custom", "name": "write", "format": regex}
        response = quick.responses.create(
            **asking("Write.", tools=[tool], tool_choice="required", **ONE_CALL)
        )
        (call,) = [item for item in response.output if item.type == "custom_tool_call"]
        assert len(call.input) == 3
        assert set(call.input) <= set("ab")

    def test_a_form_for_the_answer(self, quick: Any) -> None:
        form: Any = {"format": {"type": "json_schema", "name": "day", "schema": SCHEMA}}
        response = quick.responses.create(**asking("Day 3.", text=form, max_output_tokens=60))
        assert isinstance(json.loads(response.output_text)["day"], int)


class TestBackground:
    def test_it_is_polled_and_cancelled(self, client: Any, nothing_left: Serving) -> None:
        asked = asking(background=True, max_output_tokens=2000)
        begun = client.responses.create(**asked)
        assert begun.status in ("queued", "in_progress")
        assert client.responses.retrieve(begun.id).id == begun.id
        assert client.responses.cancel(begun.id).status == "cancelled"
        assert client.responses.retrieve(begun.id).status == "cancelled"
        with pytest.raises(openai.BadRequestError):
            client.responses.create(**asking(previous_response_id=begun.id))

    def test_its_stream_is_taken_up_where_it_was_left(self, quick: Any) -> None:
        with quick.responses.create(**asking(background=True), stream=True) as stream:
            first = [next(stream) for _ in range(4)]
        created: Any = first[0]
        with quick.responses.retrieve(
            created.response.id, stream=True, starting_after=first[-1].sequence_number
        ) as rest:
            told = [*first, *rest]
        assert [event.sequence_number for event in told] == list(range(len(told)))
        assert told[-1].type == "response.incomplete"


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"input": []}, openai.BadRequestError, "input"),
        ({"model": "mini"}, openai.NotFoundError, "model"),
        ({"temperature": 9}, openai.BadRequestError, "temperature"),
        ({"previous_response_id": "resp_0"}, openai.NotFoundError, "previous_response_id"),
        ({"input": "word " * 9000}, openai.BadRequestError, "input"),
    ],
)
def test_a_refusal_is_an_error_of_the_clients_own_h6_i4_k1(
    client: Any,
    fields: dict[str, Any],
    kind: type[openai.APIStatusError],
    param: str,
) -> None:
    for stream in (False, True):
        with pytest.raises(kind) as caught:
            client.responses.create(**(asking() | fields), stream=stream)
        assert caught.value.param == param
        assert not any(word in str(caught.value.body) for word in ("Traceback", "Error(", ".py"))


@pytest.mark.parametrize(
    "path",
    sorted(BODIES.glob("responses-*.json")),
    ids=lambda path: path.stem,
)
def test_what_coding_agents_send_is_taken_as_it_is_o6(served_small: Serving, path: Path) -> None:
    """Bodies as the agents send them, long texts cut; only the model and the cap are ours."""
    body = json.loads(path.read_text(encoding="utf-8"))
    capped = body | {"max_output_tokens": 4, "model": "default", "stream": True}
    reply = httpx.post(f"{served_small.base_url}/v1/responses", json=capped, timeout=240)
    assert reply.status_code == 200, reply.text
    lines = [line for line in reply.text.split("\n") if line.startswith("data: ")]
    told = [json.loads(line.removeprefix("data: ")) for line in lines]
    for event in told:
        EVENT.validate_python(event)
    assert told[-1]["type"] in ("response.incomplete", "response.completed")
    assert told[-1]["response"]["tools"] is not None
