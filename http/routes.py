"""The handlers: read, ask the runtime, answer. Each refusal is a `RequestError` on its way."""

from __future__ import annotations

from quart import Response

from headrace.http import models, operations
from headrace.http.exchange import Exchange
from headrace.http.metrics import CONTENT_TYPE
from headrace.http.sse import stream_answer, whole_answer
from headrace.http.wire import openai_chat
from headrace.runtime.errors import Code, RequestError

TRACE_EVENTS = 500


async def chat_completions(exchange: Exchange) -> Response:
    asked = openai_chat.parse(await exchange.json_body(), exchange.stamp())
    answer = stream_answer if asked.request.stream else whole_answer
    return await answer(exchange, asked)


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


def about(exchange: Exchange) -> Response:
    current = exchange.edge.runtime.statistics().current
    return exchange.json(operations.about(current, exchange.edge.endpoints))
