"""Sockets that never make the server wait for ever: bounded sends, and an orderly close.

hypercorn shields every send from cancellation and gives it no limit, so a client that has stopped
reading would park its task, and with it the shutdown, until the client goes away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress

import trio

PIECE_BYTES = 16 * 1024
# What a client gets to finish its upload and read the answer after we are done with it.
LINGER_SECONDS = 2.0

PEER_GONE = "the peer is gone, or has stopped reading"


class BoundedStream(trio.abc.HalfCloseableStream):
    """A socket whose peer must take some bytes within `stall_seconds` while we send.

    Composition, as trio's stream classes are final. Used by hypercorn like a `SocketStream`: one
    task reads until the end, others send and close. Whoever accepted it calls `close_now` last.
    """

    def __init__(self, inner: trio.SocketStream, stall_seconds: float) -> None:
        self.socket = inner.socket
        # Whoever closes us has said so to the peer already, as TLS does.
        self.is_under_tls = False
        # Called at the next received bytes, once.
        self.on_received: Callable[[], None] | None = None
        self._inner = inner
        self._stall_seconds = stall_seconds
        self._sending: trio.CancelScope | None = None
        self._reading: trio.CancelScope | None = None
        # The peer has left or was given up.
        self._gone = False
        self._eof_sent = False
        self._lingering = False
        self._closed = False

    # ---- sending ---------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Raises `BrokenResourceError` when the peer takes nothing for `stall_seconds`."""
        if self._gone:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError(PEER_GONE)
        with trio.CancelScope() as scope:
            self._sending = scope
            try:
                for piece in _pieces(data):
                    scope.deadline = trio.current_time() + self._stall_seconds
                    await self._inner.send_all(piece)
                return
            finally:
                self._sending = None
        # Part of a piece may be out: nothing sent from now on would make sense.
        self.give_up()
        raise trio.BrokenResourceError(PEER_GONE)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        self._eof_sent = True
        await self._inner.send_eof()

    def give_up(self) -> None:
        """End a send and a read that wait, and refuse all further ones: the peer is given up."""
        self._gone = True
        for waiting in (self._sending, self._reading):
            if waiting is not None:
                waiting.cancel("peer given up")

    # ---- receiving -------------------------------------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._gone:
            await trio.lowlevel.checkpoint()
            raise trio.ClosedResourceError(PEER_GONE)
        with trio.CancelScope(deadline=self._linger_until()) as scope:
            self._reading = scope
            try:
                return await self._receive(max_bytes)
            finally:
                self._reading = None
        self.give_up()
        raise trio.ClosedResourceError(PEER_GONE)

    async def _receive(self, max_bytes: int | None) -> bytes | bytearray:
        while True:
            try:
                data = await self._inner.receive_some(max_bytes)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.give_up()
                raise
            if not data:
                # A half-closed connection is a disconnect: nobody waits for what we send.
                self.give_up()
                return data
            if not self._lingering:
                self._tell_received()
                return data

    def _tell_received(self) -> None:
        told, self.on_received = self.on_received, None
        if told is not None:
            told()

    # ---- closing ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close, or leave it to the reading task to see the peer's end first.

        Closing a socket that holds unread bytes resets the connection, and the reset may overtake
        the answer: a client still sending a body that was refused would never learn why.
        """
        if self._closed:
            return
        if self.is_under_tls and not self._gone:
            with suppress(trio.BrokenResourceError, trio.BusyResourceError):
                await self.send_eof()
        if self._eof_sent and not self._gone:
            self._lingering = True
            if self._reading is not None:
                self._reading.deadline = self._linger_until()
            await trio.lowlevel.checkpoint()
        else:
            await self._inner.aclose()

    @property
    def is_gone(self) -> bool:
        """Whether nothing reaches the peer any more."""
        return self._gone

    async def linger(self) -> None:
        """Wait for the peer's end, for the time that closing gives it, if nobody else reads."""
        if self._lingering and not self._gone:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.receive_some()

    def close_now(self) -> None:
        self.give_up()
        self._closed = True
        self.socket.close()

    def _linger_until(self) -> float:
        return trio.current_time() + LINGER_SECONDS if self._lingering else math.inf

    def __repr__(self) -> str:
        return f"<BoundedStream {self.socket!r}{' gone' if self._gone else ''}>"


class BoundedListener(trio.abc.Listener[BoundedStream]):
    """Accepts connections as bounded streams."""

    def __init__(self, inner: trio.SocketListener, stall_seconds: float) -> None:
        self.socket = inner.socket
        self._inner = inner
        self._stall_seconds = stall_seconds

    async def accept(self) -> BoundedStream:
        return BoundedStream(await self._inner.accept(), self._stall_seconds)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _pieces(data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
    """At least one piece, as sending nothing must be an error on a closed stream too."""
    view = memoryview(data)
    for start in range(0, max(len(view), 1), PIECE_BYTES):
        yield view[start : start + PIECE_BYTES]
