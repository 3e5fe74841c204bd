"""How an operator sees and moves models, and shuts the gate (wire contract 13.2, 13.8)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.site import Reply, Site, chat, http, open_site

MODEL = "/admin/models/scripted"
MISTAKES = [
    ("load", {"current": 1}, "current"),
    ("load", {"pin": "yes"}, "pin"),
    ("unload", {"force": "true"}, "force"),
]


async def order(site: Site, path: str, method: str = "POST", **fields: Any) -> Reply:
    body = json.dumps(fields).encode() if fields else b""
    return await site.call(http(method, path, body))


async def row_of(site: Site, path: str, method: str = "POST", **fields: Any) -> Any:
    reply = await order(site, path, method, **fields)
    assert reply.status == 200, reply
    return reply.json


async def engine_of(site: Site) -> Any:
    reply = await site.call(http("GET", "/engine"))
    assert reply.status == 200
    return reply.json


class TestEngine:
    async def test_a_model_in_this_process_has_no_worker_process(self) -> None:
        async with open_site() as site:
            engine = await engine_of(site)
            assert (engine["state"], engine["model"]) == ("ready", "scripted")
            assert (engine["pid"], engine["restarts"], engine["last_exit"]) == (None, 0, None)
            (worker,) = engine["workers"]
            assert worker["id"] == "scripted"
            assert (worker["role"], worker["state"], worker["state_reason"]) == (
                "primary",
                "ready",
                None,
            )

    async def test_without_a_resident_model_there_is_no_engine(self) -> None:
        async with open_site() as site:
            await row_of(site, f"{MODEL}/unload")
            engine = await engine_of(site)
            assert (engine["state"], engine["workers"]) == ("none", [])
            health = await site.call(http("GET", "/health"))
            assert (health.status, health.json["status"]) == (200, "ok")

    async def test_it_answers_while_a_model_loads(self) -> None:
        async with open_site(ScriptedModel(load_seconds=0)) as site:
            await row_of(site, f"{MODEL}/unload")
            site.scene.device.hang()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(row_of, site, f"{MODEL}/load")
                await site.until(lambda: site.scene.runtime.model("scripted").state == "loading")
                assert (await engine_of(site))["state"] == "starting"
                site.scene.device.release()
            assert (await engine_of(site))["state"] == "ready"


class TestLoad:
    async def test_the_answer_is_the_row_of_the_model_list(self) -> None:
        async with open_site() as site:
            await row_of(site, f"{MODEL}/unload")
            row = await row_of(site, f"{MODEL}/load", current=True, pin=True)
            assert row == (await site.call(http("GET", "/v1/models/scripted"))).json
            assert (row["state"], row["resident"], row["current"]) == ("ready", True, True)
            assert row["pinned"]
            assert site.scene.loader.loads == ["scripted"] * 2

    async def test_what_is_resident_is_not_loaded_again(self) -> None:
        async with open_site() as site:
            assert (await row_of(site, f"{MODEL}/load"))["state"] == "ready"
            assert site.scene.loader.loads == ["scripted"]

    async def test_one_that_cannot_be_loaded_is_a_502_and_may_be_tried_again(self) -> None:
        async with open_site() as site:
            await row_of(site, f"{MODEL}/unload")
            why = RequestError(Code.LOAD_FAILED, "the weights are cut short")
            site.scene.model.load_failures.append(why)
            reply = await order(site, f"{MODEL}/load")
            assert (reply.status, reply.code) == (502, "load-failed")
            assert reply.headers["x-should-retry"] == "false"
            health = await site.call(http("GET", "/health"))
            assert (health.status, health.json["status"]) == (503, "unhealthy")
            assert (await row_of(site, f"{MODEL}/load"))["state"] == "ready"


class TestUnload:
    async def test_it_frees_the_memory_before_it_answers(self) -> None:
        async with open_site() as site:
            assert site.scene.device.active_bytes > 0
            row = await row_of(site, f"{MODEL}/unload")
            assert site.scene.device.active_bytes == 0
            assert (row["state"], row["state_reason"]) == ("unloaded", "unloaded_by_request")
            assert row == await row_of(site, f"{MODEL}/unload")

    async def test_one_in_use_is_kept_d4(self) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat(stream=True))
            await caller.read_until(b'"content":"')
            reply = await order(site, f"{MODEL}/unload")
            assert (reply.status, reply.code) == (400, "in-use")
            await caller.read_until(b'"content":"')

    async def test_force_ends_its_requests_with_one_error_each_d4(self) -> None:
        async with open_site() as site, site.dial() as caller, site.dial() as whole:
            await caller.send(chat("one", stream=True))
            await caller.read_until(b'"content":"')
            await whole.send(chat("two"))
            await site.until(lambda: len(site.scene.engine.rows) == 2)
            await row_of(site, f"{MODEL}/unload", force=True)
            assert site.scene.device.active_bytes == 0
            rest = await caller.read_to_end()
            assert rest.count(b'"error"') == 1
            assert b'"code":"model_unloaded"' in rest
            assert b"[DONE]" not in rest
            assert Reply.of(await whole.read_to_end()).code == "model_unloaded"

    async def test_the_next_request_loads_it_again_d3(self) -> None:
        async with open_site() as site:
            await row_of(site, f"{MODEL}/unload")
            assert (await site.call(chat(max_tokens=2))).status == 200
            assert site.scene.loader.loads == ["scripted"] * 2


class TestPin:
    async def test_a_pinned_model_is_not_unloaded_unless_forced(self) -> None:
        async with open_site() as site:
            assert (await row_of(site, f"{MODEL}/pin"))["pinned"]
            assert (await order(site, f"{MODEL}/unload")).code == "in-use"
            row = await row_of(site, f"{MODEL}/unload", force=True)
            assert (row["state"], row["pinned"]) == ("unloaded", False)

    async def test_unpinned_it_may_go(self) -> None:
        async with open_site() as site:
            await row_of(site, f"{MODEL}/pin")
            assert not (await row_of(site, f"{MODEL}/pin", "DELETE"))["pinned"]
            assert (await row_of(site, f"{MODEL}/unload"))["state"] == "unloaded"


class TestOrders:
    @pytest.mark.parametrize("what", ["load", "unload", "pin"])
    async def test_a_model_that_nobody_knows(self, what: str) -> None:
        async with open_site() as site:
            reply = await order(site, f"/admin/models/no/body/{what}")
            assert (reply.status, reply.code) == (404, "model_not_found")

    @pytest.mark.parametrize(("what", "fields", "param"), MISTAKES)
    async def test_a_flag_that_is_none(self, what: str, fields: dict[str, Any], param: str) -> None:
        async with open_site() as site:
            reply = await order(site, f"{MODEL}/{what}", **fields)
            assert (reply.status, reply.code) == (400, "invalid_type")
            assert reply.json["error"]["param"] == param

    @pytest.mark.parametrize("what", ["load", "unload", "pin"])
    async def test_they_are_orders_and_no_questions(self, what: str) -> None:
        async with open_site() as site:
            reply = await order(site, f"{MODEL}/{what}", "GET")
            assert (reply.status, reply.code) == (405, "method_not_allowed")
            assert "POST" in reply.headers["allow"]

    async def test_they_need_the_key_where_one_is_set(self) -> None:
        async with open_site(api_keys=["k"]) as site:
            assert (await order(site, f"{MODEL}/unload")).status == 401
            assert site.scene.runtime.model("scripted").state == "ready"


class TestGate:
    async def test_it_waits_for_what_runs_and_refuses_what_comes(self) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat(stream=True, max_tokens=30))
            await caller.read_until(b'"content":"')
            drained = await row_of(site, "/admin/drain", timeout_s=60)
            assert (drained["drained"], drained["in_flight"], drained["timed_out"]) == (
                True,
                0,
                False,
            )
            assert b"[DONE]" in await caller.read_to_end()
            refused = await site.call(chat())
            assert (refused.status, refused.code) == (503, "draining")
            assert "retry-after" in refused.headers
            health = await site.call(http("GET", "/health"))
            assert (health.status, health.json["status"]) == (503, "draining")

    async def test_what_runs_longer_goes_on_and_the_gate_opens_again(self) -> None:
        async with open_site() as site, site.dial() as caller:
            await caller.send(chat(stream=True))
            await caller.read_until(b'"content":"')
            drained = await row_of(site, "/admin/drain", timeout_s=0.1)
            assert (drained["drained"], drained["in_flight"], drained["timed_out"]) == (
                False,
                1,
                True,
            )
            assert drained["waited_ms"] >= 100
            await caller.read_until(b'"content":"')
            opened = await row_of(site, "/admin/drain", "DELETE")
            assert opened == {"draining": False}
            assert (await site.call(chat(max_tokens=2))).status == 200
