"""No client takes every place there is: `max_requests_per_client`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from headrace.http.clients import MOST_SECONDS, ClientPlaces
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing.site import CHAT, Caller, Site, http, open_site

ONE, TWO = {"x-api-key": "one"}, {"Authorization": "Bearer two"}


def asking(who: Mapping[str, str], **fields: object) -> bytes:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    return http("POST", CHAT, json.dumps(body).encode(), headers=who)


@asynccontextmanager
async def streaming(site: Site, who: Mapping[str, str]) -> AsyncIterator[Caller]:
    async with site.dial() as caller:
        await caller.send(asking(who, stream=True))
        await caller.read_until(b'"content":"')
        yield caller


async def test_one_too_many_is_told_when_to_come_again() -> None:
    async with open_site(api_keys=["one", "two"], max_requests_per_client=2) as site:
        async with streaming(site, ONE), streaming(site, ONE):
            # The same key in its other form is the same client.
            reply = await site.call(asking({"Authorization": "Bearer  one"}))
            assert (reply.status, reply.code) == (429, "client_limit")
            assert int(reply.headers["retry-after"]) >= 1
            assert int(reply.headers["retry-after-ms"]) >= 1000
            # Others are not touched by it, and it may still look and cancel.
            assert (await site.call(asking(TWO, max_tokens=1))).status == 200
            rows = await site.call(http("GET", "/v1/requests", headers=ONE))
            name = rows.json["data"][0]["id"]
            gone = await site.call(http("DELETE", f"/v1/requests/{name}", headers=ONE))
            assert gone.json["status"] == "cancelled"
        await site.idle()
        assert (await site.call(asking(ONE, max_tokens=1))).status == 200


async def test_without_keys_a_client_is_an_address() -> None:
    async with open_site(max_requests_per_client=1) as site:
        async with streaming(site, {}):
            assert (await site.call(asking({}))).code == "client_limit"
            assert (await site.call(http("GET", "/health"))).status == 200
        await site.idle()
        # A refused request gives its place back as well.
        for _ in range(3):
            assert (await site.call(asking({}, temperature=-1))).status == 400


async def test_the_anthropic_envelope_has_a_type_for_it() -> None:
    async with open_site(max_requests_per_client=1) as site, streaming(site, {}):
        body = {"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
        reply = await site.call(http("POST", "/v1/messages", json.dumps(body).encode()))
        assert reply.status == 429
        assert reply.json["error"]["type"] == "rate_limit_error"


async def test_the_wait_that_is_told_is_what_requests_take(autojump_clock: MockClock) -> None:
    places = ClientPlaces(2)
    for seconds in (4, 8):
        with places.place("a"):
            await trio.sleep(seconds)
    with places.place("a"), places.place("a"), pytest.raises(RequestError) as caught:
        places.place("a").__enter__()
    assert caught.value.code is Code.CLIENT_LIMIT
    assert caught.value.info.retry_after_seconds == 3
    with places.place("a"):
        await trio.sleep(10_000)
    with places.place("a"), places.place("a"), pytest.raises(RequestError) as caught:
        places.place("a").__enter__()
    assert caught.value.info.retry_after_seconds == MOST_SECONDS
    assert len(places) == 0


async def test_no_limit_is_none() -> None:
    places = ClientPlaces(0)
    with places.place("a"), places.place("a"), places.place("a"):
        assert len(places) == 3
