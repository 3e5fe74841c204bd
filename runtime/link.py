"""A link between two processes: frames over one socket, and its end is the other's death.

Sending never waits. A frame goes to the system at once where the system takes it, which spares the
loop a turn for each step of an engine; what it does not take queues here up to a bound in bytes,
and an overflow breaks the link, since a peer that takes nothing for so long is as good as dead.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from headrace.runtime.frames import FrameReader, framed

READ_BYTES = 1 << 18
MAX_BACKLOG_BYTES = 256 << 20


class Link:
    """One end. `broken` says why it no longer sends; it still gives what has arrived."""

    def __init__(self, end: socket.socket, max_backlog_bytes: int = MAX_BACKLOG_BYTES) -> None:
        self._end = end
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
        self._max_backlog_bytes = max_backlog_bytes
        self._reader = FrameReader()
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._to_send = trio.Event()
        self._flushed = trio.Event()
        self.broken: str | None = None

    def send(self, payload: bytes) -> None:
        """Send or queue one frame. On a broken link it is dropped: the other end is gone.

        Raises `FrameTooLong`, with the link unharmed.
        """
        frame = framed(payload)
        if self.broken is None and not self._backlog_bytes:
            frame = self._send_now(frame)
        if self.broken is not None or not frame:
            return
        if self._backlog_bytes + len(frame) > self._max_backlog_bytes:
            self._break("its peer takes nothing")
            # Whoever waits to hear from the peer learns that it is given up.
            self.close()
            return
        self._backlog_bytes += len(frame)
        self._backlog.append(frame)
        self._to_send.set()

    def _send_now(self, frame: bytes) -> bytes:
        """Nothing waits before it: hand over what the system takes, and answer the rest."""
        try:
            return frame[self._end.send(frame) :]
        except BlockingIOError:
            return frame
        except OSError:
            self._break("its peer is gone")
            return b""

    async def receive(self) -> bytes | None:
        """The next frame's payload, or None once the other end has closed.

        Raises `FrameTooLong` for what is no frame. A stream that ends inside a frame just ends.
        Cut short by cancellation it loses nothing.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        waited = False
        while (payload := self._reader.next_frame()) is None:
            waited = True
            try:
                data = await self._stream.receive_some(READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not data:
                return None
            self._reader.feed(data)
        if not waited:  # others have their turn between two frames that came together
            await trio.lowlevel.cancel_shielded_checkpoint()
        return payload

    async def flushed(self) -> None:
        """Until everything sent so far has been handed to the system, or the link has broken."""
        while self._backlog_bytes and self.broken is None:
            self._flushed = trio.Event()
            await self._flushed.wait()
        await trio.lowlevel.checkpoint()

    async def _write(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send = trio.Event()
            frames = b"".join(self._backlog)
            self._backlog.clear()
            try:
                await self._stream.send_all(frames)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                # Still open for reading: what the peer said before it went is to be heard.
                self._break("its peer is gone")
                return
            self._backlog_bytes -= len(frames)
            self._flushed.set()

    def _break(self, reason: str) -> None:
        # The first reason is the cause; closing then wakes a writer that would give another.
        self.broken = self.broken or reason
        self._backlog.clear()
        self._backlog_bytes = 0
        self._flushed.set()

    def close(self) -> None:
        """End the link for both sides, without what has not been sent. What is sent from now on
        is dropped."""
        self._break("closed")
        self._stream.socket.close()

    def __repr__(self) -> str:
        return f"<Link {self.broken or 'open'} | {self._backlog_bytes} bytes to send>"


@asynccontextmanager
async def open_link(link: Link) -> AsyncIterator[Link]:
    """A link that sends; closed on the way out, without what has not been sent by then."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link._write)
        try:
            yield link
        finally:
            link.close()
            nursery.cancel_scope.cancel()
