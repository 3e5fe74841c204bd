"""Refusals that depend on the server's settings, as the official Python client shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest
import trio

from headrace.runtime.testing.site import open_site

CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}


async def ask(story: Callable[[openai.OpenAI], None], **settings: Any) -> None:
    """Let a story use the client, on a thread of its own; nothing is left behind."""
    async with open_site(**settings) as site:
        base = f"http://127.0.0.1:{site.port}/v1"

        def told() -> None:
            with openai.OpenAI(base_url=base, api_key="any", max_retries=0) as client:
                story(client)

        await trio.to_thread.run_sync(told)
        await site.idle()


async def test_a_wrong_key_is_an_authentication_error() -> None:
    def story(client: openai.OpenAI) -> None:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(**CHAT)
        assert caught.value.code == "invalid_api_key"
        right = client.with_options(api_key="sesame")
        assert right.chat.completions.create(**CHAT, max_tokens=1).choices

    await ask(story, api_keys=("sesame",))


async def test_a_strange_host_is_a_permission_error() -> None:
    def story(client: openai.OpenAI) -> None:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            client.models.list(extra_headers={"Host": "elsewhere.example"})
        assert caught.value.code == "invalid_host"

    await ask(story)


async def test_a_full_queue_is_a_rate_limit_that_says_when_to_come_again() -> None:
    def story(client: openai.OpenAI) -> None:
        with client.chat.completions.create(**CHAT, stream=True) as stream:
            next(iter(stream))
            with pytest.raises(openai.RateLimitError) as caught:
                client.chat.completions.create(**CHAT)
        assert caught.value.code == "queue_full"
        assert int(caught.value.response.headers["retry-after"]) >= 1

    await ask(story, queue_limit=0, max_rows=1)


async def test_a_body_that_is_too_large_is_refused() -> None:
    def story(client: openai.OpenAI) -> None:
        with pytest.raises(openai.APIStatusError) as caught:
            client.completions.create(model="scripted", prompt="x" * 2000)
        assert (caught.value.status_code, caught.value.code) == (413, "body_too_large")

    await ask(story, max_body_bytes=1000)
