"""The routes by which an operator moves models and shuts the gate (wire contract 13.8)."""

from __future__ import annotations

import trio
from quart import Response

from headrace.actors.reports import ModelReport
from headrace.http import models, operations
from headrace.http.exchange import Exchange
from headrace.http.wire import admin


async def load(exchange: Exchange, model_id: str) -> Response:
    order = admin.load_order(await exchange.optional_body())
    runtime = exchange.edge.runtime
    return _row(exchange, await runtime.load(model_id, current=order.current, pin=order.pin))


async def unload(exchange: Exchange, model_id: str) -> Response:
    force = admin.unload_force(await exchange.optional_body())
    return _row(exchange, await exchange.edge.runtime.unload(model_id, force=force))


async def pin(exchange: Exchange, model_id: str) -> Response:
    return _row(exchange, await exchange.edge.runtime.pin(model_id))


async def unpin(exchange: Exchange, model_id: str) -> Response:
    return _row(exchange, await exchange.edge.runtime.pin(model_id, pinned=False))


async def drain(exchange: Exchange) -> Response:
    """Shut the gate and wait. Requests that still run after the wait go on."""
    runtime = exchange.edge.runtime
    body = await exchange.optional_body()
    seconds = admin.drain_seconds(body, runtime.settings.shutdown_timeout_s)
    began = trio.current_time()
    runtime.close_to_new()
    with trio.move_on_after(seconds) as wait:
        await runtime.wait_idle()
    waited_seconds = trio.current_time() - began
    in_flight = runtime.statistics().requests_in_flight
    return exchange.json(operations.drained(in_flight, waited_seconds, wait.cancelled_caught))


def open_gate(exchange: Exchange) -> Response:
    exchange.edge.runtime.open_to_new()
    return exchange.json({"draining": False})


def _row(exchange: Exchange, report: ModelReport) -> Response:
    current = exchange.edge.runtime.registry.current
    return exchange.json(
        models.row(report, current, int(exchange.edge.started_at), pools=exchange.edge.pools)
    )
