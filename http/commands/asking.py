"""One streamed answer of a chat, as a scope: Ctrl-C ends it, and its row with it."""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import attrs
import click
import httpx
import trio

from headrace.http.commands.remote import CONNECT_SECONDS, Remote, refusal

# Between two signs of life, of which a silent server gives one every few seconds.
SILENCE_SECONDS = 120.0


# Takes a piece of an answer, and whether it is a thought that comes before it.
Say: TypeAlias = Callable[[str, bool], None]


@attrs.define
class Answer:
    """What has come of an answer. `trouble` is why it is not whole; None for one that is, and for
    one that was cancelled."""

    text: str = ""
    cancelled: bool = False
    trouble: click.ClickException | None = None


def ask(server: Remote, body: dict[str, Any], say: Say) -> Answer:
    """Have `say` called with each piece of the answer; the next Ctrl-C ends it. Blocks."""
    answer = Answer()

    listen = partial(_listen, server, body, answer, say)
    answer.cancelled = trio.run(until_interrupt, listen)
    return answer


async def until_interrupt(work: Callable[[], Awaitable[None]]) -> bool:
    """Run `work`, and whether a Ctrl-C has cancelled it."""
    interrupted = False
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal interrupted
                async for _ in signals:
                    interrupted = True
                    nursery.cancel_scope.cancel("Ctrl-C")

            nursery.start_soon(watch)
            await work()
            nursery.cancel_scope.cancel("answered")
    return interrupted


async def _listen(server: Remote, body: dict[str, Any], answer: Answer, say: Say) -> None:
    timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    try:
        async with (
            httpx.AsyncClient(**server.options() | {"timeout": timeout}) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as response,
        ):
            if response.is_error:
                await response.aread()
                answer.trouble = refusal(response)
                return
            async for line in response.aiter_lines():
                if event := event_of(line):
                    take(event, answer, say)
    except httpx.TransportError as error:
        answer.trouble = server.gone(error)


def take(event: dict[str, Any], answer: Answer, say: Say) -> None:
    """Add what an event of the stream tells to the answer."""
    if "error" in event:
        answer.trouble = click.ClickException(event["error"]["message"])
    for choice in event.get("choices", ()):
        if thought := choice["delta"].get("reasoning_content"):
            say(thought, True)
        if piece := choice["delta"].get("content"):
            answer.text += piece
            say(piece, False)


def event_of(line: str) -> dict[str, Any] | None:
    """The JSON of a `data:` line of a stream. Comments keep it alive and say nothing."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return None
    event: dict[str, Any] = json.loads(data)
    return event
