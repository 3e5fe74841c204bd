"""What the server says of its models while they come, go and die."""

from __future__ import annotations

import signal
from pathlib import Path

import trio

from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import chat, http
from headrace.runtime.testing.workers import WorkerSite, open_workers

A = WorkerModel(id="a")
B = WorkerModel(id="b")


async def state(site: WorkerSite, model: str) -> tuple[str, str | None]:
    row = await site.get(f"/v1/models/{model}")
    return row["state"], row["state_reason"]


async def test_never_loaded_unloaded_and_crashed_are_told_apart_d10() -> None:
    async with open_workers(A, B, loaded=False, restart_limit=0) as site:
        await site.ready("a")
        assert await state(site, "b") == ("unloaded", "never_loaded")
        await site.order("/admin/models/a/unload")
        assert await state(site, "a") == ("unloaded", "unloaded_by_request")
        await site.order("/admin/models/b/load")
        assert await state(site, "b") == ("ready", None)
        site.kill("b")
        await site.until(lambda: site.model("b").exhausted)
        assert await state(site, "b") == ("failed", "crashed")
        await site.order("/admin/models/b/unload")
        assert await state(site, "b") == ("unloaded", "unloaded_by_request")


async def test_every_question_is_answered_while_a_worker_loads_stands_still_or_is_dead_b1(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    slow = WorkerModel(id="a", load_gate=str(gate))
    questions = ("/health", "/engine", "/stats", "/v1/models", "/v1/requests", "/metrics")

    async def ask_all(site: WorkerSite) -> None:
        for path in questions:
            with trio.fail_after(60):
                reply = await site.call(http("GET", path))
            assert reply.status in (200, 503), (path, reply)

    async with open_workers(slow, loaded=False, restart_limit=0) as site:
        await site.until(lambda: bool(site.model("a").worker.pid))
        assert (await site.get("/engine"))["state"] == "starting"
        await ask_all(site)
        gate.touch()
        await site.ready("a")
        site.kill("a", signal.SIGSTOP)
        await ask_all(site)
        assert not site.runtime.trace.events("worker.silent"), "it still stands there"
        site.kill("a", signal.SIGKILL)
        await site.until(lambda: site.model("a").exhausted)
        await ask_all(site)
        engine = await site.get("/engine")
        assert (engine["state"], engine["pid"]) == ("exhausted", None)
        assert engine["last_exit"] == {"code": None, "signal": 9}


async def test_unknown_names_and_paths_are_told_apart_and_move_nothing_d11_d12() -> None:
    async with open_workers(A, B, loaded=False) as site:
        reply = await site.call(chat(model="x/y"))
        assert (reply.status, reply.code) == (404, "model_not_found")
        assert reply.json["error"]["details"]["known_models"] == ["a", "b"]
        assert site.model("b").state == "never_loaded"
        reply = await site.call(http("POST", "/v1/nothing", b"{}"))
        assert (reply.status, reply.code) == (404, "not_found")
        assert "/v1/nothing" in reply.json["error"]["message"]
        assert "model" not in reply.json["error"]["message"]


async def test_the_engine_report_shows_each_worker_with_its_memory() -> None:
    async with open_workers(A, B) as site:
        assert (await site.call(chat(model="b", max_tokens=2))).status == 200
        await site.until(lambda: site.model("b").memory is not None)
        engine = await site.get("/engine")
        assert (engine["model"], engine["pid"]) == ("a", site.pid("a"))
        workers = {worker["id"]: worker for worker in engine["workers"]}
        assert {name: w["pid"] for name, w in workers.items()} == {
            "a": site.pid("a"),
            "b": site.pid("b"),
        }
        assert workers["b"]["memory"]["active_bytes"] >= B.weights_bytes
        assert workers["b"]["role"] == "primary"
        assert workers["b"]["last_exit"] is None
