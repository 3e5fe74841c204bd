"""Paths, methods, ids and origins, over the wire."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace.actors.generation import Generation
from headrace.actors.runtime import Runtime
from headrace.http.app import ROUTES
from headrace.runtime.contracts import InferenceRequest
from headrace.runtime.testing.site import CHAT, Reply, Site, chat, http, open_site

PAGE = "https://page.example"


class TestPaths:
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
    async def test_an_unknown_path_is_json_that_names_it_d12(self, method: str) -> None:
        async with open_site() as site:
            reply = await site.call(http(method, "/v1/nothing?x=1"))
            assert (reply.status, reply.code) == (404, "not_found")
            assert f"{method} /v1/nothing." in reply.json["error"]["message"]

    @pytest.mark.parametrize(
        ("path", "hint"),
        [
            ("/chat/completions", "Did you mean /v1/chat/completions?"),
            ("/models/m", "Did you mean /v1/models/m?"),
            ("/v1/v1/chat/completions", "The base URL must not end in /v1."),
        ],
    )
    async def test_a_path_that_is_nearly_right_gets_a_hint(self, path: str, hint: str) -> None:
        async with open_site() as site:
            reply = await site.call(http("POST", path))
            assert (reply.status, reply.code) == (404, "not_found")
            assert hint in reply.json["error"]["message"]

    @pytest.mark.parametrize("path", ["/v1/messages/x", "/v1/v1/messages"])
    async def test_a_family_of_routes_has_its_own_envelope_o5(self, path: str) -> None:
        async with open_site() as site:
            reply = await site.call(http("POST", path))
            assert reply.status == 404
            assert reply.json["type"] == "error"
            assert reply.json["error"]["type"] == "not_found_error"
            assert reply.json["request_id"] == reply.headers["request-id"]

    async def test_one_trailing_slash_is_ignored_without_a_redirect(self) -> None:
        async with open_site() as site:
            for path in ("/health/", "/v1/models/", "/v1/", "/v1/models/scripted/"):
                assert (await site.call(http("GET", path))).status == 200
            assert (await site.call(http("GET", "/health//"))).status == 404

    async def test_a_query_string_on_a_post_route_is_ignored(self) -> None:
        async with open_site() as site:
            request = chat(max_tokens=1).replace(b"completions ", b"completions?beta=true ")
            assert (await site.call(request)).status == 200

    @pytest.mark.parametrize(
        ("method", "path", "allow"),
        [
            ("GET", CHAT, "OPTIONS, POST"),
            ("HEAD", CHAT, "OPTIONS, POST"),
            ("POST", "/health", "GET, HEAD, OPTIONS"),
            ("DELETE", "/v1/models/scripted", "GET, HEAD, OPTIONS"),
            ("PUT", "/v1/requests/x", "DELETE, OPTIONS"),
        ],
    )
    async def test_a_wrong_method_learns_the_right_ones(
        self, method: str, path: str, allow: str
    ) -> None:
        async with open_site() as site:
            reply = await site.call(http(method, path))
            assert reply.status == 405
            assert reply.headers["allow"] == allow
            if method != "HEAD":
                assert reply.code == "method_not_allowed"

    async def test_options_without_an_origin_lists_the_methods(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with open_site(api_keys=["k"]) as site:
            reply = await site.call(http("OPTIONS", CHAT))
            assert reply.status == 204
            assert reply.headers["allow"] == "OPTIONS, POST"
            assert not {"content-type", "content-length"} & set(reply.headers)
            assert (await site.call(http("OPTIONS", "/nothing"))).status == 404
            await site.idle()
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []

    @pytest.mark.parametrize("host", ["a..b", "x" * 300, "\xff", "evil.example", "[::1"])
    async def test_a_strange_host_is_refused_and_breaks_nothing(self, host: str) -> None:
        async with open_site() as site:
            request = http("GET", "/health", headers={"Host": host}).decode().encode("latin-1")
            reply = await site.call(request)
            assert (reply.status, reply.code) == (403, "invalid_host")

    async def test_a_model_id_may_hold_slashes(self) -> None:
        async with open_site() as site:
            for path in ("/v1/models/owner/name", "/v1/models/owner%2Fname"):
                reply = await site.call(http("GET", path))
                assert (reply.status, reply.code) == (404, "model_not_found")
                assert "owner/name" in reply.json["error"]["message"]
                assert reply.json["error"]["details"] == {"known_models": ["scripted"]}

    async def test_what_is_served_is_listed(self) -> None:
        async with open_site() as site:
            reply = await site.call(http("GET", "/v1"))
            listed = [(row["method"], row["path"]) for row in reply.json["endpoints"]]
            assert len(listed) == len(ROUTES)
            assert ("POST", CHAT) in listed
            assert ("GET", "/v1/models/{model_id}") in listed


def ids(reply: Reply) -> set[str]:
    return {reply.headers["x-request-id"], reply.headers["request-id"]}


class TestIds:
    async def test_a_request_without_an_id_gets_one(self) -> None:
        async with open_site() as site:
            (made,) = ids(await site.call(http("GET", "/nothing")))
            assert re.fullmatch(r"req_[0-9a-f]{32}", made)

    async def test_an_id_that_is_in_use_gets_a_number(self) -> None:
        headers = {"X-Request-ID": "mine"}
        async with open_site() as site, site.dial() as first:
            await first.send(chat(stream=True).replace(b"Host:", b"X-Request-ID: mine\r\nHost:", 1))
            head = await first.read_until(b'"content":"')
            assert b"x-request-id: mine\r\n" in head
            assert ids(await site.call(http("GET", "/health", headers=headers))) == {"mine-2"}
            await first.close()
            await site.idle()
            assert ids(await site.call(http("GET", "/health", headers=headers))) == {"mine"}

    async def test_answers_have_ids_of_their_own(self) -> None:
        headers = {"X-Request-ID": "mine"}
        async with open_site() as site:
            request = chat(max_tokens=1).replace(b"Host:", b"X-Request-ID: mine\r\nHost:", 1)
            answers = [(await site.call(request)).json["id"] for _ in range(2)]
            assert len(set(answers)) == 2
            assert ids(await site.call(http("GET", "/", headers=headers))) == {"mine"}


@asynccontextmanager
async def listed_site() -> AsyncIterator[Site]:
    async with open_site(allowed_origins=[PAGE], api_keys=["key"]) as site:
        yield site


class TestOrigins:
    async def test_a_preflight_needs_no_key_and_gets_what_it_asks_for_q1_q2(self) -> None:
        async with listed_site() as site:
            headers = {
                "Origin": PAGE,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, x-api-key",
                "Access-Control-Request-Private-Network": "true",
            }
            reply = await site.call(http("OPTIONS", CHAT, headers=headers))
            assert reply.status == 204
            assert reply.headers["access-control-allow-origin"] == PAGE
            assert reply.headers["access-control-allow-headers"] == "authorization, x-api-key"
            assert reply.headers["access-control-allow-private-network"] == "true"
            assert reply.headers["x-request-id"]

    async def test_every_response_to_a_listed_origin_may_be_read(self) -> None:
        headers = {"Origin": PAGE, "x-api-key": "key"}
        async with listed_site() as site:
            stream = chat(stream=True, max_tokens=2)
            marked = stream.replace(b"Host:", f"Origin: {PAGE}\r\nx-api-key: key\r\nHost:".encode())
            requests = [
                marked,
                http("GET", "/nothing", headers=headers),
                http("PUT", "/health", headers=headers),
                http("POST", CHAT, b"{", headers=headers),
                http("GET", "/v1/models", headers={"Origin": PAGE}),
            ]
            replies = [await site.call(request) for request in requests]
            assert [reply.status for reply in replies] == [200, 404, 405, 400, 401]
            for reply in replies:
                assert reply.headers["access-control-allow-origin"] == PAGE
                assert reply.headers["vary"] == "Origin"
                assert "X-Request-ID" in reply.headers["access-control-expose-headers"]

    async def test_another_origin_is_refused_for_every_method(self) -> None:
        headers = {"Origin": "https://evil.example", "x-api-key": "key"}
        async with listed_site() as site:
            for method in ("GET", "POST", "OPTIONS", "DELETE"):
                reply = await site.call(http(method, "/health", headers=headers))
                assert (reply.status, reply.code) == (403, "cross_origin")
                assert "access-control-allow-origin" not in reply.headers

    async def test_a_missing_key_is_a_challenge(self) -> None:
        async with listed_site() as site:
            reply = await site.call(http("GET", "/v1/models"))
            assert (reply.status, reply.code) == (401, "missing_api_key")
            assert reply.headers["www-authenticate"] == 'Bearer realm="headrace"'
            assert (await site.call(http("GET", "/health"))).status == 200
            assert (await site.call(http("GET", "/metrics"))).status == 401

    async def test_a_key_sent_twice_is_seen_over_the_wire(self) -> None:
        async with listed_site() as site:
            request = http("GET", "/v1/models", headers={"x-api-key": "key"})
            reply = await site.call(request.replace(b"Host:", b"x-api-key: key\r\nHost:", 1))
            assert (reply.status, reply.code) == (401, "duplicate_credentials")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that fails in a way that nobody foresaw."""

    def fail(runtime: Runtime, request: InferenceRequest) -> Generation:
        raise ExceptionGroup("of several", [KeyError("/secret/path.py")])

    monkeypatch.setattr(Runtime, "request", fail)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_of_ours_names_the_request_and_nothing_else(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_site() as site:
        reply = await site.call(chat(stream=stream))
        assert (reply.status, reply.code) == (500, "internal_error")
        assert reply.headers["x-request-id"] in reply.json["error"]["message"]
        assert b"secret" not in reply.body
        assert "secret" in caplog.text
        assert (await site.call(http("GET", "/health"))).status == 200
        await site.idle()
