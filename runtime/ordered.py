"""A link whose frames are counted, so that one that is lost, doubled or overtaken is found out.

A socket pair loses nothing; what could is our own code at either end, and then a stream would go on
with a piece missing. It is better that the other end counts as dead.
"""

from __future__ import annotations

import struct

from headrace.runtime.frames import FrameGarbled
from headrace.runtime.link import Link

NUMBER = struct.Struct(">I")
ROUND = 1 << 32


class OrderedLink:
    """One end; the other must be one too."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sent = 0
        self._received = 0

    def send(self, payload: bytes) -> None:
        """As `Link.send`."""
        self._link.send(NUMBER.pack(self._sent) + payload)
        self._sent = (self._sent + 1) % ROUND

    async def receive(self) -> bytes | None:
        """As `Link.receive`. Raises `FrameGarbled` for any but the frame behind the last one."""
        frame = await self._link.receive()
        if frame is None:
            return None
        if frame[: NUMBER.size] != NUMBER.pack(self._received):
            raise FrameGarbled(f"frame {self._received} is missing, or another came in its place")
        self._received = (self._received + 1) % ROUND
        return frame[NUMBER.size :]

    async def flushed(self) -> None:
        """As `Link.flushed`."""
        await self._link.flushed()

    def __repr__(self) -> str:
        return f"<OrderedLink {self._sent} sent, {self._received} received | {self._link!r}>"
