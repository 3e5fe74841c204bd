"""Several models under one budget, each in a process of its own: swaps, loads and unloads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
import trio

from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import Reply, chat
from headrace.runtime.testing.workers import WorkerSite, is_alive, open_workers

SIZE = 100_000_000
# Room for one model and its rows, and never for two.
FOR_ONE = SIZE * 3 // 2
A = WorkerModel(id="a", says="A", decode_seconds=0.005, weights_bytes=SIZE)
B = WorkerModel(id="b", says="B", decode_seconds=0.005, weights_bytes=SIZE)
FRAME = b'"content":"'


async def answer(site: WorkerSite, model: str, max_tokens: int = 5) -> Reply:
    with trio.fail_after(200):
        return await site.call(chat(model=model, max_tokens=max_tokens))


def text_of(reply: Reply) -> str:
    assert reply.status == 200, reply
    return str(reply.json["choices"][0]["message"]["content"])


async def test_two_that_do_not_fit_together_wait_for_each_other_d1_d6() -> None:
    texts: dict[str, str] = {}
    async with open_workers(A, B, budget_bytes=FOR_ONE, loaded=False) as site:

        async def ask(model: str) -> None:
            texts[model] = text_of(await answer(site, model, max_tokens=20))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
        assert texts == {"a": "A" * 20, "b": "B" * 20}
        assert site.budget.peak_bytes == SIZE
        stats = await site.get("/stats")
        assert 0 < stats["ledger"]["measured_bytes"] <= FOR_ONE


async def test_alternating_models_swap_cleanly_and_an_unknown_name_moves_nothing_d2_d6() -> None:
    async with open_workers(A, B, budget_bytes=FOR_ONE, loaded=False) as site:
        for _ in range(2):
            for model, says in (("a", "A"), ("b", "B")):
                assert text_of(await answer(site, model)) == says * 5
                states = {m.id: m.state for m in site.runtime.statistics().models}
                assert list(states.values()).count("ready") == 1
                assert states[model] == "ready"
        pid = site.pid("b")
        unknown = await answer(site, "mini")
        assert (unknown.status, unknown.code) == (404, "model_not_found")
        assert unknown.json["error"]["details"]["known_models"] == ["a", "b"]
        assert site.runtime.statistics().current == "a"
        assert site.pid("b") == pid
        # Free first, then load: at no instant was there more than one.
        assert site.budget.peak_bytes == SIZE
        assert [name for what, name in site.budget.log if what == "model.loaded"] == list("abab")


async def test_clients_of_both_models_all_get_answers_of_their_own_model_d1_d8() -> None:
    async with open_workers(A, B, budget_bytes=FOR_ONE, loaded=False) as site:

        async def client(number: int) -> None:
            for turn in range(2):
                model = "ab"[(number + turn) % 2]
                assert text_of(await answer(site, model)) == model.upper() * 5

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(client, number)
        assert site.budget.peak_bytes == SIZE
        await site.until(lambda: site.runtime.statistics().leases == 0)
        # Waiting together is loading once: 16 requests, and a few swaps.
        assert site.budget.loads("a") + site.budget.loads("b") <= 8


async def test_a_stream_is_never_cut_for_a_swap() -> None:
    async with open_workers(A, B, budget_bytes=FOR_ONE, loaded=False) as site:
        async with site.dial() as caller:
            await caller.send(chat(model="a", stream=True, max_tokens=200))
            await caller.read_until(FRAME)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer, site, "b")
                rest = await caller.read_to_end()
                assert b"data: [DONE]" in rest
                assert b'"error"' not in rest
        assert site.budget.peak_bytes == SIZE


async def test_a_load_does_not_stall_the_other_model_d5(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    held = WorkerModel(id="held", load_gate=str(gate))
    async with open_workers(WorkerModel(id="steady"), held, loaded=False) as site:
        await site.ready("steady")
        async with site.dial() as caller:
            await caller.send(chat(model="steady", stream=True))

            async def reads_until(state: str) -> None:
                while site.model("held").state != state:
                    await caller.read_until(FRAME)

            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(site.order, "/admin/models/held/load")
                    await reads_until("loading")
                    while len(site.runtime.trace.events("worker.loading")) < 2:
                        await caller.read_until(FRAME)
                    for _ in range(50):
                        await caller.read_until(FRAME)
                    assert site.model("held").state == "loading"
                    gate.touch()
                    await reads_until("ready")
            await caller.read_until(FRAME)


async def test_first_requests_that_come_together_start_one_worker_d7_b8() -> None:
    slow = WorkerModel(id="b", says="B", load_seconds=0.3)
    async with open_workers(A, slow, loaded=False) as site:
        await site.ready("a")
        replies: list[Reply] = []

        async def ask() -> None:
            replies.append(await answer(site, "b", max_tokens=3))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(ask)
        assert [text_of(reply) for reply in replies] == ["BBB"] * 8
        started = site.runtime.trace.events("worker.started")
        assert [event.fields["model"] for event in started] == ["a", "b"]
        metrics = (await site.call(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")).body
        assert b'headrace_load_seconds_count{model="a"} 1.0' in metrics, metrics
        assert b'headrace_load_seconds_count{model="b"} 1.0' in metrics, metrics
        assert b"headrace_worker_processes 2.0" in metrics, metrics


async def test_what_rows_take_sends_no_idle_model_away() -> None:
    """There is room for both models to the byte; the rows' memory is not theirs."""
    greedy = attrs.evolve(A, kv_bytes_per_token=1_000_000)
    async with open_workers(greedy, B, budget_bytes=2 * SIZE) as site, site.dial() as caller:
        await caller.send(chat(model="a", stream=True))
        await site.until(lambda: site.active_bytes("a") > SIZE + SIZE // 10)
        report = site.model("a")
        assert report.batch.kv_bytes > SIZE // 10
        assert report.bytes == SIZE
        assert site.model("b").state == "ready"
        assert site.runtime.trace.events("model.leaving") == []


async def test_a_request_during_an_unload_waits_and_then_loads_d3() -> None:
    async with open_workers(A) as site:
        for _ in range(2):
            pid = site.pid("a")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(site.order, "/admin/models/a/unload")
                await site.until(lambda: site.model("a").state != "ready")
                assert text_of(await answer(site, "a")) == "AAAAA"
            assert site.pid("a") != pid
            assert not is_alive(pid)
        assert site.budget.peak_bytes == SIZE
        await site.until(lambda: site.runtime.statistics().leases == 0)


async def test_a_model_in_use_is_unloaded_only_by_force_d4() -> None:
    async with open_workers(A) as site, site.dial() as stream, site.dial() as whole:
        await stream.send(chat(model="a", stream=True))
        await stream.read_until(FRAME)
        await whole.send(chat(model="a"))
        await site.until(lambda: site.runtime.statistics().rows_running == 2)
        refused = await site.call(
            b"POST /admin/models/a/unload HTTP/1.0\r\nHost: localhost\r\n\r\n"
        )
        assert (refused.status, refused.code) == (400, "in-use")
        await stream.read_until(FRAME)
        pid = site.pid("a")
        async with trio.open_nursery() as nursery:
            order = partial(site.order, "/admin/models/a/unload", '{"force": true}')
            nursery.start_soon(order)
            rest = await stream.read_to_end()
        assert rest.count(b'"error"') == 1
        assert b'"code":"model_unloaded"' in rest
        assert b"[DONE]" not in rest
        answered = Reply.of(await whole.read_to_end())
        assert answered.code == "model_unloaded"
        assert site.model("a").state == "unloaded_by_request"
        assert not is_alive(pid)
        await site.until(lambda: site.runtime.statistics().requests_in_flight == 0)


async def test_a_load_that_fails_is_told_to_each_waiter_and_tried_again_by_the_next() -> None:
    broken = WorkerModel(id="broken", loads=False)
    async with open_workers(A, broken, loaded=False) as site:
        await site.ready("a")
        for attempt in range(2):
            reply = await answer(site, "broken")
            assert (reply.status, reply.code) == (502, "load-failed")
            assert reply.headers["x-should-retry"] == "false"
            failures = site.runtime.trace.events("model.load_failed")
            assert len(failures) == attempt + 1
        row = await site.get("/v1/models/broken")
        assert (row["state"], row["state_reason"]) == ("failed", "load_failed")
        assert text_of(await answer(site, "a")) == "AAAAA"
