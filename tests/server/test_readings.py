"""Embeddings and decisions over sockets: bodies in every coding, errors in their shapes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.site import Reply, Site, http, open_site

NOUL = {"type": "noul", "instructions": "Is it late?"}
JEV: dict[str, Any] = {"state": {"hour": 23}, "questions": {"late": NOUL, "again": NOUL}}
PREDICATE = {"type": "predicate", "instructions": "Is it late?"}
OPENAI: dict[str, Any] = {"input": "It is late.", "questions": [PREDICATE]}
BOUNDARY = "x-boundary-x"

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def fast() -> ScriptedModel:
    return ScriptedModel(load_seconds=0)


async def post(site: Site, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await site.call(http("POST", path, data, headers=headers))


def form(*parts: tuple[str, str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A multipart body of parts with a name, a content type and their bytes."""
    written = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
        f"Content-Type: {kind}\r\n\r\n".encode()
        + data
        + b"\r\n"
        for name, kind, data in parts
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    return written + f"--{BOUNDARY}--\r\n".encode(), headers


class TestShapes:
    async def test_the_type_of_questions_tells_the_shape(self) -> None:
        async with open_site(fast()) as site:
            jev = await post(site, "/v1/decisions", JEV)
            assert list(jev.json["answers"]) == ["late", "again"]
            assert jev.json["id"].startswith("dec_")
            assert (await post(site, "/v1/systemone", JEV)).json["answers"] == jev.json["answers"]
            openai = await post(site, "/v1/decisions", OPENAI)
            assert [answer["type"] for answer in openai.json["answers"]] == ["predicate"]
            neither = await post(site, "/v1/decisions", {"input": "x", "questions": "why"})
            assert (neither.status, neither.code) == (400, "invalid_value")
            await site.idle()

    async def test_its_clients_find_the_requests_id_under_their_own_name(self) -> None:
        async with open_site(fast()) as site:
            for path, body in (("/v1/systemone", JEV), ("/v1/decisions", OPENAI)):
                reply = await post(site, path, body, {"X-Request-ID": "mine"})
                assert reply.headers["x-typesafe-request-id"] == "mine"
            refused = await post(site, "/v1/systemone", {"state": "x"})
            assert refused.headers["x-typesafe-request-id"] == refused.headers["x-request-id"]
            other = await post(site, "/v1/embeddings", {"input": "a"})
            assert "x-typesafe-request-id" not in other.headers

    @pytest.mark.parametrize(
        ("path", "body", "status", "code"),
        [
            ("/v1/systemone", {"questions": {"q": NOUL}}, 422, "missing_field"),
            (
                "/v1/systemone",
                JEV | {"questions": {"q": {"type": "box"}}},
                422,
                "unsupported_question",
            ),
            ("/v1/systemone", JEV | {"temperature": 1}, 422, "unsupported_parameter"),
            (
                "/v1/systemone",
                JEV | {"assets": {"a": {"type": "image"}}},
                422,
                "vision-tower-absent",
            ),
            ("/v1/systemone", JEV | {"model": "nobody"}, 404, "model_not_found"),
            ("/v1/systemone", b"{", 400, "invalid_json"),
            ("/v1/systemone", JEV | {"state": "x" * 5000}, 400, "context_length_exceeded"),
            ("/v1/decisions", JEV | {"state": 5}, 422, "invalid_type"),
            ("/v1/decisions", {"questions": [PREDICATE]}, 400, "missing_field"),
            (
                "/v1/decisions",
                OPENAI | {"questions": [{"type": "box"}]},
                400,
                "unsupported_question",
            ),
            ("/v1/decisions", OPENAI | {"input": "x" * 5000}, 400, "context_length_exceeded"),
        ],
    )
    async def test_a_refusal_has_the_status_of_its_shape(
        self, path: str, body: Any, status: int, code: str
    ) -> None:
        async with open_site(fast()) as site:
            reply = await post(site, path, body)
            assert (reply.status, reply.code) == (status, code)
            assert set(reply.json["error"]) >= {"message", "type", "param", "code"}

    async def test_what_is_too_long_is_named_by_the_field_it_came_in(self) -> None:
        async with open_site(fast()) as site:
            jev = await post(site, "/v1/systemone", JEV | {"state": "x" * 5000})
            openai = await post(site, "/v1/decisions", OPENAI | {"input": "x" * 5000})
            params = [reply.json["error"]["param"] for reply in (jev, openai)]
            assert params == ["state", "input"]

    async def test_more_options_than_labels_are_the_shapes_own_error(self) -> None:
        many = {"type": "choice", "criteria": {str(n): None for n in range(27)}}
        choices = [{"value": str(n)} for n in range(27)]
        asked = {"type": "choice", "instructions": "Which?", "choices": choices}
        async with open_site(fast()) as site:
            jev = await post(site, "/v1/systemone", JEV | {"questions": {"many": many}})
            assert (jev.status, jev.code) == (422, "too_many_options")
            assert jev.json["error"]["param"] == "questions.many"
            openai = await post(site, "/v1/decisions", OPENAI | {"questions": [PREDICATE, asked]})
            assert (openai.status, openai.code) == (400, "too_many_options")
            assert openai.json["error"]["param"] == "questions[1]"

    async def test_the_settings_of_decisions_hold(self) -> None:
        settings: dict[str, Any] = {
            "decision_max_questions": 1,
            "decision_temperature": {"noul": 100.0},
        }
        one = JEV | {"questions": {"q": NOUL}}
        async with open_site(fast()) as plain, open_site(fast(), **settings) as site:
            assert (await post(site, "/v1/systemone", JEV)).status == 422
            sharp = (await post(plain, "/v1/systemone", one)).json["answers"]["q"]["noul"]
            flat = (await post(site, "/v1/systemone", one)).json["answers"]["q"]["noul"]
            assert abs(flat - 0.5) < abs(sharp - 0.5)


