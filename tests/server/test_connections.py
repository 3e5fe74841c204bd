"""The life of a connection: reuse, end of file, half-sent heads, refused bodies."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.http import streams
from headrace.runtime.testing.memory_site import open_memory_site
from headrace.runtime.testing.site import Caller, Reply, chat, http, open_site

HEALTH = http("GET", "/health", close=False)


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with open_site() as site:
        async with site.dial() as caller:
            for _ in range(3):
                await caller.send(HEALTH)
                assert (await caller.read_reply()).status == 200
        await site.idle()


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with open_site() as site:
        async with site.dial() as caller:
            await caller.send(HEALTH + http("GET", "/nothing", close=False) + HEALTH)
            assert [(await caller.read_reply()).status for _ in range(3)] == [200, 404, 200]
        await site.idle()


@pytest.mark.parametrize("stream", [False, True])
async def test_connection_close_ends_with_the_answer(stream: bool) -> None:
    async with open_site() as site:
        with trio.fail_after(60):
            reply = await site.call(chat(max_tokens=3, stream=stream))
        assert reply.status == 200
        await site.idle()


@pytest.mark.parametrize("stream", [False, True])
async def test_http_1_0_ends_with_the_answer(stream: bool) -> None:
    async with open_site() as site:
        with trio.fail_after(60):
            reply = await site.call(chat(max_tokens=3, stream=stream, version="1.0"))
        assert reply.status == 200
        assert "transfer-encoding" not in reply.headers
        if stream:
            assert reply.frames[-1] == "data: [DONE]"
        await site.idle()


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with open_site(keep_alive_seconds=0.5) as site:
        async with site.dial() as caller:
            await caller.send(HEALTH)
            assert (await caller.read_reply()).status == 200
            with trio.fail_after(60):
                assert await caller.read_to_end() == b""
        await site.idle()


async def test_a_connection_on_which_nothing_comes_is_closed_too() -> None:
    async with open_site(keep_alive_seconds=0.1) as site:
        async with site.dial() as caller:
            with trio.fail_after(60):
                assert await caller.read_to_end() == b""
        await site.idle()


@pytest.mark.parametrize("before", [b"", HEALTH], ids=["first", "second"])
async def test_a_head_that_does_not_end_is_told_so(before: bytes, virtual_clock: MockClock) -> None:
    async with open_memory_site(header_timeout_s=2) as site:
        async with site.dial() as caller:
            if before:
                await caller.send(before)
                assert (await caller.read_reply()).status == 200
            await caller.send(b"GET /health HTTP/1.1\r\nHost: loc")
            # More bytes do not buy more time.
            await trio.sleep(1.5)
            await caller.send(b"al")
            sent_at = trio.current_time()
            reply = Reply.of(await caller.read_to_end())
            assert trio.current_time() - sent_at < 1
            assert (reply.status, reply.code) == (408, "request_timeout")
            assert reply.headers["connection"] == "close"
        await site.idle()


async def test_what_is_no_http_is_refused_and_closed() -> None:
    async with open_site() as site:
        reply = await site.call(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert reply.status == 400
        await site.idle()


async def test_head_answers_without_a_body() -> None:
    async with open_site() as site:
        got, head = [await site.call(http(method, "/v1/models")) for method in ("GET", "HEAD")]
        assert head.status == 200
        assert head.body == b""
        assert head.headers["content-length"] == str(len(got.body))


async def test_a_client_may_ask_before_it_sends_its_body() -> None:
    async with open_site() as site, site.dial() as caller:
        head, _, body = chat(max_tokens=2).partition(b"\r\n\r\n")
        await caller.send(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert b" 100 " in await caller.read_until(b"\r\n\r\n")
        await caller.send(body)
        assert (await caller.read_reply()).status == 200


async def test_a_websocket_is_not_opened() -> None:
    async with open_site() as site:
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        async with site.dial() as caller:
            await caller.send(http("GET", "/health", headers=headers))
            assert (await caller.read_reply()).status == 200
        await site.idle()


class TestRefusedBodies:
    """The client gets to read why, although it is still sending."""

    @pytest.fixture
    def time_to_finish(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two seconds are little for a hundred megabytes where others are at work."""
        monkeypatch.setattr(streams, "LINGER_SECONDS", 60.0)

    async def test_a_hundred_megabytes_are_refused_by_their_length(
        self, time_to_finish: None
    ) -> None:
        async with open_site() as site:
            length = 100_000_000
            head = http("POST", "/v1/chat/completions", headers={"Content-Length": str(length)})
            reply = await self.upload(site.port, head, [bytes(1_000_000)] * 100)
            assert (reply.status, reply.code) == (413, "body_too_large")
            await site.idle()

    async def test_a_chunked_body_is_refused_as_soon_as_the_count_passes(
        self, time_to_finish: None
    ) -> None:
        async with open_site(max_body_bytes=100_000) as site:
            headers = {"Transfer-Encoding": "chunked"}
            head = http("POST", "/v1/chat/completions", headers=headers)
            chunk = b"%x\r\n%b\r\n" % (50_000, bytes(50_000))
            reply = await self.upload(site.port, head, [chunk] * 200)
            assert (reply.status, reply.code) == (413, "body_too_large")
            await site.idle()

    async def upload(self, port: int, head: bytes, pieces: list[bytes]) -> Reply:
        """Send it all, whatever the server says meanwhile, and only then read."""
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            for piece in [head, *pieces]:
                await stream.send_all(piece)
            return Reply.of(b"".join([data async for data in stream]))

    async def test_a_client_that_never_stops_sending_is_let_go(self) -> None:
        async with open_site() as site:
            async with site.dial() as caller:
                head = http("POST", "/v1/chat/completions", headers={"Content-Length": "100000000"})
                await caller.send(head)
                assert b" 413 " in await caller.read_until(b"\r\n\r\n")
                with trio.fail_after(60), pytest.raises(trio.BrokenResourceError):
                    await self.send_for_ever(caller)
            await site.idle()

    async def send_for_ever(self, caller: Caller) -> None:
        while True:
            await caller.send(bytes(10_000))
            await trio.sleep(0.01)
