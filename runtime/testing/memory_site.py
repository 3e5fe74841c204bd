"""The real app behind hypercorn's real protocol code, over connections in memory.

There is no socket, so time may be virtual: a client can hang up in an exact step of the engine, and
every schedule of the whole server can be explored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import trio
import trio.testing

from headrace.http.app import create_app
from headrace.http.serve import KEEP_ALIVE_SECONDS, Connections
from headrace.http.streams import BoundedStream
from headrace.runtime.settings import Settings
from headrace.runtime.testing.leaks import Baseline
from headrace.runtime.testing.loader import ScriptedModel
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.site import Caller, Reply

_Pair = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]


class MemoryCaller(Caller):
    """The client's end of a connection."""

    def hang_up(self) -> None:
        """Leave at once. Sync, so that it can be a hook: `model.at_step(5, caller.hang_up)`."""
        ours = cast(_Pair, self.stream)
        ours.send_stream.close()
        ours.receive_stream.close()

    def reset(self) -> None:
        self.hang_up()


@attrs.define
class MemorySite:
    """A server that is reached through memory alone. `baseline` was taken with nobody connected."""

    scene: Scene
    baseline: Baseline
    _connections: Connections
    _nursery: trio.Nursery

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[MemoryCaller]:
        """A connection that is closed on the way out, if it still is open."""
        ours, theirs = trio.testing.memory_stream_pair()
        stall_seconds = self.scene.runtime.settings.write_stall_s
        stream = BoundedStream(cast(trio.SocketStream, _Served(theirs)), stall_seconds)
        self._nursery.start_soon(self._connections.handle, stream)
        caller = MemoryCaller(cast(trio.SocketStream, ours))
        try:
            yield caller
        finally:
            caller.hang_up()

    async def call(self, data: bytes) -> Reply:
        """Send a request on a connection of its own and read to the end of the connection."""
        async with self.dial() as caller:
            await caller.send(data)
            return Reply.of(await caller.read_to_end())

    async def idle(self) -> None:
        """Let everything that can happen at once happen, and see that nothing is left."""
        await trio.testing.wait_all_tasks_blocked()
        self.baseline.check()


@asynccontextmanager
async def open_memory_site(
    model: ScriptedModel | None = None, **settings: Any
) -> AsyncIterator[MemorySite]:
    """The real app over one scripted model, at rest."""
    async with open_scene(model, Settings(**settings)) as scene, trio.open_nursery() as nursery:
        runtime = scene.runtime
        connections = Connections(create_app(runtime), runtime.settings, KEEP_ALIVE_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        baseline = Baseline.of(runtime, scene.model.engines)
        yield MemorySite(scene, baseline, connections, nursery)
        connections.give_up()
        nursery.cancel_scope.cancel()


class _Address:
    """What hypercorn asks of a socket: where its peer is."""

    family = 2  # as for the internet protocol

    def __init__(self, stream: _Pair) -> None:
        self._stream = stream

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", 40000)

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 80)

    def close(self) -> None:
        self._stream.send_stream.close()
        self._stream.receive_stream.close()


class _Served:
    """The server's end, as `BoundedStream` wants a socket's stream."""

    def __init__(self, stream: _Pair) -> None:
        self.socket = _Address(stream)
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
