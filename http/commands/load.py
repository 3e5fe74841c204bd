"""A load on a server: so many requests, so many at a time, each timed piece by piece."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import httpx
import trio

from headrace.http.commands.asking import SILENCE_SECONDS, event_of
from headrace.http.commands.figures import Sample
from headrace.http.commands.remote import CONNECT_SECONDS, Remote

# Words that most vocabularies have whole, so that a word is about a token.
WORDS = """
    water wheel mill stone river gate stream channel field grain bread morning evening winter
    summer house door window table road bridge tree leaf wind rain snow light dark small large
    old new long short high low first last good quiet round open closed early late near far
"""


@attrs.frozen
class Load:
    """Requests for text of a fixed length. Prompts differ, so that none is in a cache."""

    model: str | None
    requests: int
    prompt_tokens: int
    max_tokens: int
    seed: int = 0

    def bodies(self) -> Iterator[dict[str, Any]]:
        """The same ones for the same load."""
        draw = random.Random(self.seed)
        named = {} if self.model is None else {"model": self.model}
        for _ in range(self.requests):
            words = " ".join(draw.choices(WORDS.split(), k=self.prompt_tokens))
            yield named | {
                "messages": [{"role": "user", "content": words}],
                "max_tokens": self.max_tokens,
                # So that each answer is as long as it may be.
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }


async def put(
    server: Remote, load: Load, concurrency: int, done: Callable[[], None]
) -> list[Sample]:
    """Put the load on the server. `done` is called after each request, however it ended."""
    samples: list[Sample] = []
    bodies = load.bodies()

    async def work(client: httpx.AsyncClient) -> None:
        for body in bodies:
            samples.append(await _measure(client, body))
            done()

    limits = httpx.Limits(max_connections=concurrency)
    timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    options = server.options() | {"timeout": timeout, "limits": limits}
    async with httpx.AsyncClient(**options) as client, trio.open_nursery() as nursery:
        for _ in range(min(concurrency, load.requests)):
            nursery.start_soon(work, client)
    return samples


async def _measure(client: httpx.AsyncClient, body: dict[str, Any]) -> Sample:
    sample = Sample(trio.current_time())
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.is_error:
                sample.error = f"status {response.status_code}"
                return sample
            async for line in response.aiter_lines():
                if event := event_of(line):
                    _take(event, sample)
    except httpx.HTTPError as error:
        sample.error = type(error).__name__
    if sample.error is None and sample.tokens == 0:
        sample.error = "no tokens"
    return sample


def _take(event: dict[str, Any], sample: Sample) -> None:
    if "error" in event:
        sample.error = event["error"].get("code") or "error"
    for choice in event.get("choices", ()):
        if choice["delta"].get("content"):
            sample.heard(trio.current_time())
    if usage := event.get("usage"):
        sample.tokens = usage["completion_tokens"]