class TestBodies:
    async def test_zstd_in_several_frames_is_read(self) -> None:
        data = json.dumps(JEV).encode()
        packed = zstd.compress(data[:30]) + zstd.compress(data[30:])
        async with open_site(fast()) as site:
            plain = await post(site, "/v1/systemone", JEV)
            reply = await post(site, "/v1/systemone", packed, {"Content-Encoding": "zstd"})
            assert reply.json["answers"] == plain.json["answers"]

    async def test_a_form_whose_first_part_is_the_request_is_read(self) -> None:
        body, headers = form(("request", "application/json", json.dumps(JEV).encode()))
        async with open_site(fast()) as site:
            plain = await post(site, "/v1/systemone", JEV)
            for path in ("/v1/systemone", "/v1/decisions"):
                reply = await post(site, path, body, headers)
                assert reply.json["answers"] == plain.json["answers"]

    @pytest.mark.parametrize(
        ("asset", "status", "code"),
        [
            ({"type": "image", "part": "asset-0"}, 422, "vision-tower-absent"),
            ({"type": "image", "part": "asset-1"}, 422, "invalid_value"),
            (None, 422, "invalid_value"),
        ],
    )
    async def test_files_must_be_claimed_and_images_cannot_be_seen_yet(
        self, asset: Any, status: int, code: str
    ) -> None:
        asked = JEV if asset is None else JEV | {"assets": {"shot": asset}}
        request = ("request", "application/json", json.dumps(asked).encode())
        body, headers = form(request, ("asset-0", "image/png", b"\x89PNG\r\n\r\n--x"))
        async with open_site(fast()) as site:
            reply = await post(site, "/v1/systemone", body, headers)
            assert (reply.status, reply.code) == (status, code)

    @pytest.mark.parametrize(
        ("parts", "status", "code"),
        [
            ([("other", "application/json", b"{}")], 400, "invalid_json"),
            ([("request", "text/plain", b"{}")], 415, "unsupported_media_type"),
            ([("request", "application/json", b"{")], 400, "invalid_json"),
            ([], 400, "invalid_json"),
        ],
    )
    async def test_a_form_that_cannot_be_read_is_refused(
        self, parts: Any, status: int, code: str
    ) -> None:
        body, headers = form(*parts)
        async with open_site(fast()) as site:
            reply = await post(site, "/v1/systemone", body, headers)
            assert (reply.status, reply.code) == (status, code)
            cut = await post(site, "/v1/systemone", body[:-9], headers)
            assert cut.status in (400, 415)

    async def test_forms_are_for_decisions_and_end_at_their_own_limit(self) -> None:
        body, headers = form(("request", "application/json", json.dumps(JEV).encode()))
        async with open_site(fast(), max_upload_bytes=100) as site:
            assert (await post(site, "/v1/systemone", body, headers)).code == "body_too_large"
            elsewhere = await post(site, "/v1/embeddings", body, headers)
            assert (elsewhere.status, elsewhere.code) == (415, "unsupported_media_type")


class TestEnds:
    async def test_a_full_queue_is_a_429_that_tells_when_to_come_back(self) -> None:
        slow = ScriptedModel(load_seconds=0)
        async with open_site(slow, max_rows=1, queue_limit=0) as site, site.dial() as caller:
            body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
            await caller.send(http("POST", "/v1/chat/completions", json.dumps(body).encode()))
            await caller.read_until(b"content")
            reply = await post(site, "/v1/systemone", JEV)
            assert (reply.status, reply.code) == (429, "queue_full")
            assert int(reply.headers["retry-after"]) >= 1
            assert int(reply.headers["retry-after-ms"]) >= 1

    async def test_a_client_that_leaves_leaves_nothing(self) -> None:
        async with open_site(embedding_pooling="last") as site:
            for path, body in [
                ("/v1/embeddings", {"input": ["x" * 2000] * 50}),
                ("/v1/systemone", JEV | {"questions": {f"q{n}": NOUL for n in range(100)}}),
            ]:
                async with site.dial() as caller:
                    await caller.send(http("POST", path, json.dumps(body).encode()))
                    await site.until(lambda: site.scene.runtime.statistics().rows_running > 0)
                await site.idle()
                await trio.lowlevel.checkpoint()


async def test_the_models_say_what_they_can_do() -> None:
    async with open_site(fast()) as plain, open_site(fast(), embedding_pooling="mean") as pooling:
        for site, embeds in ((plain, False), (pooling, True)):
            reply = await site.call(http("GET", "/v1/models/scripted"))
            capabilities = reply.json["capabilities"]
            assert (capabilities["embeddings"], capabilities["decisions"]) == (embeds, True)
            (view,) = (await site.call(http("GET", "/v1/models"))).json["models"]
            assert view == {
                "name": "scripted",
                "description": "Local headrace model",
                "release_date": "",
            }
        refused = await post(plain, "/v1/embeddings", {"input": "a"})
        assert (refused.status, refused.code) == (400, "unsupported_capability")
