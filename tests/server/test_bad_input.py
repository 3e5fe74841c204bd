"""Bad input gets the right 4xx in the right shape, and the server goes on without it."""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.testing.memory_site import MemorySite, open_memory_site
from headrace.runtime.testing.site import CHAT, Reply, Site, chat, http, open_site

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GOOD = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
INSIDE = [b"Traceback", b"Error(", b".py", b"msgspec", b"headrace.", b"object at 0x"]


def with_field(name: str, literal: str) -> bytes:
    """A good body with one more field, written out as it stands."""
    return json.dumps(GOOD)[:-1].encode() + f', "{name}": {literal}}}'.encode()


async def assert_refused(site: Site | MemorySite, reply: Reply, status: int, code: str) -> None:
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json["error"]) <= {"message", "type", "param", "code", "details"}
    assert not [word for word in INSIDE if word in reply.body]
    assert reply.headers["x-request-id"] == reply.headers["request-id"]
    # Nothing of it came as far as a row, and the next request is served.
    assert [call for call in site.scene.engine.calls if call.kind == "add"] == []
    assert (await site.call(http("GET", "/health"))).status == 200


@pytest.mark.parametrize("stream", [b"", b', "stream": true'], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"not json", "invalid_json"),
        (b'{"messages": [', "invalid_json"),
        (b"[]", "invalid_json"),
        (b'{"a": "\xff\xfe"}', "invalid_json"),
        (json.dumps(GOOD).encode("utf-16"), "invalid_json"),
        (b'{"a": "\\ud800"}', "invalid_json"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "invalid_json"),
        (with_field("temperature", "NaN"), "invalid_json"),
        (with_field("temperature", "Infinity"), "invalid_json"),
        (with_field("temperature", "1e999"), "invalid_json"),
        (with_field("temperature", '"x"'), "invalid_type"),
        (with_field("temperature", "true"), "invalid_type"),
        (with_field("temperature", "5"), "invalid_value"),
        (with_field("top_p", "5"), "invalid_value"),
        (with_field("logit_bias", '{"1": null}'), "invalid_type"),
        (with_field("logit_bias", '{"x": 1}'), "invalid_value"),
        (with_field("seed", "1" * 400), "invalid_value"),
        (with_field("max_tokens", "0"), "invalid_value"),
        (with_field("model", "{}"), "invalid_type"),
        (with_field("messages", '"Hi"'), "invalid_type"),
        (with_field("messages", "[]"), "invalid_value"),
        (with_field("messages", '[{"role":"wizard","content":"Hi"}]'), "invalid_value"),
        (b'{"model": "default"}', "missing_field"),
    ],
    ids=lambda value: repr(value[-24:]) if isinstance(value, bytes) else value,
)
async def test_bodies(body: bytes, code: str, stream: bytes) -> None:
    if stream and body.endswith(b"}"):
        body = body[:-1] + stream + b"}"
    async with open_site() as site:
        request = http("POST", CHAT, body, headers={"Content-Length": str(len(body))})
        await assert_refused(site, await site.call(request), 400, code)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "json",
    ],
)
async def test_content_types_that_are_no_json(content_type: str) -> None:
    async with open_site() as site:
        headers = {"Content-Type": content_type}
        reply = await site.call(http("POST", CHAT, json.dumps(GOOD).encode(), headers=headers))
        await assert_refused(site, reply, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON; charset=UTF-8", "application/vnd.api+json", ""],
)
async def test_content_types_that_are(content_type: str) -> None:
    async with open_site() as site:
        headers = {"Content-Type": content_type}
        reply = await site.call(http("POST", CHAT, json.dumps(GOOD).encode(), headers=headers))
        assert reply.status == 200


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("zstd", zstd.compress), ("identity", bytes)],
    ids=["gzip", "zstd", "identity"],
)
async def test_compressed_bodies_are_read(coding: str, pack: Any) -> None:
    async with open_site() as site:
        body = pack(json.dumps(GOOD).encode())
        reply = await site.call(http("POST", CHAT, body, headers={"Content-Encoding": coding}))
        assert reply.status == 200


@pytest.mark.parametrize(
    ("coding", "body", "status", "code"),
    [
        ("br", b"{}", 415, "unsupported_encoding"),
        ("gzip", b"{}", 400, "invalid_json"),
        ("zstd", zstd.compress(b"{}")[:-2], 400, "invalid_json"),
        ("gzip", gzip.compress(bytes(10_000_000)), 413, "body_too_large"),
        ("zstd", zstd.compress(bytes(10_000_000)), 413, "body_too_large"),
        ("zstd", zstd.compress(b"") * 17, 415, "unsupported_encoding"),
    ],
    ids=["unknown", "not gzip", "cut", "gzip bomb", "zstd bomb", "many frames"],
)
async def test_compressed_bodies_that_are_refused(
    coding: str, body: bytes, status: int, code: str
) -> None:
    async with open_site(max_body_bytes=1_000_000) as site:
        reply = await site.call(http("POST", CHAT, body, headers={"Content-Encoding": coding}))
        await assert_refused(site, reply, status, code)


class TestSlowBodies:
    async def test_a_body_that_stops_i6(self, virtual_clock: MockClock) -> None:
        async with open_memory_site(body_idle_s=2) as site, site.dial() as caller:
            request = chat()
            await caller.send(request[:-5])
            reply = Reply.of(await caller.read_to_end())
            await assert_refused(site, reply, 408, "request_timeout")

    async def test_a_body_that_trickles(self, virtual_clock: MockClock) -> None:
        async with open_memory_site(body_total_s=4, body_idle_s=3) as site, site.dial() as caller:
            request = chat()
            body_at = request.index(b"\r\n\r\n") + 4
            await caller.send(request[:body_at])
            for byte in request[body_at : body_at + 6]:
                await caller.send(bytes([byte]))
                await trio.sleep(1)
            reply = Reply.of(await caller.read_to_end())
            await assert_refused(site, reply, 408, "request_timeout")

    async def test_a_slow_body_that_is_within_its_limits_is_read(
        self, virtual_clock: MockClock
    ) -> None:
        async with open_memory_site(body_idle_s=3) as site, site.dial() as caller:
            request = chat(max_tokens=2)
            await caller.send(request[:-6])
            for byte in request[-6:]:
                await trio.sleep(2)
                await caller.send(bytes([byte]))
            assert Reply.of(await caller.read_to_end()).status == 200


async def test_a_chunked_body_is_read() -> None:
    async with open_site() as site:
        body = json.dumps(GOOD).encode()
        chunks = b"".join(b"1\r\n%b\r\n" % bytes([byte]) for byte in body) + b"0\r\n\r\n"
        headers = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
        reply = await site.call(http("POST", CHAT, headers=headers) + chunks)
        assert reply.status == 200
