"""What operators and clients can read of the server: models, health, figures, live requests."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest
import trio

from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.site import Reply, Site, chat, http, open_site


async def read(site: Site, path: str) -> Any:
    reply = await site.call(http("GET", path))
    assert reply.status == 200
    return reply.json


def sample(text: str, name: str, **labels: str) -> float:
    """The sum of all series of that name that carry these labels."""
    found = 0.0
    for line in text.splitlines():
        match = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
        if match:
            carried = dict(re.findall(r'(\w+)="([^"]*)"', match[1] or ""))
            if labels.items() <= carried.items():
                found += float(match[2])
    return found


async def scrape(site: Site) -> str:
    reply = await site.call(http("GET", "/metrics"))
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return reply.body.decode()


class TestModels:
    async def test_the_list_and_the_single_row_agree(self) -> None:
        async with open_site() as site:
            listed = await read(site, "/v1/models")
            assert listed["object"] == "list"
            (row,) = listed["data"]
            assert row == await read(site, "/v1/models/scripted")
            assert (row["id"], row["object"], row["owned_by"]) == ("scripted", "model", "headrace")
            assert (row["current"], row["resident"], row["state"]) == (True, True, "ready")
            assert row["context_window"] == row["max_model_len"] == 4096
            assert row["gen_defaults"]["temperature"] == 1
            assert row["capabilities"]["chat_completions"]
            assert all(isinstance(text, str) for text in listed["models"][0].values())

    async def test_an_alias_is_no_id(self) -> None:
        async with open_site() as site:
            reply = await site.call(http("GET", "/v1/models/default"))
            assert (reply.status, reply.code) == (404, "model_not_found")

    async def test_a_model_that_did_not_load_says_why(self) -> None:
        failure = RequestError(Code.LOAD_FAILED, "weights are missing")
        model = ScriptedModel(load_seconds=0, load_failures=[failure])
        with pytest.raises(ExceptionGroup):
            async with open_site(model):
                pass


class TestHealth:
    async def test_a_server_at_rest_is_well(self) -> None:
        async with open_site() as site:
            health = await read(site, "/health")
            assert (health["status"], health["model"], health["state"]) == (
                "ok",
                "scripted",
                "ready",
            )
            assert health["workers"] == [{"id": "scripted", "state": "ready"}]


class TestFigures:
    async def test_gauges_follow_a_request_and_return_a8(self) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat(stream=True))
            await caller.read_until(b'"content":"')
            during = await scrape(site)
            assert sample(during, "headrace_requests_in_flight") == 1
            assert sample(during, "headrace_rows_running") == 1
            assert sample(during, "headrace_leases") == 1
            assert sample(during, "headrace_ledger_bytes", kind="kv") > 0
            await caller.close()
            await site.idle()
            after = await scrape(site)
            for name in ("requests_in_flight", "queue_depth", "rows_running", "leases"):
                assert sample(after, f"headrace_{name}") == 0
            assert sample(after, "headrace_ledger_bytes", kind="kv") == 0
            assert sample(after, "headrace_cancelled_total", reason="disconnect") == 1
            assert sample(after, "headrace_cancel_seconds_count") == 1
            counted = {"outcome": "cancelled", "route": "/v1/chat/completions"}
            assert sample(after, "headrace_requests_total", **counted) == 1

    async def test_tokens_and_times_are_counted(self) -> None:
        async with open_site() as site:
            reply = await site.call(chat(stream=True, max_tokens=7))
            assert len(reply.text) == 7
            text = await scrape(site)
            assert sample(text, "headrace_tokens_total", kind="decoded") == 7
            assert sample(text, "headrace_tokens_total", kind="prompt") > 0
            assert sample(text, "headrace_ttft_seconds_count") == 1
            assert sample(text, "headrace_request_seconds_count") == 1
            assert sample(text, "headrace_queue_seconds_count") == 1
            counted = {"model": "scripted", "status": "200", "outcome": "ok"}
            assert sample(text, "headrace_requests_total", **counted) == 1

    async def test_a_client_that_leaves_with_the_last_frame_had_its_answer(self) -> None:
        async with open_site() as site:
            for _ in range(20):
                async with site.dial() as caller:
                    await caller.send(chat(stream=True, max_tokens=2))
                    await caller.read_until(b"[DONE]")
                    caller.reset()
                await site.idle()
            text = await scrape(site)
            assert sample(text, "headrace_requests_total", outcome="ok") == 20

    async def test_what_a_prompt_did_not_have_to_compute_is_told_everywhere(self) -> None:
        model = ScriptedModel(load_seconds=0, scripts={"again": Script(cached_tokens=5)})
        async with open_site(model) as site:
            await site.call(chat("new", max_tokens=1))
            for stream in (False, True):
                options: dict[str, Any] = (
                    {"stream_options": {"include_usage": True}} if stream else {}
                )
                body = chat("again", stream=stream, max_tokens=2, **options)
                assert (
                    b'"prompt_tokens_details":{"cached_tokens":5}' in (await site.call(body)).body
                )
            text = await scrape(site)
            assert sample(text, "headrace_prompt_cache_hits_total") == 2
            assert sample(text, "headrace_prompt_cache_misses_total") == 1
            assert sample(text, "headrace_tokens_total", kind="cached") == 10
            told = (await site.call(http("GET", "/stats"))).json["prompt_cache"]["scripted"]
            assert (told["hits"], told["misses"], told["tokens_reused"]) == (2, 1, 10)

    async def test_nothing_a_client_makes_up_becomes_a_label(self) -> None:
        async with open_site() as site:
            await site.call(chat(model="made-up-model"))
            await site.call(http("GET", "/made-up-path"))
            await site.call(http("GET", "/v1/models/made-up-id"))
            text = await scrape(site)
            assert "made-up" not in text
            assert sample(text, "headrace_errors_total", code="model_not_found") == 2
            assert sample(text, "headrace_requests_total", outcome="refused") == 3

    async def test_two_servers_in_one_process_count_apart(self) -> None:
        async with open_site() as one, open_site() as other:
            await one.call(chat(max_tokens=3))
            assert sample(await scrape(one), "headrace_tokens_total", kind="decoded") == 3
            assert sample(await scrape(other), "headrace_tokens_total", kind="decoded") == 0

    async def test_the_statistics_hold_no_secret(self) -> None:
        async with open_site(api_keys=["secret-key"]) as site:
            reply = await site.call(http("GET", "/stats", headers={"x-api-key": "secret-key"}))
            assert reply.json["models"]["current"] == "scripted"
            assert reply.json["batch"]["scripted"]["max_rows"] == 32
            assert reply.json["server"]["draining"] is False
            assert b"secret-key" not in reply.body


class TestLiveRequests:
    async def test_a_live_request_is_listed_without_its_text(self) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat("private words", stream=True))
            await caller.read_until(b'"content":"')
            reply = await site.call(http("GET", "/v1/requests"))
            (row,) = reply.json["data"]
            assert (row["state"], row["model"], row["stream"]) == ("decoding", "scripted", True)
            assert row["route"] == "/v1/chat/completions"
            assert row["id"].startswith("req_")
            assert row["response_id"].startswith("chatcmpl-")
            assert b"private" not in reply.body

    @pytest.mark.parametrize("by", ["id", "response_id"])
    async def test_a_live_request_can_be_cancelled(self, by: str) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat(stream=True))
            await caller.read_until(b'"content":"')
            (row,) = (await read(site, "/v1/requests"))["data"]
            reply = await site.call(http("DELETE", f"/v1/requests/{row[by]}"))
            assert site.scene.engine.rows == ()
            assert reply.json == {"id": row[by], "object": "request", "status": "cancelled"}
            rest = await caller.read_to_end()
            assert b'"code":"request_cancelled"' in rest
            assert b"[DONE]" not in rest
            again = await site.call(http("DELETE", f"/v1/requests/{row[by]}"))
            assert again.json["status"] == "cancelled"
            assert site.scene.runtime.statistics().cancelled_total["api"] == 1

    async def test_a_whole_answer_that_is_cancelled_is_a_499(self) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat())
            await site.until(lambda: bool(site.scene.runtime.requests()))
            (row,) = (await read(site, "/v1/requests"))["data"]
            await site.call(http("DELETE", f"/v1/requests/{row['id']}"))
            reply = Reply.of(await caller.read_to_end())
            assert (reply.status, reply.code) == (499, "request_cancelled")

    async def test_what_has_ended_or_never_was(self) -> None:
        async with open_site() as site:
            answer = await site.call(chat(max_tokens=1))
            ended = await site.call(http("DELETE", f"/v1/requests/{answer.json['id']}"))
            assert ended.json["status"] == "finished"
            never = await site.call(http("DELETE", "/v1/requests/req_nothing"))
            assert (never.status, never.code) == (404, "request_not_found")


class TestTrace:
    async def test_it_is_hidden_unless_it_is_set(self) -> None:
        async with open_site() as site:
            reply = await site.call(http("GET", "/debug/trace"))
            assert (reply.status, reply.code) == (404, "not_found")

    async def test_it_shows_what_happened_and_never_any_text(self) -> None:
        async with open_site(debug_trace=True) as site:
            await site.call(chat("private words", max_tokens=2))
            reply = await site.call(http("GET", "/debug/trace?limit=50"))
            names = [event["name"] for event in reply.json["data"]]
            assert "request.ended" in names
            assert b"private" not in reply.body
            short = await site.call(http("GET", "/debug/trace?limit=2"))
            assert len(short.json["data"]) == 2
            bad = await site.call(http("GET", "/debug/trace?limit=-1"))
            assert (bad.status, bad.code) == (400, "invalid_value")


def talk(base_url: str) -> None:
    """What the official client makes of the server."""
    messages: Any = [{"role": "user", "content": "Hi"}]
    with openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=60) as client:
        whole = client.chat.completions.create(model="default", messages=messages)
        assert whole.choices[0].message.content == "Hello there."
        assert whole.choices[0].finish_reason == "stop"
        with client.chat.completions.create(
            model="scripted",
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
        ) as stream:
            chunks = list(stream)
        texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
        assert "".join(texts) == "Hello there."
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == 12
        assert [model.id for model in client.models.list()] == ["scripted"]
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="nobody", messages=messages)
        assert caught.value.code == "model_not_found"


async def test_the_official_client_reads_it_all_h2() -> None:
    script = Script(tokens="Hello there.")
    model = ScriptedModel(load_seconds=0, script_of=lambda spec: script)
    async with open_site(model, keepalive_s=0.02) as site:
        await trio.to_thread.run_sync(talk, f"{site.server.addresses[0]}/v1")
        await site.idle()
