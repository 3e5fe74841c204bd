"""The same over HTTP/2, frame by frame: what no client of ours would send."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import hpack
import pytest
import trio

from headrace.runtime.testing.site import CHAT, Site, http, open_site

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END, ACK_OR_END, HEADERS_END = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BOUND_SECONDS = 60.0

Frame = tuple[int, int, int, bytes]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + payload


START = PREFACE + frame(SETTINGS, 0, 0)


def ask(
    stream: int,
    path: bytes = b"/health",
    method: bytes = b"GET",
    *,
    end: bool = True,
    more: Sequence[tuple[bytes, bytes]] = (),
    encoder: hpack.Encoder | None = None,
) -> bytes:
    fields = [
        (b":method", method),
        (b":path", path),
        (b":scheme", b"http"),
        (b":authority", b"localhost"),
        *more,
    ]
    block = (encoder or hpack.Encoder()).encode(fields)
    return frame(HEADERS, HEADERS_END | (END if end else 0), stream, block)


def frames(data: bytes) -> Iterator[Frame]:
    while len(data) >= 9:
        size = int.from_bytes(data[:3], "big")
        yield data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]
        data = data[9 + size :]


def status(found: Sequence[Frame], stream: int) -> str | None:
    """The status of a stream's answer, None where there is none."""
    # One table of headers belongs to the whole connection.
    decoder = hpack.Decoder()
    heads = [(number, decoder.decode(data)) for kind, _, number, data in found if kind == HEADERS]
    told = (str(value) for number, head in heads if number == stream for name, value in head)
    return next(told, None)


async def said(site: Site, data: bytes, *, until: int) -> list[Frame]:
    """The frames that come until one of the kind `until`, which ends the wait, or the end."""
    with trio.fail_after(BOUND_SECONDS):
        async with site.dial() as caller:
            await caller.send(data)
            while not any(kind == until for kind, *_ in frames(bytes(caller.received))):
                got = await caller.stream.receive_some()
                if not got:
                    break
                caller.received += got
            return list(frames(bytes(caller.received)))


REFUSED = {
    "a path that is no ASCII": ask(1, b"/caf\xc3\xa9"),
    "a method that is no ASCII": ask(1, method=b"G\xc3T"),
    "a URL for a path": ask(1, b"http://evil.example/health"),
    "a tunnel": frame(
        HEADERS,
        HEADERS_END | END,
        1,
        hpack.Encoder().encode([(b":method", b"CONNECT"), (b":authority", b"localhost:80")]),
    ),
    "a websocket": ask(1, method=b"CONNECT", end=False, more=[(b":protocol", b"websocket")]),
}
BROKEN = {
    "no path": frame(HEADERS, HEADERS_END | END, 1, hpack.Encoder().encode([(b":method", b"GET")])),
    "another host beside it": ask(1, more=[(b"host", b"evil.example")]),
    "a transfer encoding": ask(1, more=[(b"transfer-encoding", b"chunked")]),
    "capitals": ask(1, more=[(b"X-Y", b"z")]),
    "data before a head": frame(DATA, END, 5, b"abc"),
    "a head in five thousand pieces": frame(HEADERS, END, 1, b"\x82")
    + frame(CONTINUATION, 0, 1) * 5000,
    "more padding than there is": frame(DATA, 8, 1, b"\xff"),
    "a stream that depends on itself": frame(PRIORITY, 0, 3, struct.pack(">IB", 3, 1)),
    "a window of nothing": frame(WINDOW, 0, 0, b"\0\0\0\0"),
    "a push by a client": frame(PUSH, HEADERS_END, 1, b"\0\0\0\2"),
    "a table of headers that lies": frame(HEADERS, HEADERS_END | END, 1, b"\xff\xff\xff\xff\x0f"),
}


async def test_a_stream_that_is_refused_leaves_the_others_alone() -> None:
    async with open_site() as site:
        for name, data in REFUSED.items():
            found = await said(site, START + data + ask(3), until=DATA)
            assert any((kind, number) == (RST, 1) for kind, _, number, _ in found), name
            assert status(found, 3) == "200", name
        await site.idle()


async def test_a_connection_that_breaks_the_rules_ends() -> None:
    async with open_site() as site:
        for name, data in BROKEN.items():
            found = await said(site, START + data, until=GOAWAY)
            assert any(kind == GOAWAY for kind, *_ in found), name
            assert (await site.call(http("GET", "/health"))).status == 200
        await site.idle()


async def test_too_many_headers_are_told_so() -> None:
    async with open_site() as site:
        many = [(b"a%d" % number, b"b") for number in range(100)]
        found = await said(site, START + ask(1, more=many), until=DATA)
        assert status(found, 1) == "431"
        await site.idle()


async def test_a_body_that_comes_after_its_answer_does_not_end_the_connection() -> None:
    async with open_site() as site, site.dial() as caller:
        await caller.send(START + ask(1, b"/nothing", b"POST", end=False))
        with trio.fail_after(BOUND_SECONDS):
            while status(list(frames(bytes(caller.received))), 1) != "404":
                caller.received += await caller.stream.receive_some()
            # More than the window of the connection: it is given back.
            for _ in range(10):
                await caller.send(frame(DATA, 0, 1, bytes(10_000)))
            await caller.send(ask(3))
            while status(list(frames(bytes(caller.received))), 3) != "200":
                caller.received += await caller.stream.receive_some()


async def test_whoever_asks_and_resets_without_end_is_let_go() -> None:
    encoder = hpack.Encoder()
    body = b'{"messages":[{"role":"user","content":"Hi"}]}'
    kind = [(b"content-type", b"application/json")]

    def once(stream: int) -> bytes:
        head = ask(stream, CHAT.encode(), b"POST", end=False, more=kind, encoder=encoder)
        return head + frame(DATA, END, stream, body) + frame(RST, 0, stream, b"\0\0\0\x08")

    async with open_site() as site:
        attack = START + b"".join(once(2 * number + 1) for number in range(300))
        found = await said(site, attack, until=GOAWAY)
        (code,) = {payload[7] for kind, _, _, payload in found if kind == GOAWAY}
        assert code == 0x0B  # ENHANCE_YOUR_CALM
        assert (await site.call(http("GET", "/health"))).status == 200
        await site.idle()
        assert site.scene.engine.rows == ()


@pytest.mark.parametrize("flood", [frame(PING, 0, 0, bytes(8)), frame(SETTINGS, 0, 0)])
async def test_floods_of_frames_keep_nobody_waiting(flood: bytes) -> None:
    async with open_site() as site:
        async with site.dial() as caller, trio.open_nursery() as nursery:
            nursery.start_soon(caller.send, START + flood * 5000)
            with trio.fail_after(BOUND_SECONDS):
                assert (await site.call(http("GET", "/health"))).status == 200
            nursery.cancel_scope.cancel()
        await site.idle()
