"""What only attackers and broken programs send: each gets its answer, or the connection's end, and
whoever asks meanwhile is answered as ever."""

from __future__ import annotations

import itertools
import re
import socket
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.testing.memory_site import open_memory_site
from headrace.runtime.testing.site import CHAT, Caller, Reply, Served, chat, http, open_site

HEALTH = http("GET", "/health")
# Past it an answer never comes.
BOUND_SECONDS = 60.0


def raw(method: str, target: str, *fields: str, version: str = "1.1", body: bytes = b"") -> bytes:
    head = "".join(f"{field}\r\n" for field in fields)
    return f"{method} {target} HTTP/{version}\r\n{head}\r\n".encode("latin-1") + body


def get(target: str, *fields: str, version: str = "1.1") -> bytes:
    return raw("GET", target, "Host: localhost", "Connection: close", *fields, version=version)


def post(*fields: str, body: bytes = b"", version: str = "1.1") -> bytes:
    return raw("POST", CHAT, "Host: localhost", *fields, version=version, body=body)


CHUNKED = "Transfer-Encoding: chunked"
# A second request, which must never be answered: it is the body of the first for one of two
# readers, and a request of its own for the other.
HIDDEN = get("/v1/models")

# what is sent, the status, the code
FRAMING: dict[str, tuple[bytes, int, str]] = {
    "both lengths": (
        post("Content-Length: 5", CHUNKED, body=b"0\r\n\r\n" + HIDDEN),
        400,
        "invalid_http",
    ),
    "both, the other way round": (
        post(CHUNKED, "Content-Length: 5", body=b"0\r\n\r\n" + HIDDEN),
        400,
        "invalid_http",
    ),
    "two lengths": (
        post("Content-Length: 2", "Content-Length: 3", body=b"{}" + HIDDEN),
        400,
        "invalid_http",
    ),
    "a list of lengths": (post("Content-Length: 2, 3", body=b"{}" + HIDDEN), 400, "invalid_http"),
    "a negative length": (post("Content-Length: -2", body=HIDDEN), 400, "invalid_http"),
    "a length with a sign": (post("Content-Length: +2", body=b"{}" + HIDDEN), 400, "invalid_http"),
    "a length in hexadecimal": (post("Content-Length: 0x2", body=b"{}"), 400, "invalid_http"),
    "a length of thirty digits": (post(f"Content-Length: {'9' * 30}"), 400, "invalid_http"),
    "a coding that nobody knows": (
        post("Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + HIDDEN),
        501,
        "not_implemented",
    ),
    "chunked and another": (
        post("Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n" + HIDDEN),
        501,
        "not_implemented",
    ),
    "two codings": (
        post(CHUNKED, "Transfer-Encoding: identity", body=b"0\r\n\r\n" + HIDDEN),
        501,
        "not_implemented",
    ),
    "a space before the colon": (
        post("Transfer-Encoding : chunked", body=b"0\r\n\r\n" + HIDDEN),
        400,
        "invalid_http",
    ),
    "chunks under HTTP/1.0": (
        post(CHUNKED, version="1.0", body=b"0\r\n\r\n" + HIDDEN),
        400,
        "invalid_http",
    ),
    "a chunk without a size": (post(CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"), 400, "invalid_http"),
    "a chunk of negative size": (
        post(CHUNKED, body=b"-2\r\n{}\r\n0\r\n\r\n"),
        400,
        "invalid_http",
    ),
    "a chunk that does not end": (post(CHUNKED, body=b"2\r\n{}xx0\r\n\r\n"), 400, "invalid_http"),
    "a chunk's extension of a megabyte": (
        post(CHUNKED, body=b"2;a=" + b"x" * 1_000_000 + b"\r\n{}\r\n0\r\n\r\n"),
        431,
        "head_too_large",
    ),
}
HEADS: dict[str, tuple[bytes, int, str | None]] = {
    "a header of a megabyte": (get("/health", "X: " + "y" * 1_000_000), 431, "head_too_large"),
    "forty kilobytes of header": (get("/health", "X: " + "y" * 40_000), 431, "head_too_large"),
    "ten thousand headers": (get("/health", *["X: y"] * 10_000), 431, "head_too_large"),
    "a hundred and one headers": (get("/health", *["X: y"] * 101), 431, "head_too_large"),
    "as many as there may be": (get("/health", *["X: y"] * 98), 200, None),
    "a target of a megabyte": (get("/" + "a" * 1_000_000), 431, "head_too_large"),
    "no host": (raw("GET", "/health"), 400, "invalid_http"),
    "two hosts": (get("/health", "Host: evil.example"), 400, "invalid_http"),
    "a bare return in a header": (get("/health", "X: a\rb"), 400, "invalid_http"),
    "a zero byte in a header": (get("/health", "X: a\0b"), 400, "invalid_http"),
    "a name with a space": (get("/health", "X Y: a"), 400, "invalid_http"),
    "a header without a name": (get("/health", ": a"), 400, "invalid_http"),
    "a method that is none": (raw("G@T", "/health", "Host: localhost"), 400, "invalid_http"),
    "a version that is none": (raw("GET", "/health", version="x"), 400, "invalid_http"),
    "HTTP/0.9": (b"GET /health\r\n\r\n", 400, "invalid_http"),
    "TLS where there is none": (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        400,
        "invalid_http",
    ),
}
TARGETS: dict[str, tuple[bytes, int, str | None]] = {
    "the whole URL": (get("http://localhost/health"), 200, None),
    "the URL of the server alone": (get("http://localhost"), 200, None),
    "the URL of another host": (get("http://evil.example/health"), 403, "invalid_host"),
    "a user in the URL": (get("http://localhost@evil.example/health"), 403, "invalid_host"),
    "a URL that counts more than Host": (
        raw("GET", "http://localhost/health", "Host: evil.example", "Connection: close"),
        200,
        None,
    ),
    "a scheme that nobody knows": (get("gopher://localhost/health"), 400, "invalid_http"),
    "a tunnel": (
        raw("CONNECT", "localhost:80", "Host: localhost", "Connection: close"),
        400,
        "invalid_http",
    ),
    "half an escape": (get("/v1/models/%z"), 404, "model_not_found"),
    "nothing but signs of escape": (get("/%%%%%"), 404, "not_found"),
    "bytes that are no UTF-8": (get("/v1/models/%ff%fe"), 404, "model_not_found"),
    "a zero byte": (get("/v1/models/%00"), 404, "model_not_found"),
    "lines in the path": (get("/x%0d%0aX-Evil:%20yes"), 404, "not_found"),
    "the way to another folder": (get("/page/../../../etc/passwd"), 404, "not_found"),
    "the same, escaped": (get("/page/%2e%2e%2f%2e%2e%2fetc%2fpasswd"), 404, "not_found"),
    "a fragment": (get("/health#x"), 404, "not_found"),
    "letters that are no ASCII": (get("/caf\xe9"), 400, "invalid_http"),
    "a query that is no UTF-8": (get("/health?%ff=%zz&&&"), 200, None),
    "an upgrade to HTTP/2": (
        raw(
            "GET",
            "/health",
            "Host: localhost",
            "Connection: Upgrade, HTTP2-Settings, close",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQAAP__",
        ),
        200,
        None,
    ),
    "a websocket": (
        raw(
            "GET",
            "/health",
            "Host: localhost",
            "Connection: Upgrade, close",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ),
        200,
        None,
    ),
    "half a websocket": (
        raw(
            "GET", "/health", "Host: localhost", "Connection: Upgrade, close", "Upgrade: websocket"
        ),
        200,
        None,
    ),
}


async def everything_said(site: Served, data: bytes) -> bytes:
    """What the server says until it closes; a peer that is refused may not get to send it all."""
    async with site.dial() as caller:
        with suppress(trio.BrokenResourceError):
            await caller.send(data)
        return await caller.read_to_end()


async def is_well(site: Served) -> None:
    with trio.fail_after(BOUND_SECONDS):
        assert (await site.call(HEALTH)).status == 200


@pytest.mark.parametrize("table", [FRAMING, HEADS, TARGETS], ids=["framing", "heads", "targets"])
async def test_each_gets_one_answer_and_the_end(
    table: dict[str, tuple[bytes, int, str | None]],
) -> None:
    wrong = {}
    async with open_site() as site:
        for name, (data, status, code) in table.items():
            with trio.fail_after(BOUND_SECONDS):
                said = await everything_said(site, data)
            reply = Reply.of(said)
            told = reply.code if reply.status >= 400 else None
            answers = said.count(b"HTTP/1.1 ")
            if (reply.status, told, answers) != (status, code, 1):
                wrong[name] = (reply.status, told, answers)
            # Each answer can be found again in the log.
            assert re.fullmatch(r"req_[0-9a-f]{32}", reply.headers["x-request-id"])
            assert reply.headers["request-id"] == reply.headers["x-request-id"]
            await is_well(site)
        assert not wrong
        await site.idle()


async def test_what_is_refused_before_it_is_a_request_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "headrace.http.access")
    async with open_site() as site:
        reply = await site.call(HEADS["ten thousand headers"][0])
        text = (await site.call(http("GET", "/metrics"))).body.decode()
        assert (
            'headrace_errors_total{code="head_too_large",type="invalid_request_error"} 1.0' in text
        )
        (line,) = [record for record in caplog.records if "431" in record.getMessage()]
        assert line.__dict__["request_id"] == reply.headers["x-request-id"]


async def test_many_requests_at_once_on_one_connection_are_answered_in_order() -> None:
    async with open_site() as site:
        async with site.dial() as caller, trio.open_nursery() as nursery:
            ask = http("GET", "/health", close=False) + http("GET", "/nothing", close=False)
            nursery.start_soon(caller.send, ask * 50)
            with trio.fail_after(BOUND_SECONDS):
                statuses = [(await caller.read_reply()).status for _ in range(100)]
            assert statuses == [200, 404] * 50
        await site.idle()


async def test_a_body_a_byte_at_a_time_is_given_up_i6(virtual_clock: MockClock) -> None:
    async with open_memory_site(body_idle_s=3, body_total_s=8) as site:
        async with site.dial() as caller:
            await caller.send(post("Content-Length: 1000"))
            began = trio.current_time()
            while not caller.received:
                # Never idle for long, and never done.
                await caller.send(b" ")
                with trio.move_on_after(1):
                    caller.received += await caller.stream.receive_some()
            assert 7 < trio.current_time() - began < 9
            reply = Reply.of(await caller.read_to_end())
            assert (reply.status, reply.code) == (408, "request_timeout")
        await site.idle()


async def test_hundreds_that_say_nothing_more_keep_nobody_waiting() -> None:
    beginnings = itertools.cycle([b"", b"G", b"POST / HTTP/1.1\r\nX: "])
    async with open_site(header_timeout_s=2, keep_alive_seconds=2) as site:
        callers = []
        for beginning in itertools.islice(beginnings, 300):
            caller = Caller(await trio.open_tcp_stream("127.0.0.1", site.port))
            await caller.send(beginning)
            callers.append(caller)
        await is_well(site)
        with trio.fail_after(BOUND_SECONDS):
            assert (await site.call(chat(max_tokens=2))).status == 200
        # Whoever lets them wait is let go in the end.
        with trio.fail_after(BOUND_SECONDS):
            for caller in callers:
                await caller.read_to_end()
                await caller.close()
        await site.idle()


async def test_one_that_closes_at_once_a_hundred_times_leaves_nothing() -> None:
    async with open_site() as site:
        for number in range(100):
            with socket.create_connection(("127.0.0.1", site.port)) as client:
                client.sendall(chat(stream=True)[: 10 * number])
        await is_well(site)
        await site.idle()
