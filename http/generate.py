"""What all generating routes do: read, check, run, answer in the protocol's own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
from quart import Response

from headrace.http.exchange import Exchange
from headrace.http.sse import stream_answer, whole_answer
from headrace.http.wire.asking import Answerable, Asked, Stamp
from headrace.runtime.errors import ErrorInfo, RequestError

Parser: TypeAlias = Callable[[dict[str, Any], Stamp], Asked]


async def generate(exchange: Exchange, parse: Parser) -> Response:
    """Raises `RequestError` for all that fails before anything is sent."""
    asked = parse(await exchange.json_body(), exchange.stamp())
    answer = stream_answer if asked.requests[0].stream else whole_answer
    try:
        return await answer(exchange, asked)
    except RequestError as error:
        raise about(asked, error.info) from None


def about(asked: Answerable, info: ErrorInfo) -> RequestError:
    """The same failure in the client's words: below the edge all prompts are messages."""
    field, param = asked.prompt_field, info.param or ""
    if param == "messages":
        info = attrs.evolve(info, param=field)
    elif field != "prompt" and field.startswith("prompt") and param.startswith("prompt"):
        # The only one of a list; those of longer lists have their place already.
        info = attrs.evolve(info, param=field + param.removeprefix("prompt"))
    return RequestError.of(info)
