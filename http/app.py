"""The app: the complete table of routes, and what happens around every one of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from types import TracebackType
from typing import Any, TypeAlias, cast

import attrs
from quart import Response, current_app, request
from quart.routing import QuartMap, QuartRule
from quart.wrappers.base import BaseRequestWebsocket
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import MapAdapter

from headrace.actors.runtime import Runtime
from headrace.http import (
    admin,
    anthropic,
    batches,
    files,
    jobs,
    memory,
    pages,
    readings,
    responses,
    routes,
    watching,
)
from headrace.http.access import preflight_headers, refusal
from headrace.http.asgi import Connection, ExchangeRequest, Lifespan, NoWebsocket
from headrace.http.edge import Edge
from headrace.http.exchange import Exchange
from headrace.http.opening import open_from_environment
from headrace.http.wire.families import not_found
from headrace.runtime.errors import Code, ErrorInfo, RequestError

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[..., Response | Awaitable[Response]]
Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Runtime]]


@attrs.frozen
class Route:
    method: str
    path: str
    handler: Handler

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


ROUTES = (
    Route("POST", "/v1/chat/completions", routes.chat_completions),
    Route("POST", "/v1/completions", routes.completions),
    Route("POST", "/v1/messages", anthropic.messages),
    Route("POST", "/v1/messages/count_tokens", anthropic.count_tokens),
    Route("POST", "/v1/embeddings", readings.embeddings),
    Route("POST", "/v1/decisions", readings.decisions),
    Route("POST", "/v1/systemone", readings.system_one),
    Route("POST", "/v1/memory/synthesize", memory.synthesize),
    Route("POST", "/v1/responses", responses.create),
    Route("POST", "/v1/responses/input_tokens", responses.count_input),
    Route("POST", "/v1/responses/compact", responses.compact),
    Route("GET", "/v1/responses/<name>", responses.retrieve),
    Route("DELETE", "/v1/responses/<name>", responses.delete),
    Route("POST", "/v1/responses/<name>/cancel", responses.cancel),
    Route("GET", "/v1/responses/<name>/input_items", responses.input_items),
    Route("GET", "/v1/models", routes.list_models),
    Route("GET", "/v1/models/<path:model_id>", routes.show_model),
    Route("GET", "/v1/requests", routes.list_requests),
    Route("DELETE", "/v1/requests/<name>", routes.cancel_request),
    Route("POST", "/v1/files", files.upload),
    Route("GET", "/v1/files", files.listing),
    Route("GET", "/v1/files/<name>", files.show),
    Route("DELETE", "/v1/files/<name>", files.delete),
    Route("GET", "/v1/files/<name>/content", files.content),
    Route("POST", "/v1/batches", batches.create),
    Route("GET", "/v1/batches", batches.listing),
    Route("GET", "/v1/batches/<name>", batches.show),
    Route("POST", "/v1/batches/<name>/cancel", batches.cancel),
    Route("POST", "/api/jobs", jobs.submit),
    Route("GET", "/api/jobs", jobs.listing),
    Route("GET", "/api/jobs/<name>", jobs.show),
    Route("DELETE", "/api/jobs/<name>", jobs.cancel),
    Route("GET", "/api/jobs/<name>/stream", jobs.stream),
    Route("GET", "/health", routes.health),
    Route("GET", "/engine", routes.engine),
    Route("GET", "/stats", routes.stats),
    Route("GET", "/metrics", routes.metrics),
    Route("GET", "/fit", routes.fits),
    Route("GET", "/debug/trace", routes.trace),
    Route("POST", "/admin/drain", admin.drain),
    Route("DELETE", "/admin/drain", admin.open_gate),
    Route("POST", "/admin/models/<path:model_id>/load", admin.load),
    Route("POST", "/admin/models/<path:model_id>/unload", admin.unload),
    Route("POST", "/admin/models/<path:model_id>/pin", admin.pin),
    Route("DELETE", "/admin/models/<path:model_id>/pin", admin.unpin),
    Route("GET", "/openapi.json", routes.openapi),
    Route("GET", "/v1", routes.about),
    Route("GET", "/live", watching.live),
    Route("GET", "/", pages.home),
    Route("GET", "/page/<name>", pages.part),
)


class App(QuartTrio):
    """Serves one runtime: the one it was given, or its own while a server serves the app."""

    asgi_http_class = Connection
    asgi_lifespan_class = Lifespan
    asgi_websocket_class = NoWebsocket
    request_class = ExchangeRequest

    def __init__(self, runtime: Runtime | None, opener: Opener) -> None:
        super().__init__(__name__, static_folder=None)
        # Streams last as long as they last, and limits on bodies are our own.
        self.config.update(
            RESPONSE_TIMEOUT=None,
            BODY_TIMEOUT=None,
            MAX_CONTENT_LENGTH=None,
            PROPAGATE_EXCEPTIONS=False,
        )
        self.url_map = _url_map()
        self._opener = opener
        self._edge = None if runtime is None else self._over(runtime)

    @property
    def edge(self) -> Edge:
        if self._edge is None:
            raise RuntimeError("the app has no runtime: it is not being served")
        return self._edge

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The time in which a server serves the app; an app without a runtime opens its own."""
        if self._edge is not None:
            yield
            return
        async with self._opener() as runtime:
            self._edge = self._over(runtime)
            try:
                yield
            finally:
                self._edge = None

    def create_url_adapter(self, request: BaseRequestWebsocket | None) -> MapAdapter | None:
        """Match by method and path alone: a strange Host header must not make matching fail.

        One trailing slash is ignored.
        """
        if request is None:
            return None
        path = request.path.removesuffix("/") or "/"
        return self.url_map.bind("localhost", default_method=request.method, path_info=path)

    def log_exception(
        self, exception_info: tuple[type, BaseException, TracebackType] | tuple[None, None, None]
    ) -> None:
        logger.error("the answer failed", exc_info=exception_info)

    def _over(self, runtime: Runtime) -> Edge:
        return Edge.over(runtime, tuple((route.method, route.path) for route in ROUTES))


