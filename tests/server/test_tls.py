"""The same server under TLS. `localhost.pem` is a key that was made for these tests, with a
certificate that it signed itself."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from headrace.runtime.testing.site import Caller, Reply, Site, chat, http, open_site

PEM = Path(__file__).with_name("localhost.pem")


@asynccontextmanager
async def secure_site(**settings: Any) -> AsyncIterator[Site]:
    async with open_site(tls_certificate=PEM, tls_key=PEM, **settings) as site:
        yield site


@asynccontextmanager
async def client_of(site: Site, protocols: Iterable[str] = ("http/1.1",)) -> AsyncIterator[Caller]:
    context = ssl.create_default_context(cafile=PEM)
    context.set_alpn_protocols(list(protocols))
    stream = await trio.open_ssl_over_tcp_stream(
        "127.0.0.1", site.port, ssl_context=context, https_compatible=True
    )
    async with stream:
        await stream.do_handshake()
        yield Caller(stream)  # type: ignore[arg-type]


async def test_a_stream_is_the_same_under_tls() -> None:
    async with secure_site() as site:
        assert site.server.addresses[0].startswith("https://127.0.0.1:")
        async with client_of(site) as caller:
            await caller.send(chat(max_tokens=3, stream=True))
            reply = Reply.of(await caller.read_to_end())
        assert (reply.status, len(reply.text)) == (200, 3)
        await site.idle()


async def test_a_client_that_leaves_has_its_row_removed() -> None:
    async with secure_site() as site:
        async with client_of(site) as caller:
            await caller.send(chat(stream=True))
            await caller.read_until(b'"content":"')
        await site.idle()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["h2", "http/1.1"], "h2"),
        (["http/1.1", "h2"], "h2"),
        (["http/1.1"], "http/1.1"),
        (["x"], None),
    ],
)
async def test_clients_choose_by_alpn(offered: list[str], chosen: str | None) -> None:
    async with secure_site() as site, client_of(site, offered) as caller:
        assert caller.stream.selected_alpn_protocol() == chosen  # type: ignore[attr-defined]


async def test_a_refused_upload_is_answered_and_not_reset() -> None:
    async with secure_site(max_body_bytes=1000) as site:
        async with client_of(site) as caller, trio.open_nursery() as nursery:
            body = json.dumps({"model": "x" * 3_000_000}).encode()
            nursery.start_soon(caller.send, http("POST", "/v1/chat/completions", body))
            head = await caller.read_until(b"\r\n\r\n")
        assert Reply.of(head).status == 413
        await site.idle()


async def test_who_speaks_no_tls_is_let_go() -> None:
    async with secure_site(header_timeout_s=0.5) as site:
        async with site.dial() as silent, site.dial() as plain:
            await plain.send(http("GET", "/health"))
            with trio.fail_after(60):
                await plain.read_to_end()
                await silent.read_to_end()
        await site.idle()


async def test_a_drain_ends_streams_properly() -> None:
    async with secure_site(shutdown_timeout_s=0.1) as site, client_of(site) as caller:
        await caller.send(chat(stream=True))
        await caller.read_until(b'"content":"')
        site.server.stop()
        with trio.fail_after(60):
            rest = await caller.read_to_end()
            await site.server.ended.wait()
        assert rest.count(b'"code":"closed"') == 1
        assert rest.endswith(b"\r\n0\r\n\r\n")
