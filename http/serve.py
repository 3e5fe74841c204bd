"""A server inside somebody's trio program: `server = await nursery.start(serve, settings)`.

It is hypercorn's connection code under listeners of our own, so that sends are bounded, a drain
has its order and its limits, and cancelling the task is all it takes to end it.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.http.app import App, create_app
from headrace.http.heads import MOST_HEAD_BYTES, Refusal
from headrace.http.identity import fresh_id
from headrace.http.logs import log_lifecycle, log_refusal
from headrace.http.peer import CLOSED_AT_ONCE, Peer
from headrace.http.sockets import BACKLOG, Sockets
from headrace.http.streams import BoundedListener, BoundedStream
from headrace.http.telemetry import spans_of
from headrace.http.tls import secured, tls_context
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.settings import Settings

if TYPE_CHECKING:
    from headrace.http.spans import Spans

logger = logging.getLogger(__name__)

Announce: TypeAlias = Callable[[tuple[str, ...]], AbstractContextManager[None]]

CLOSING = ErrorInfo(Code.CLOSED, "The server is closing.", retry_after_seconds=5.0)
# How long a connection without a request is kept; longer than the pools of usual clients.
KEEP_ALIVE_SECONDS = 75.0
# For the rows of ended requests to leave their models, which end soon themselves.
RELEASE_SECONDS = 1.0
# For ended requests to write their last frames.
FAREWELL_SECONDS = 3.0


def _to_nobody(addresses: tuple[str, ...]) -> AbstractContextManager[None]:
    return nullcontext()


class Server:
    """A listening server. `stop` begins the drain; `stop_now` skips what is left of it."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        # As URLs, with the ports that were really bound.
        self.addresses = addresses
        # Set when nothing is served any more.
        self.ended = trio.Event()
        self._stopping = trio.Event()
        self._hurried = trio.CancelScope()

    def stop(self) -> None:
        self._stopping.set()

    def stop_now(self) -> None:
        self._stopping.set()
        self._hurried.cancel("stop now")

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def wait_stopping(self) -> None:
        await self._stopping.wait()

    async def drain(self, runtime: Runtime, seconds: float) -> None:
        """Let requests in flight finish, but no longer than `seconds`, then end each of them."""
        runtime.close_to_new()
        # They may take hours, so they are not waited for.
        runtime.jobs.close()
        with self._hurried, trio.move_on_after(seconds):
            await runtime.wait_idle()
        runtime.end_all(CLOSING)
        await runtime.release_all(RELEASE_SECONDS)

    def __repr__(self) -> str:
        return f"<Server {', '.join(self.addresses)}>"


