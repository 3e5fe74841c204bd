"""A scripted runtime behind a real server, and clients that speak to it byte by byte.

Sockets are real here, so time is too: give models short steps, and settings short limits.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio
import trio.testing

from headrace.http.serve import KEEP_ALIVE_SECONDS, Server, serve_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing.leaks import Baseline
from headrace.runtime.testing.loader import ScriptedModel
from headrace.runtime.testing.scene import Scene, open_scene

CHAT = "/v1/chat/completions"
LOOK_SECONDS = 0.005
# Says only that something never happens: it costs nothing where it does, on however busy a machine.
LONG_SECONDS = 60.0


@attrs.define(kw_only=True)
class Served:
    """A server that listens on a port of the loopback address.

    `baseline` was taken with the server up and nobody connected.
    """

    server: Server
    baseline: Baseline

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[Caller]:
        """A connection that is closed on the way out, if it still is open."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            yield Caller(stream)

    async def call(self, data: bytes) -> Reply:
        """Send a request on a connection of its own and read to the end of the connection."""
        async with self.dial() as caller:
            await caller.send(data)
            return Reply.of(await caller.read_to_end())

    async def until(self, holds: Callable[[], bool], *, within: float = LONG_SECONDS) -> None:
        """Wait for what the server does in its own time."""
        await trio.lowlevel.checkpoint()
        with trio.fail_after(within):
            while not holds():  # noqa: ASYNC110 - a server behind sockets sets no event here
                await trio.sleep(LOOK_SECONDS)

    async def idle(self, *, within: float = LONG_SECONDS) -> None:
        """Wait until nothing is left of any request or connection."""
        await trio.lowlevel.checkpoint()
        try:
            await self.until(lambda: not self.baseline.leaks(), within=within)
        except trio.TooSlowError:
            self.baseline.check()


@attrs.define(kw_only=True)
class Site(Served):
    """A server over one scripted model in this process."""

    scene: Scene


@asynccontextmanager
async def open_site(
    model: ScriptedModel | None = None,
    *,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    **settings: Any,
) -> AsyncIterator[Site]:
    """A server on a free port of the loopback address, with its model loaded."""
    model = model if model is not None else ScriptedModel(load_seconds=0)
    async with (
        open_scene(model, Settings(port=0, **settings)) as scene,
        trio.open_nursery() as nursery,
    ):
        serve = partial(serve_runtime, scene.runtime, keep_alive_seconds=keep_alive_seconds)
        server = await nursery.start(serve)
        await trio.testing.wait_all_tasks_blocked()
        baseline = Baseline.of(scene.runtime, scene.model.engines)
        yield Site(server=server, scene=scene, baseline=baseline)
        nursery.cancel_scope.cancel()


@attrs.define
class Caller:
    """One connection, seen from the client's end."""

    stream: trio.SocketStream
    received: bytearray = attrs.field(factory=bytearray)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def read_until(self, mark: bytes) -> bytes:
        """Everything up to and with `mark`, which is then no longer in `received`."""
        await trio.lowlevel.checkpoint()
        while mark not in self.received:
            data = await self.stream.receive_some()
            if not data:
                raise EOFError(f"the connection ended before {mark!r}: {bytes(self.received)!r}")
            self.received += data
        end = self.received.index(mark) + len(mark)
        taken = bytes(self.received[:end])
        del self.received[:end]
        return taken

    async def read_reply(self) -> Reply:
        """One answer with a Content-Length; the connection stays open."""
        head = Reply.of(await self.read_until(b"\r\n\r\n"))
        length = int(head.headers["content-length"])
        while len(self.received) < length:
            self.received += await self.stream.receive_some()
        body = bytes(self.received[:length])
        del self.received[:length]
        return attrs.evolve(head, body=body)

    async def read_to_end(self) -> bytes:
        """Everything until the server closes its side."""
        async for data in self.stream:
            self.received += data
        return bytes(self.received)

    def reset(self) -> None:
        """Drop the connection with a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.stream.socket.close()

    async def close(self) -> None:
        await self.stream.aclose()


@attrs.frozen
class Reply:
    """One answer; a chunked body is put together. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> Reply:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            body = _unchunked(body)
        return cls(int(first.split(" ")[1]), headers, body)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of an OpenAI-shaped error."""
        code: str | None = self.json["error"]["code"]
        return code

    @property
    def frames(self) -> list[str]:
        """The frames of an event stream, comments included."""
        text = self.body.decode()
        assert text.endswith("\n\n"), f"the stream is cut: {text[-80:]!r}"
        return text.removesuffix("\n\n").split("\n\n")

    @property
    def text(self) -> str:
        """The content of a chat stream, put together."""
        data = [frame.removeprefix("data: ") for frame in self.frames if frame[0] != ":"]
        chunks = [json.loads(item) for item in data if item != "[DONE]"]
        deltas = [c["delta"] for chunk in chunks for c in chunk.get("choices", ())]
        return "".join(delta.get("content") or "" for delta in deltas)


def _unchunked(data: bytes) -> bytes:
    """The body of a chunked message. Its last chunk must be there: without it, it was cut."""
    body = bytearray()
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return bytes(body)
        body += data[:length]
        data = data[length + 2 :]


def http(
    method: str,
    path: str,
    body: bytes = b"",
    *,
    headers: Mapping[str, str] | None = None,
    version: str = "1.1",
    close: bool = True,
) -> bytes:
    """The bytes of a request."""
    lines = {"Host": "localhost"}
    if close and version == "1.1":
        lines["Connection"] = "close"
    if body:
        lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/{version}\r\n{head}\r\n".encode() + body


def chat(text: str = "Hi", *, version: str = "1.1", close: bool = True, **fields: Any) -> bytes:
    """The bytes of a chat completion."""
    body = {"messages": [{"role": "user", "content": text}], **fields}
    return http("POST", CHAT, json.dumps(body).encode(), version=version, close=close)
