"""One streamed request after another over HTTP, timed piece by piece. Loopback only."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio
from served import chat


@attrs.define
class Said:
    """What a request brought. Times are in seconds since it was sent; usage is the server's."""

    text: str = ""
    usage: dict[str, Any] = attrs.field(factory=dict)
    # When each piece of text arrived.
    times: list[float] = attrs.field(factory=list)
    # On the clock of `time.perf_counter`.
    began: float = 0.0

    @property
    def first(self) -> float:
        return self.times[0]

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]

    @property
    def prompt_tokens(self) -> int:
        return int(self.usage["prompt_tokens"])

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not in the cache."""
        return self.prompt_tokens - int(self.usage["prompt_tokens_details"]["cached_tokens"])


async def ask(
    port: int,
    prompt: str | list[dict[str, str]],
    *,
    request_id: str = "talk",
    on_piece: Callable[[Said], bool] = lambda said: False,
    **fields: Any,
) -> Said:
    """One chat request; `on_piece` is called with each piece and may hang up by answering True."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    fields = {"temperature": 0, "messages": messages, **fields}
    fields |= {"stream": True, "stream_options": {"include_usage": True}}
    said = Said(began=time.perf_counter())
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        await client.send_all(chat("", request_id, **fields))
        rest = await client.receive_some(65536)
        if rest[8:12] != b" 200":  # HTTP/1.1, or HTTP/1.0 with some
            raise SystemExit(f"refused: {rest[-300:]!r}")
        while True:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.startswith(b"data: [DONE]"):
                    return said
                if line.startswith(b"data: {"):
                    _note(said, line)
            if on_piece(said):
                return said
            data = await client.receive_some(65536)
            if not data:
                raise SystemExit(f"a stream broke off: {rest[-300:]!r}")
            rest += data


def _note(said: Said, line: bytes) -> None:
    event = json.loads(line.removeprefix(b"data: "))
    if "error" in event:
        raise SystemExit(f"failed: {event['error']}")
    said.usage = event.get("usage") or said.usage
    for choice in event["choices"]:
        if text := choice["delta"].get("content"):
            said.text += text
            said.times.append(time.perf_counter() - said.began)


async def together(asks: Sequence[Callable[[], Any]]) -> list[Any]:
    """All of them at once; their answers in order."""
    answers: dict[int, Any] = {}

    async def one(number: int, ask: Callable[[], Any]) -> None:
        answers[number] = await ask()

    async with trio.open_nursery() as nursery:
        for number, asked in enumerate(asks):
            nursery.start_soon(one, number, asked)
    return [answers[number] for number in range(len(asks))]
