"""The same promises over HTTP/2, which hypercorn speaks to clients that know it beforehand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import h2.config
import h2.connection
import h2.events
import trio

from headrace.runtime.testing import Script, ScriptedModel, ScriptedTokenizer
from headrace.runtime.testing.site import CHAT, Site, open_site

Event = h2.events.Event


@attrs.define
class Client:
    """A connection with one stream on it."""

    stream: trio.SocketStream
    connection: h2.connection.H2Connection
    id: int = 0
    body: bytes = b""
    ended: bool = False

    async def flush(self) -> None:
        await self.stream.send_all(self.connection.data_to_send())

    async def ask(self, *, max_tokens: int | None = None) -> None:
        fields = {} if max_tokens is None else {"max_tokens": max_tokens}
        content = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
        self.id = self.connection.get_next_available_stream_id()
        head = {":method": "POST", ":path": CHAT, ":scheme": "http", ":authority": "localhost"}
        headers = [*head.items(), ("content-type", "application/json")]
        self.connection.send_headers(self.id, headers)
        self.connection.send_data(self.id, json.dumps(content).encode(), end_stream=True)
        await self.flush()

    async def read(self, until: Callable[[], bool]) -> None:
        while not until():
            for event in self.connection.receive_data(bytes(await self.stream.receive_some())):
                if isinstance(event, h2.events.DataReceived):
                    self.body += event.data
                    size = event.flow_controlled_length
                    self.connection.acknowledge_received_data(size, self.id)
                if isinstance(event, h2.events.StreamEnded):
                    self.ended = True
            await self.flush()


@asynccontextmanager
async def client_of(site: Site) -> AsyncIterator[Client]:
    async with await trio.open_tcp_stream("127.0.0.1", site.port) as stream:
        config = h2.config.H2Configuration(client_side=True)
        client = Client(stream, h2.connection.H2Connection(config))
        client.connection.initiate_connection()
        await client.flush()
        yield client


async def test_a_stream_comes_whole() -> None:
    async with open_site() as site:
        async with client_of(site) as client:
            await client.ask(max_tokens=5)
            await client.read(lambda: client.ended)
            assert client.body.endswith(b"data: [DONE]\n\n")
        await site.idle()


async def test_a_stream_that_is_reset_takes_its_request_with_it() -> None:
    async with open_site() as site:
        async with client_of(site) as client:
            await client.ask()
            await client.read(lambda: b'"content":"' in client.body)
            client.connection.reset_stream(client.id)
            await client.flush()
            await site.until(lambda: not site.scene.runtime.requests())
            assert site.scene.runtime.statistics().cancelled_total["disconnect"] == 1
            # The connection itself lives on.
            await client.ask(max_tokens=2)
            await client.read(lambda: client.ended)
        await site.idle()


async def test_a_reader_that_opens_no_window_is_let_go_after_its_text() -> None:
    # hypercorn takes text for such a stream without limit, so this shows only at its end.
    script = Script(tokens=(257,), end=False)
    model = ScriptedModel(
        load_seconds=0,
        tokenizer=ScriptedTokenizer(["word " * 4000]),
        script_of=lambda spec: script,
        context_window=100_000,
    )
    async with open_site(model, write_stall_s=0.5) as site:
        async with client_of(site) as client:
            await client.ask(max_tokens=20)
            await site.until(lambda: bool(site.scene.runtime.requests()))
            await site.until(lambda: not site.scene.runtime.requests())
        await site.idle()
