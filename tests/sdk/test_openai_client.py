"""The official client against a real server, over a scripted model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import openai
import pytest
import trio
from openai.lib.streaming.chat import ChatCompletionStreamState

from headrace.runtime.ports import RowSpec
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.site import open_site

T = TypeVar("T")

CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}


def says(text: str) -> ScriptedModel:
    return ScriptedModel(load_seconds=0, scripts={"": Script(text)})


async def ask(story: Callable[[openai.OpenAI], T], model: ScriptedModel | None = None) -> T:
    """Let a story use the client, on a thread of its own; nothing is left behind."""
    async with open_site(model) as site:
        base = f"http://127.0.0.1:{site.port}/v1"

        def told() -> T:
            with openai.OpenAI(base_url=base, api_key="any", max_retries=0) as client:
                return story(client)

        result = await trio.to_thread.run_sync(told)
        await site.idle()
        return result


class TestChat:
    async def test_a_plain_answer(self) -> None:
        answer = await ask(lambda client: client.chat.completions.create(**CHAT), says("Hello"))
        (choice,) = answer.choices
        assert (choice.message.content, choice.finish_reason) == ("Hello", "stop")
        assert answer.usage.completion_tokens == 5

    async def test_the_stream_helper_puts_several_choices_together(self) -> None:
        def story(client: openai.OpenAI) -> list[list[str | None]]:
            asked = CHAT | {"n": 2}
            plain = client.chat.completions.create(**asked)
            with client.chat.completions.stream(**asked) as stream:
                stream.until_done()
                whole = stream.get_final_completion()
            return [[c.message.content for c in answer.choices] for answer in (plain, whole)]

        def counts(spec: RowSpec) -> Script:
            return Script(f"I am {spec.choice}")

        answers = await ask(story, ScriptedModel(load_seconds=0, script_of=counts))
        assert answers == [["I am 0", "I am 1"]] * 2

    async def test_a_stop_is_never_shown_in_part_g1(self) -> None:
        def story(client: openai.OpenAI) -> str:
            stream = client.chat.completions.create(**CHAT, stop=["DEFGHIJ"], stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

        assert await ask(story, says("ABCDEFGHIJKL")) == "ABC"

    @pytest.mark.parametrize(
        ("fields", "kind", "param"),
        [
            ({"extra_body": {"top_logprobs": 3}}, openai.BadRequestError, "top_logprobs"),
            ({"model": "mini"}, openai.NotFoundError, "model"),
            ({"temperature": 5}, openai.BadRequestError, "temperature"),
            ({"stream": True, "n": 0}, openai.BadRequestError, "n"),
        ],
    )
    async def test_a_refusal_is_an_error_of_the_clients_own_h6(
        self, fields: dict[str, Any], kind: type[openai.APIStatusError], param: str
    ) -> None:
        def story(client: openai.OpenAI) -> str | None:
            with pytest.raises(kind) as caught:
                client.chat.completions.create(**(CHAT | fields))
            return caught.value.param

        assert await ask(story) == param


class TestTools:
    TOOLS: ClassVar[list[Any]] = [{"type": "function", "function": {"name": "add"}}]
    CALLS = "".join(
        f'<tool_call>\n{{"name": "add", "arguments": {{"a": {a}}}}}\n</tool_call>\n' for a in (1, 2)
    )

    async def read(self, said: str, **fields: Any) -> list[Any]:
        """The first choice, once whole and once as the stream helper puts it together."""

        def story(client: openai.OpenAI) -> list[Any]:
            asked = CHAT | {"tools": self.TOOLS} | fields
            plain = client.chat.completions.create(**asked)
            with client.chat.completions.create(**asked, stream=True) as stream:
                state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
                for chunk in stream:
                    state.handle_chunk(chunk)
            return [plain.choices[0], state.current_completion_snapshot.choices[0]]

        return await ask(story, says(said))

    @staticmethod
    def calls(choice: Any) -> list[tuple[str, str]]:
        called = choice.message.tool_calls or ()
        return [(call.function.name, call.function.arguments) for call in called]

    async def test_calls_come_out_of_a_stream_as_of_a_whole_answer_l1_l3_l4(self) -> None:
        plain, streamed = await self.read("I add. " + self.CALLS)
        for choice in (plain, streamed):
            ids = {call.id for call in choice.message.tool_calls}
            assert [re.fullmatch("call_[0-9a-f]{24}", call_id) is None for call_id in ids] == [
                False,
                False,
            ]
            assert self.calls(choice) == [("add", '{"a": 1}'), ("add", '{"a": 2}')]
            assert choice.message.content.strip() == "I add."
            assert choice.finish_reason == "tool_calls"

    async def test_one_call_is_enough_where_only_one_is_wanted(self) -> None:
        for choice in await self.read(self.CALLS, parallel_tool_calls=False):
            assert self.calls(choice) == [("add", '{"a": 1}')]
            assert not choice.message.content

    async def test_a_call_that_is_cut_is_no_text_h7_l5(self) -> None:
        for choice in await self.read(self.CALLS, max_tokens=45):
            ((name, arguments),) = self.calls(choice)
            assert name == "add"
            assert '{"a": 1}'.startswith(arguments)
            assert not choice.message.content
            assert choice.finish_reason == "length"

    async def test_without_leave_to_call_it_is_all_text(self) -> None:
        for choice in await self.read(self.CALLS, tool_choice="none"):
            assert not self.calls(choice)
            assert "add" in choice.message.content


class TestCompletions:
    async def test_several_prompts_f9(self) -> None:
        asked: dict[str, Any] = {"prompt": ["a", "b"], "n": 2, "max_tokens": 3, "echo": True}
        answer = await ask(lambda client: client.completions.create(model="scripted", **asked))
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        assert [choice.text[0] for choice in answer.choices] == ["a", "a", "b", "b"]

    async def test_a_stream_ends_with_its_usage_h1(self) -> None:
        asked: dict[str, Any] = {"prompt": "x", "stream_options": {"include_usage": True}}
        *chunks, last = await ask(
            lambda client: list(client.completions.create(model="scripted", stream=True, **asked)),
            says("Hello"),
        )
        assert "".join(chunk.choices[0].text for chunk in chunks) == "Hello"
        assert last.choices == []
        assert last.usage.completion_tokens == 5
