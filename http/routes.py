"""The handlers: read, ask the runtime, answer. Each refusal is a `RequestError` on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
from quart import Response

from headrace.http import models, operations
from headrace.http.exchange import Exchange
from headrace.http.metrics import CONTENT_TYPE
from headrace.http.sse import stream_answer, whole_answer
from headrace.http.wire import openai_chat, openai_completions
from headrace.http.wire.asking import Asked, Stamp
from headrace.http.wire.openapi import document
from headrace.http.wire.unbuilt import check_built
from headrace.runtime.errors import Code, ErrorInfo, RequestError

Parser: TypeAlias = Callable[[dict[str, Any], Stamp], Asked]

TRACE_EVENTS = 500


async def chat_completions(exchange: Exchange) -> Response:
    return await _generate(exchange, openai_chat.parse)


async def completions(exchange: Exchange) -> Response:
    return await _generate(exchange, openai_completions.parse)


async def _generate(exchange: Exchange, parse: Parser) -> Response:
    asked = parse(await exchange.json_body(), exchange.stamp())
    check_built(asked.requests)
    answer = stream_answer if asked.requests[0].stream else whole_answer
    try:
        return await answer(exchange, asked)
    except RequestError as error:
        raise _about(asked, error.info) from None


def _about(asked: Asked, info: ErrorInfo) -> RequestError:
    """The same failure in the client's words: below the edge all prompts are messages."""
    if info.param == "messages":
        info = attrs.evolve(info, param=asked.prompt_field)
    return RequestError.of(info)


def list_models(exchange: Exchange) -> Response:
    statistics = exchange.edge.runtime.statistics()
    return exchange.json(models.listing(statistics, int(exchange.edge.started_at)))


def show_model(exchange: Exchange, model_id: str) -> Response:
    statistics = exchange.edge.runtime.statistics()
    return exchange.json(models.single(statistics, model_id, int(exchange.edge.started_at)))


def list_requests(exchange: Exchange) -> Response:
    edge = exchange.edge
    return exchange.json(operations.requests(edge.runtime.requests(), edge.live.response_id))


async def cancel_request(exchange: Exchange, name: str) -> Response:
    status = await exchange.edge.live.cancel(name)
    if status is None:
        raise RequestError(Code.REQUEST_NOT_FOUND, "No live request has this id.", param="id")
    return exchange.json({"id": name, "object": "request", "status": status})


def health(exchange: Exchange) -> Response:
    status, report = operations.health(exchange.edge.runtime.statistics())
    return exchange.json(report, status)


def engine(exchange: Exchange) -> Response:
    return exchange.json(operations.engine(exchange.edge.runtime.statistics()))


def stats(exchange: Exchange) -> Response:
    edge = exchange.edge
    server = operations.server(edge.started_at, edge.runtime.settings.public())
    return exchange.json(operations.stats(edge.runtime.statistics(), server))


def metrics(exchange: Exchange) -> Response:
    return Response(exchange.edge.metrics.text(), content_type=CONTENT_TYPE)


def trace(exchange: Exchange) -> Response:
    runtime = exchange.edge.runtime
    if not runtime.settings.debug_trace:
        raise RequestError(Code.NOT_FOUND, "The trace is shown with the setting debug_trace only.")
    limit = exchange.query_integer("limit", default=TRACE_EVENTS)
    return exchange.json(operations.trace(runtime.trace.events(), limit))


def openapi(exchange: Exchange) -> Response:
    return exchange.json(document(operations.VERSION))


def about(exchange: Exchange) -> Response:
    current = exchange.edge.runtime.statistics().current
    return exchange.json(operations.about(current, exchange.edge.endpoints))
