"""The handlers: read, ask the runtime, answer. Each refusal is a `RequestError` on its way."""

from __future__ import annotations

import time
from typing import Any

import trio
from quart import Response

from headrace.actors import machine
from headrace.actors.provision import memory_bytes
from headrace.http import anthropic, fit, models, operations
from headrace.http.described import described
from headrace.http.exchange import Exchange
from headrace.http.generate import generate
from headrace.http.identity import is_loopback
from headrace.http.metrics import CONTENT_TYPE
from headrace.http.wire import openai_chat, openai_completions
from headrace.http.wire.anthropic_models import model_object
from headrace.runtime.errors import Code, RequestError

TRACE_EVENTS = 500


async def chat_completions(exchange: Exchange) -> Response:
    return await generate(exchange, openai_chat.parse)


async def completions(exchange: Exchange) -> Response:
    return await generate(exchange, openai_completions.parse)


async def list_models(exchange: Exchange) -> Response:
    """Models that have come onto the machine are found here, and listed from then on."""
    await exchange.edge.runtime.look_for_models()
    statistics = exchange.edge.runtime.statistics()
    listed = models.listing(statistics, int(exchange.edge.started_at), pools=exchange.edge.pools)
    if exchange.family == "anthropic":
        return anthropic.models_page(exchange, listed["data"])
    return exchange.json(listed)


def show_model(exchange: Exchange, model_id: str) -> Response:
    edge = exchange.edge
    report, current = edge.runtime.model(model_id), edge.runtime.registry.current
    row = models.row(report, current, int(edge.started_at), pools=edge.pools)
    return exchange.json(model_object(row) if exchange.family == "anthropic" else row)


def list_requests(exchange: Exchange) -> Response:
    edge = exchange.edge
    return exchange.json(operations.requests(edge.runtime.requests(), edge.response_id))


async def cancel_request(exchange: Exchange, name: str) -> Response:
    edge = exchange.edge
    status = await edge.live.cancel(name) or await edge.kept.cancel_run(name)
    if status is None:
        raise RequestError(Code.REQUEST_NOT_FOUND, "No live request has this id.", param="id")
    return exchange.json({"id": name, "object": "request", "status": status})


def health(exchange: Exchange) -> Response:
    status, report = operations.health(exchange.edge.runtime.statistics())
    return exchange.json(report, status)


def engine(exchange: Exchange) -> Response:
    report = operations.engine(exchange.edge.runtime.statistics())
    return exchange.json(report | _response_store(exchange))


def stats(exchange: Exchange) -> Response:
    edge = exchange.edge
    server = operations.server(edge.started_at, edge.runtime.settings.public())
    report = operations.stats(edge.runtime.statistics(), server)
    return exchange.json(report | _response_store(exchange))


def _response_store(exchange: Exchange) -> dict[str, Any]:
    runtime = exchange.edge.runtime
    kept = operations.response_store(runtime.history.usage, runtime.settings)
    return {"response_store": kept}


def fits(exchange: Exchange) -> Response:
    """Whether a model fits, the current one unless another is named."""
    runtime = exchange.edge.runtime
    name = exchange.query_text("model")
    model = runtime.model(name) if name is not None else runtime.current_model()
    if model.info is None:
        text = "Nothing is known of this model before its first load."
        raise RequestError(Code.NO_CURRENT_MODEL, text)
    # What the server was given at its start: to ask a driver takes too long in an answer.
    limit_bytes = runtime.statistics().ledger.limit_bytes
    asked = fit.Asked(
        machine.this_machine(),
        model.info,
        exchange.query_integer("context", default=model.info.context_window),
        memory_bytes(runtime.settings) if limit_bytes is None else limit_bytes,
        runtime.settings.prefill_chunk_tokens,
    )
    return exchange.json(fit.body(asked, fit.measured(model, trio.current_time(), time.time())))


def metrics(exchange: Exchange) -> Response:
    return Response(exchange.edge.metrics.text(), content_type=CONTENT_TYPE)


def trace(exchange: Exchange) -> Response:
    runtime = exchange.edge.runtime
    if not (runtime.settings.debug_trace and is_loopback(exchange.address)):
        text = "The trace is shown with the setting debug_trace, and on the server's machine only."
        raise RequestError(Code.NOT_FOUND, text)
    limit = exchange.query_integer("limit", default=TRACE_EVENTS)
    return exchange.json(operations.trace(runtime.trace.events(), limit))


def openapi(exchange: Exchange) -> Response:
    return exchange.json(described(operations.VERSION))


def about(exchange: Exchange) -> Response:
    current = exchange.edge.runtime.statistics().current
    kinds = [kind.name for kind in exchange.edge.runtime.jobs.kinds.values() if kind.listed]
    return exchange.json(operations.about(current, exchange.edge.endpoints, kinds))
