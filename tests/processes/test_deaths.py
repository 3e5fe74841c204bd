"""A worker dies: its own streams hear of it once, at once, and nobody else does."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from headrace.actors.patience import Patience
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.site import Caller, Reply, chat
from headrace.runtime.testing.workers import WorkerSite, is_alive, open_workers

ONE = WorkerModel(id="one")
OTHER = WorkerModel(id="other")
FRAME = b'"content":"'
# More than a worker on a busy machine is silent in its load by itself.
LOAD_SECONDS = 6.0


@asynccontextmanager
async def streams(site: WorkerSite, model: str, count: int) -> AsyncIterator[list[Caller]]:
    """Streams without end, each with its first text read."""
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(site.dial()) for _ in range(count)]
        for number, caller in enumerate(callers):
            await caller.send(chat(f"row {number}", model=model, stream=True))
        for caller in callers:
            await caller.read_until(FRAME)
        yield callers


def assert_one_error(rest: bytes, code: bytes = b"engine_unavailable") -> None:
    """Exactly one error frame, then the end of the body, and no `[DONE]`."""
    assert rest.count(b'"error"') == 1, rest[-400:]
    assert b'"code":"%s"' % code in rest
    assert b"[DONE]" not in rest
    assert rest.endswith(b"}}\n\n\r\n0\r\n\r\n"), rest[-100:]


async def test_the_streams_of_another_model_go_on_b7(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    held = WorkerModel(id="one", load_gate=str(gate))
    async with (
        open_workers(held, OTHER) as site,
        streams(site, "one", 4),
        streams(site, "other", 1) as (undisturbed,),
    ):
        other_pid = site.pid("other")
        gate.unlink()
        site.kill("one")
        with trio.fail_after(60):
            while site.model("one").state == "ready":
                await undisturbed.read_until(FRAME)
            # It is dead, and cannot be there again before the gate is open.
            for _ in range(50):
                await undisturbed.read_until(FRAME)
            gate.touch()
            while site.model("one").state != "ready":
                await undisturbed.read_until(FRAME)
        await undisturbed.read_until(FRAME)
        assert site.pid("other") == other_pid
        assert site.model("other").worker.restarts == 0


async def test_a_model_that_kills_its_own_process_takes_its_requests_along_and_no_more() -> None:
    faulty = WorkerModel(id="faulty", raises_signal=int(signal.SIGSEGV), signal_step=5)
    async with open_workers(faulty, OTHER) as site:
        reply = await site.call(chat(model="faulty", stream=True))
        assert reply.status == 200
        assert len(reply.text) == 4
        assert sum('"error"' in frame for frame in reply.frames) == 1
        assert site.model("faulty").worker.exit_signal == signal.SIGSEGV
        whole = await site.call(chat(model="other", max_tokens=3))
        assert whole.status == 200
        await site.ready("faulty")
        assert (await site.call(chat(model="faulty", max_tokens=3))).status == 200


async def test_before_the_first_byte_it_is_a_502_that_tells_the_state() -> None:
    slow = WorkerModel(id="slow", decode_seconds=600.0)
    async with open_workers(slow) as site, site.dial() as whole, site.dial() as stream:
        await whole.send(chat(model="slow"))
        await stream.send(chat(model="slow", stream=True))
        await site.until(lambda: site.runtime.statistics().leases == 2)
        site.kill("slow")
        # Long before the first text would come.
        with trio.fail_after(60):
            replies = [Reply.of(await caller.read_to_end()) for caller in (whole, stream)]
        for reply in replies:
            assert (reply.status, reply.code) == (502, "engine_unavailable")
            assert reply.json["error"]["type"] == "engine_unavailable"
            assert reply.json["error"]["details"] == {"state": "restarting"}
            assert int(reply.headers["retry-after"]) >= 1
            assert "x-should-retry" not in reply.headers
        await site.ready("slow")
        await site.idle()


async def test_a_request_that_comes_while_it_starts_again_is_served(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    async with open_workers(WorkerModel(id="one", load_gate=str(gate))) as site:
        gate.unlink()
        site.kill("one")
        await site.until(lambda: site.model("one").state == "restarting")
        assert (await site.get("/health"))["status"] == "degraded"
        with trio.fail_after(60):
            async with site.dial() as caller:
                await caller.send(chat(model="one", max_tokens=3))
                await site.until(lambda: site.runtime.statistics().requests_in_flight == 1)
                gate.touch()
                assert Reply.of(await caller.read_to_end()).status == 200


async def test_too_many_deaths_exhaust_it_until_it_is_loaded_by_hand() -> None:
    async with open_workers(ONE, OTHER, restart_limit=1) as site:
        site.kill("one")
        await site.until(lambda: site.model("one").worker.restarts == 1)
        await site.ready("one")
        async with streams(site, "one", 1) as (caller,):
            site.kill("one")
            rest = await caller.read_to_end()
        assert_one_error(rest)
        await site.until(lambda: site.model("one").exhausted)
        assert (await site.get("/engine"))["state"] == "exhausted"
        assert (await site.get("/health"))["status"] == "unhealthy"
        refused = await site.call(chat(model="one"))
        assert (refused.status, refused.code) == (502, "engine_unavailable")
        assert refused.json["error"]["details"] == {"state": "exhausted"}
        assert refused.headers["x-should-retry"] == "false"
        assert "retry-after" not in refused.headers
        assert (await site.call(chat(model="other", max_tokens=2))).status == 200
        row = await site.order("/admin/models/one/load")
        assert row["state"] == "ready"
        assert (await site.call(chat(model="one", max_tokens=2))).status == 200
        assert (await site.get("/health"))["status"] == "ok"


async def test_a_worker_that_stands_still_in_its_load_is_killed_and_started_again_b3(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    slow = WorkerModel(id="one", load_gate=str(gate))
    patience = Patience(load_seconds=LOAD_SECONDS)
    async with open_workers(slow, loaded=False, patience=patience) as site, site.dial() as waiting:
        await waiting.send(chat(model="one"))
        await site.until(lambda: bool(site.runtime.trace.events("worker.loading")))
        pid = site.kill("one", signal.SIGSTOP)
        with trio.fail_after(60):
            reply = Reply.of(await waiting.read_to_end())
        assert (reply.status, reply.code) == (502, "engine_unavailable")
        assert reply.json["error"]["details"] == {"state": "restarting"}
        (silent,) = site.runtime.trace.events("worker.silent")
        assert (silent.fields["phase"], silent.fields["seconds"]) == ("loading", LOAD_SECONDS)
        gate.touch()
        await site.ready("one")
        assert site.pid("one") != pid
        assert not is_alive(pid)


async def test_a_step_that_hangs_ends_the_worker_b3() -> None:
    hangs = WorkerModel(id="one", decode_seconds=30.0)
    async with open_workers(hangs, step_timeout_s=2.0) as site:
        pid = site.pid("one")
        reply = await site.call(chat(model="one"))
        assert (reply.status, reply.code) == (502, "engine_unavailable")
        # The worker's own watchdog is first, and says so by its exit code.
        assert site.model("one").worker.exit_code == 1
        await site.ready("one")
        assert site.pid("one") != pid


async def test_a_cancel_reaches_a_worker_that_was_frozen_a10() -> None:
    async with open_workers(ONE) as site:
        async with streams(site, "one", 1):
            pid = site.kill("one", signal.SIGSTOP)
        await trio.sleep(1.0)
        assert site.runtime.statistics().leases == 1, "the row is still in the engine"
        site.kill("one", signal.SIGCONT)
        await site.idle()
        assert site.pid("one") == pid
        assert site.runtime.statistics().cancelled_total["disconnect"] == 1
        decoded = site.runtime.statistics().decoded_tokens_total
        await trio.sleep(0.2)
        assert site.runtime.statistics().decoded_tokens_total == decoded
        assert (await site.call(chat(model="one", max_tokens=2))).status == 200


async def test_random_kills_leave_the_server_and_every_request_an_answer_d9() -> None:
    """Answered in full, or refused or ended with a typed error; nothing hangs or is left."""
    draw = random.Random(7)
    outcomes = {"ok": 0, "error": 0}

    async def ask_again_and_again(site: WorkerSite, over: trio.Event, number: int) -> None:
        while not over.is_set():
            model = draw.choice(("one", "other"))
            with trio.fail_after(100):
                reply = await site.call(chat(model=model, stream=number % 2 == 0, max_tokens=10))
            outcome = "error" if b'"error"' in reply.body else "ok"
            if outcome == "error":
                assert b'"code":"engine_unavailable"' in reply.body
                assert reply.status in (200, 502)
            outcomes[outcome] += 1

    # Deaths are forgotten at once, so that no start has to wait.
    async with open_workers(ONE, OTHER, restart_period_s=0.05) as site:
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(partial(ask_again_and_again, site, over, number))
            for _ in range(8):
                await trio.sleep(draw.uniform(0.1, 0.8))
                alive = [m.id for m in site.runtime.statistics().models if m.worker.pid]
                if alive:
                    site.kill(draw.choice(alive))
            # Left alone they are there again, however long that takes; a stream sees the next kill.
            await site.until(lambda: outcomes["ok"] > 0)
            while not outcomes["error"]:
                await site.until(lambda: site.runtime.statistics().rows_running > 0)
                site.kill(next(m.id for m in site.runtime.statistics().models if m.worker.pid))
            over.set()
        await site.idle()
