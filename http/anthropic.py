"""The handlers of Anthropic's routes."""

from __future__ import annotations

from typing import Any

from quart import Response

from headrace.http.exchange import Exchange
from headrace.http.generate import generate
from headrace.http.wire import anthropic_messages
from headrace.http.wire.anthropic_models import USUAL, page


async def messages(exchange: Exchange) -> Response:
    return await generate(exchange, anthropic_messages.parse)


async def count_tokens(exchange: Exchange) -> Response:
    """The length of a prompt, which is built as for an answer but not run."""
    asked = anthropic_messages.parse_counted(await exchange.json_body(), exchange.stamp())
    counted = await exchange.edge.runtime.count(asked.request)
    return exchange.json({"input_tokens": counted.prompt_tokens})


def models_page(exchange: Exchange, rows: list[dict[str, Any]]) -> Response:
    limit = exchange.query_integer("limit", default=USUAL)
    after, before = exchange.query_text("after_id"), exchange.query_text("before_id")
    return exchange.json(page(rows, limit, after, before))