def create_app(runtime: Runtime | None = None, *, opener: Opener = open_from_environment) -> App:
    """An ASGI app over `runtime`.

    Without one, the app opens a runtime from the environment for as long as it is served, so
    that `hypercorn --worker-class trio 'headrace.http.app:create_app()'` works. Sends are without
    a limit there (design/tree.md); `headrace.http.serve` has listeners that bound them.
    """
    app = App(runtime, opener)
    for route in ROUTES:
        app.view_functions[route.name] = _view(route)
    app.before_request(_admit)
    app.after_request(_sign)
    app.register_error_handler(HTTPException, _refuse)
    return app


@cache
def _url_map() -> QuartMap:
    """The same for every app, as compiling it takes longer than all else that an app is made of."""
    rules = [QuartRule(route.path, methods=[route.method], endpoint=route.name) for route in ROUTES]
    # No redirects, whatever slashes a path has.
    return QuartMap(rules, merge_slashes=False)


def _exchange() -> Exchange:
    return cast(ExchangeRequest, request).exchange


def _view(route: Route) -> Callable[..., Awaitable[Response]]:
    async def view(**arguments: Any) -> Response:
        exchange = _exchange()
        exchange.route = route.path
        try:
            exchange.take_place()
            answer = route.handler(exchange, **arguments)
            return answer if isinstance(answer, Response) else await answer
        except RequestError as error:
            return exchange.failure(error.info)
        except Exception:
            logger.exception("the handler of %s failed", route.path)
            return exchange.failure(ErrorInfo(Code.INTERNAL_ERROR, ""))

    return view


async def _admit() -> Response | None:
    """The access policy, before anything of the body is read, and the answer to OPTIONS."""
    exchange = _exchange()
    refused = refusal(exchange.edge.policy, exchange.head())
    if refused is not None:
        return exchange.failure(refused)
    if exchange.method != "OPTIONS":
        return None
    origin = exchange.header("origin")
    missing = isinstance(request.routing_exception, NotFound)
    if missing and origin is None:
        return None
    response = Response(b"", 204)
    for name in ("Content-Type", "Content-Length"):
        del response.headers[name]
    response.headers.update(
        preflight_headers(
            exchange.edge.policy,
            origin,
            requested=exchange.header("access-control-request-headers"),
            private_network=exchange.header("access-control-request-private-network") == "true",
        )
    )
    if not missing:
        response.headers["Allow"] = _allow(request.routing_exception)
    return response


async def _sign(response: Response) -> Response:
    headers = _exchange().common_headers()
    response.vary.update(headers.pop("Vary", "").split())
    response.headers.update(headers)
    return response


async def _refuse(error: HTTPException) -> Response:
    """Quart's own refusals in the shape of the path's family; none of its words get out."""
    exchange = _exchange()
    if isinstance(error, NotFound):
        message = not_found(exchange.method, exchange.path, _exists)
        return exchange.failure(ErrorInfo(Code.NOT_FOUND, message))
    if isinstance(error, MethodNotAllowed):
        allow = _allow(error)
        message = f"{exchange.method} is not allowed here; allowed are {allow}."
        response = exchange.failure(ErrorInfo(Code.METHOD_NOT_ALLOWED, message))
        response.headers["Allow"] = allow
        return response
    return exchange.failure(ErrorInfo(Code.INTERNAL_ERROR, ""))


def _allow(error: Exception | None) -> str:
    """Of a path that exists: werkzeug names its methods when OPTIONS is asked for."""
    methods = set(error.valid_methods or ()) if isinstance(error, MethodNotAllowed) else set()
    return ", ".join(sorted({*methods, "OPTIONS"}))


def _exists(path: str) -> bool:
    return bool(current_app.url_map.bind("localhost").allowed_methods(path))
