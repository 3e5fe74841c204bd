"""The official client against a real server, over a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import openai
import pytest
import trio

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