async def serve(  # noqa: ASYNC128 - passed on
    settings: Settings,
    provision: Provision | None = None,
    *,
    sockets: Sockets = (),
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Open a runtime and serve it until `Server.stop` or cancellation.

    Without a `provision` the models are those of this machine; without `sockets` that listen
    already, it listens where the settings say. `task_status` gets the `Server` when connections
    are accepted; the first model may still be loading.
    """
    async with open_runtime(settings, provision=provision) as runtime:
        log_lifecycle(runtime)
        async with spans_of(runtime) as spans:
            await serve_runtime(runtime, spans=spans, sockets=sockets, task_status=task_status)


async def serve_runtime(
    runtime: Runtime,
    *,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    spans: Spans | None = None,
    sockets: Sockets = (),
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a runtime that is already open; it is drained but not closed at the end.

    `sockets` that listen already are closed at the end, too. Raises `SettingError` for a
    certificate, key or file of keys that cannot be used.
    """
    settings = runtime.settings
    app = create_app(runtime)
    app.edge.spans = spans
    connections = Connections(app, settings, keep_alive_seconds)
    listeners = [
        BoundedListener(listener, settings.write_stall_s)
        for listener in await _listeners(settings, sockets)
    ]
    scheme = "http" if connections.tls is None else "https"
    server = Server(tuple(_address(listener, scheme) for listener in listeners))
    accept = partial(trio.serve_listeners, connections.handle, listeners)
    try:
        async with trio.open_nursery() as handlers:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(partial(accept, handler_nursery=handlers))
                task_status.started(server)
                await server.wait_stopping()
                await server.drain(runtime, settings.shutdown_timeout_s)
                accepting.cancel_scope.cancel("drained")
            await connections.close(FAREWELL_SECONDS)
            handlers.cancel_scope.cancel("farewell over")
    finally:
        connections.give_up()
        server.ended.set()


async def _listeners(settings: Settings, sockets: Sockets) -> Sequence[trio.SocketListener]:
    if not sockets:
        return await trio.open_tcp_listeners(settings.port, host=settings.host, backlog=BACKLOG)
    await trio.lowlevel.checkpoint()
    return [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]


class Connections:
    """The open connections of one server."""

    def __init__(self, app: App, settings: Settings, keep_alive_seconds: float) -> None:
        self._edge = app.edge
        self._app = ASGIWrapper(app)
        self._context = WorkerContext(None)
        self._header_seconds = settings.header_timeout_s
        self._config = _hypercorn(keep_alive_seconds, settings.header_timeout_s)
        self.tls = tls_context(settings)
        self._turns = trio.Semaphore(CLOSED_AT_ONCE)
        self._open: set[BoundedStream] = set()
        self._emptied = trio.Event()

    async def handle(self, stream: BoundedStream) -> None:
        """Serve a connection to its end. Whatever goes wrong with it stays with it."""
        self._open.add(stream)
        try:
            await Peer(
                self._app,
                self._config,
                self._context,
                stream,
                None if self.tls is None else secured(stream, self.tls),
                header_seconds=self._header_seconds,
                refuse=self._refuse,
                turns=self._turns,
            )
            # Under TLS its reader ends when TLS does, which is before the peer has.
            await stream.linger()
        except* Exception:
            logger.exception("a connection failed")
        finally:
            stream.close_now()
            self._open.discard(stream)
            if not self._open:
                self._emptied.set()

    def _refuse(self, info: ErrorInfo) -> Refusal:
        """What never becomes an exchange is counted and logged here."""
        refusal = Refusal(info, fresh_id(self._edge.draw_token()))
        self._edge.metrics.count_refusal(refusal)
        log_refusal(refusal)
        return refusal

    async def close(self, seconds: float) -> None:
        """Idle connections close at once; the others may finish the answer they are writing."""
        await self._context.terminated.set()
        with trio.move_on_after(seconds):
            while self._open:
                self._emptied = trio.Event()
                await self._emptied.wait()
        self.give_up()

    def give_up(self) -> None:
        """End every send that waits for a reader."""
        for stream in self._open:
            stream.give_up()

    def __repr__(self) -> str:
        return f"<Connections {len(self._open)} open>"


async def serve_until_signal(
    settings: Settings,
    provision: Provision,
    *,
    sockets: Sockets = (),
    announce: Announce = _to_nobody,
) -> None:
    """Serve until SIGTERM or SIGINT: the first one drains, the second one ends at once.

    `announce` is given the addresses and is open while they are served.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            server: Server | None = None

            async def obey() -> None:
                async for number in signals:
                    logger.info("%s received", signal.Signals(number).name)
                    if server is None:
                        nursery.cancel_scope.cancel("signal before the start")
                    elif server.stopping:
                        server.stop_now()
                    else:
                        server.stop()

            async def run(*, task_status: trio.TaskStatus[Server]) -> None:  # noqa: ASYNC128
                await serve(settings, provision, sockets=sockets, task_status=task_status)
                nursery.cancel_scope.cancel("stopped")

            nursery.start_soon(obey)
            server = await nursery.start(run)
            with announce(server.addresses):
                logger.info("listening on %s", ", ".join(server.addresses))
                await server.ended.wait()


def _hypercorn(keep_alive_seconds: float, handshake_seconds: float) -> Config:
    config = Config()
    config.ssl_handshake_timeout = handshake_seconds
    config.keep_alive_timeout = keep_alive_seconds
    config.include_server_header = False
    config.errorlog = logging.getLogger("hypercorn.error")
    config.h11_max_incomplete_size = config.h2_max_header_list_size = MOST_HEAD_BYTES
    return config


def _address(listener: BoundedListener, scheme: str) -> str:
    host, port, *_ = listener.socket.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
