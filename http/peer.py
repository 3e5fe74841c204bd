"""One connection of hypercorn's, with a limit on the time that a request's head may take."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr

from headrace.http.protocols import Http1, Protocols, Refuse
from headrace.http.streams import BoundedStream
from headrace.http.tls import Secured
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.errors import Code, ErrorInfo

# What is read of a pipelined request before the one that is being answered has ended.
PIECES_AHEAD = 1
# For what a peer has sent before it left to be handled: parsed, and handed to the app.
HEARD_SECONDS = 1.0
# For the bytes of a refusal and the end of a connection that nobody uses.
CLOSE_SECONDS = 5.0
# Connections that begin to clear up between two looks at the sockets of all others.
CLOSED_AT_ONCE = 4


class Peer(TCPServer):
    """Serves one connection. Between requests it may rest for hypercorn's keep-alive time; once
    a head has begun it must be complete within `header_seconds`."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        socket_stream: BoundedStream,
        tls_stream: Secured | None,
        *,
        header_seconds: float,
        refuse: Refuse,
        turns: trio.Semaphore,
    ) -> None:
        """Whoever has done with its connection waits for one of `turns` before it clears up."""
        # It takes any stream; its annotation knows of TLS alone.
        stream = cast(Any, socket_stream if tls_stream is None else tls_stream)
        super().__init__(app, config, context, ConnectionState({}), stream)
        self._socket_stream = socket_stream
        self._tls_stream = tls_stream
        self._header_seconds = header_seconds
        self._refuse = refuse
        self._turns = turns
        # Pieces that have been received and not been handled.
        self._unheard = 0

    async def run(self) -> None:
        """As hypercorn does it, with protocols that answer what becomes no request."""
        try:
            if not await self._greeted():
                return
            socket = self._socket_stream.socket
            # A peer that has reset has no address any more: an OSError.
            client = parse_socket_addr(socket.family, socket.getpeername())
            server = parse_socket_addr(socket.family, socket.getsockname())
            async with TaskGroup() as task_group:
                self._task_group = task_group
                self.protocol = self._protocols(task_group, client, server)
                await self.protocol.initiate()
                await self.idle_task.restart(task_group, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass  # The peer is gone.
        finally:
            # To one who is gone there is nothing to say; whoever accepted it closes the socket.
            if not self._socket_stream.is_gone:
                with bounded_cleanup(CLOSE_SECONDS):
                    await self._close()

    async def _greeted(self) -> bool:
        """Whether a peer that has to speak TLS does."""
        if self._tls_stream is None:
            await trio.lowlevel.checkpoint()
            return True
        with trio.move_on_after(self.config.ssl_handshake_timeout):
            try:
                await self._tls_stream.do_handshake()
                return True
            except trio.BrokenResourceError:
                return False
        return False

    def _protocols(self, task_group: TaskGroup, *addresses: tuple[str, int] | None) -> Protocols:
        tls = self._tls_stream
        arguments = (
            self.app,
            self.config,
            self.context,
            task_group,
            self.state,
            tls is not None,
            *addresses,
            self.protocol_send,
        )
        alpn = None if tls is None else tls.selected_alpn_protocol()
        return Protocols(arguments, alpn, self._refuse)

    async def _read_data(self) -> None:
        """Read on while a request is being answered, so that the peer's end is always seen.

        hypercorn stops reading when a second request comes before the first is answered.
        """
        ahead, pieces = trio.open_memory_channel[bytes](PIECES_AHEAD)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._handle, pieces)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while data := await self.stream.receive_some(MAX_RECV):
                    self._unheard += 1
                    await ahead.send(bytes(data))
            if self._unheard:
                await self._let_be_heard()
            # Its requests are told at once; what is left is not urgent.
            await self.protocol.handle(Closed())
            await self._turn()
            nursery.cancel_scope.cancel("peer gone")
        # Nobody is there any more, so there is nothing to wait for between requests.
        await self.idle_task.stop()

    async def _turn(self) -> None:
        """Pass in small groups: trio runs all that can run before it looks at any socket again, so
        that a crowd leaving at once would keep everybody else waiting until the last is gone."""
        async with self._turns:
            pass

    async def _handle(self, pieces: trio.MemoryReceiveChannel[bytes]) -> None:
        with pieces:
            async for piece in pieces:
                await self.protocol.handle(RawData(piece))
                self._unheard -= 1

    async def _let_be_heard(self) -> None:
        """A peer may leave right behind its request. The end is told after the request: told in the
        midst of it, it would reach nobody, and the request would wait for the rest of its body."""
        with trio.move_on_after(HEARD_SECONDS):
            while self._unheard and self._is_reading():  # noqa: ASYNC110 - hypercorn tells nobody
                await trio.sleep(HEARD_SECONDS / 1000)

    def _is_reading(self) -> bool:
        """Whether bytes that have come belong to the request that is being read; of one behind it
        nothing is read before the answer."""
        protocol = self.protocol.protocol
        if not isinstance(protocol, H11Protocol):
            return True
        return protocol.connection.their_state in (h11.IDLE, h11.SEND_BODY)

    async def _idle_timeout(self) -> None:
        """hypercorn runs this while no request is being answered, and cancels it at a head."""
        with trio.CancelScope() as wait:
            wait.deadline = trio.current_time() + self.config.keep_alive_timeout
            begun = self._head_begun()

            def begin() -> None:
                nonlocal begun
                begun = True
                wait.deadline = trio.current_time() + self._header_seconds

            if begun:
                begin()
            else:
                self._socket_stream.on_received = begin
            await self.context.terminated.wait()
        await self._turn()
        # Closing tells hypercorn to stop this very task, so it must finish first.
        with bounded_cleanup(CLOSE_SECONDS):
            if begun and wait.cancelled_caught:
                await self._refuse_head()
            await self._initiate_server_close()

    def _head_begun(self) -> bool:
        """Whether bytes of a next request have already come with the last one."""
        protocol = self.protocol.protocol
        return isinstance(protocol, H11Protocol) and bool(protocol.connection.trailing_data[0])

    async def _refuse_head(self) -> None:
        protocol = self.protocol.protocol
        if isinstance(protocol, Http1):
            text = f"The request's head did not arrive within {self._header_seconds:g} seconds."
            await protocol.answer(ErrorInfo(Code.REQUEST_TIMEOUT, text))
