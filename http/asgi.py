"""How one HTTP request runs on quart-trio: its exchange, its scope, and its disconnect.

quart-trio cancels a request's nursery at any disconnect, and hypercorn reports one after the last
byte of a complete answer. That cancels the very task in which hypercorn is closing or recycling
the connection, so clients that read to the end would wait for ever. Here a disconnect counts only
while the answer is not complete.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

import trio
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    LifespanStartupFailedEvent,
)
from quart import Response
from quart.asgi import ASGIHTTPConnection
from quart_trio.asgi import (
    TrioASGIHTTPConnection,
    TrioASGILifespan,
    TrioASGIWebsocketConnection,
)
from quart_trio.wrappers import TrioRequest
from structlog.contextvars import bound_contextvars

from headrace.http.exchange import CLIENT_GONE, Exchange
from headrace.http.logs import log_exchange

if TYPE_CHECKING:
    from headrace.http.app import App


logger = logging.getLogger(__name__)


class ExchangeRequest(TrioRequest):
    """A request that knows its exchange."""

    exchange: Exchange


class Connection(TrioASGIHTTPConnection):
    """Runs one exchange: everything that its answer opens is closed again in this task."""

    app: App

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        edge = self.app.edge
        request = cast(ExchangeRequest, self._create_request_from_scope(send))
        exchange = Exchange(edge, self.scope, edge.draw_token(), request.body)
        request.exchange = exchange
        with (
            edge.live.hold(exchange),
            bound_contextvars(request_id=exchange.id),
            edge.spanned(exchange),
        ):
            try:
                await self._run(request, receive, send)
            finally:
                if not exchange.complete:
                    exchange.status = exchange.status or CLIENT_GONE
                edge.metrics.count(exchange)
                log_exchange(exchange)

    async def _run(
        self, request: ExchangeRequest, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        exchange = request.exchange

        async def watch() -> None:
            # Returns at a disconnect. The class between would cancel in any case.
            await ASGIHTTPConnection.handle_messages(self, request, receive)
            if not exchange.complete:
                nursery.cancel_scope.cancel("client disconnected")

        async def sending(message: ASGISendEvent) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                exchange.complete = True
            await send(message)

        async def sending_h2(message: ASGISendEvent) -> None:
            """The end of a stream waits for its window, and no socket tells that nobody reads."""
            with trio.move_on_after(exchange.edge.runtime.settings.write_stall_s) as stall:
                await sending(message)
            if stall.cancelled_caught:
                nursery.cancel_scope.cancel("reader stalled")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            async with exchange.scopes:
                response = cast(Response, await self.app.handle_request(request))
                exchange.status = response.status_code
                http2 = self.scope["http_version"] == "2"
                await self._send_response(sending_h2 if http2 else sending, response)
            nursery.cancel_scope.cancel("answered")


class Lifespan(TrioASGILifespan):
    """Opens the app's own runtime for as long as a server serves the app."""

    app: App

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()  # the startup
        stage = "startup"
        try:
            async with self.app.serving():
                await send({"type": "lifespan.startup.complete"})
                stage = "shutdown"
                await receive()  # the shutdown
        except Exception as error:
            logger.exception("the runtime failed at %s", stage)
            failed = {"type": f"lifespan.{stage}.failed", "message": str(error)}
            await send(cast(LifespanStartupFailedEvent, failed))
            return
        await send({"type": "lifespan.shutdown.complete"})


class NoWebsocket(TrioASGIWebsocketConnection):
    """There are no websocket routes: every upgrade is refused before it is accepted."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()  # the upgrade
        await send({"type": "websocket.close", "code": 1000, "reason": None})
