"""A model's files in a worker of its own: it is killed in the middle of eight streams, gets no more
memory, and stands still while it loads. Each time it is there again without being asked."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from headrace.actors.provision import Provision, provide
from headrace.runtime.settings import Settings, home_folder
from headrace.runtime.testing.site import Caller, Reply, chat, http
from headrace.runtime.testing.workers import WorkerSite, open_provided

# Reading its vocabulary may keep the loop from beating, on a machine that has more to do.
LOAD_SECONDS = 15.0
READY_SECONDS = 300.0
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits memory by prlimit")
# More than a model says until it is killed, whose steps may cost next to nothing.
ENDLESS = 8000
QUESTION: dict[str, Any] = {"max_tokens": 8, "temperature": 0}


def provided(model: Path | None) -> Provision:
    """What serves the model of a folder; the default one if there is none."""
    home = Path(os.environ.get("HEADRACE_HOME") or home_folder())
    return provide(Settings(home=home, model=None if model is None else str(model)))


def name_of(site: WorkerSite) -> str:
    return site.runtime.current_model().id


async def said(site: WorkerSite) -> str:
    with trio.fail_after(READY_SECONDS):
        reply = await site.call(chat("Name a colour.", **QUESTION))
    assert reply.status == 200, reply
    return str(reply.json["choices"][0]["message"]["content"])


async def ready_again(site: WorkerSite, after: int) -> None:
    """Until it is there without anybody having asked, in another process."""
    await site.until(lambda: site.model(name_of(site)).worker.pid not in (None, after))
    await site.ready(name_of(site), within=READY_SECONDS)


async def frozen_while_it_loads(site: WorkerSite) -> None:
    async with site.dial() as waiting:
        await waiting.send(chat("Hi"))
        await site.until(lambda: bool(site.runtime.trace.events("worker.loading")))
        pid = site.kill(name_of(site), signal.SIGSTOP)
        with trio.fail_after(LOAD_SECONDS + 60):
            reply = Reply.of(await waiting.read_to_end())
    assert (reply.status, reply.code) == (502, "engine_unavailable")
    (silent,) = site.runtime.trace.events("worker.silent")
    assert silent.fields["phase"] == "loading"
    await ready_again(site, pid)


def killed(site: WorkerSite) -> bytes:
    site.kill(name_of(site), signal.SIGKILL)
    return chat("Count.", stream=True)


def starved(site: WorkerSite) -> bytes:
    """The worker gets no more memory from now on, and is asked for what needs a lot."""
    pid = site.pid(name_of(site))
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    return chat("mill " * 3000, stream=True)


def fed(pid: int) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_AS, unlimited)


async def amid_eight_streams(
    site: WorkerSite, strike: Callable[[WorkerSite], bytes], tokens: int
) -> tuple[list[bytes], bytes]:
    """How eight streams end, from their first text on, and the request that the strike names."""
    body = {"prompt": "One, two,", "stream": True, "ignore_eos": True, "max_tokens": tokens}
    completion = http("POST", "/v1/completions", json.dumps(body).encode())
    asked = [chat("Count.", stream=True, ignore_eos=True, max_tokens=tokens), completion] * 4
    callers: list[Caller] = []
    ends: list[bytes] = []

    async def read(caller: Caller) -> None:
        ends.append(await caller.read_to_end())

    async with trio.open_nursery() as dialled:
        for request in asked:
            caller = Caller(await trio.open_tcp_stream("127.0.0.1", site.port))
            callers.append(caller)
            await caller.send(request)
        for caller in callers:
            with trio.fail_after(120):
                await caller.read_until(b'"index":0')
        last = Caller(await trio.open_tcp_stream("127.0.0.1", site.port))
        await last.send(strike(site))
        dialled.cancel_scope.deadline = trio.current_time() + 120
        for caller in callers:
            dialled.start_soon(read, caller)
        answer = await last.read_to_end()
    for caller in (*callers, last):
        await caller.close()
    assert len(ends) == len(asked)
    return ends, answer


async def killed_amid_eight_streams(site: WorkerSite) -> None:
    pid = site.pid(name_of(site))
    ends, _ = await amid_eight_streams(site, killed, ENDLESS)
    for rest in ends:
        assert rest.count(b'"error"') == 1, rest[-300:]
        assert b'"code":"engine_unavailable"' in rest
        assert b"[DONE]" not in rest
    await ready_again(site, pid)
    assert site.model(name_of(site)).worker.exit_signal == signal.SIGKILL
    assert site.model(name_of(site)).worker.restarts >= 1


async def starved_amid_eight_streams(site: WorkerSite) -> None:
    """A failed allocation is an exception of the step, or the end of the process: that depends on
    who asked for the memory. Either way each stream ends once, whole or with one error."""
    pid = site.pid(name_of(site))
    ends, answer = await amid_eight_streams(site, starved, 40)
    assert answer.count(b'"error"') == 1, answer[-300:]
    for rest in ends:
        assert rest.count(b'"error"') + rest.count(b"[DONE]") == 1, rest[-300:]
    dead = b'"code":"engine_unavailable"' in b"".join((answer, *ends))
    if dead:
        await ready_again(site, pid)
        # What MLX does with an allocation that failed, on a CPU.
        assert site.model(name_of(site)).worker.exit_signal in (signal.SIGSEGV, signal.SIGABRT)
    else:
        assert site.pid(name_of(site)) == pid
        fed(pid)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_it_comes_back_after_it_stood_still_while_it_loaded() -> None:
    async with open_provided(provided(None), loaded=False, in_process=False) as site:
        await frozen_while_it_loads(site)
        assert await said(site)


async def comes_back(provided: Provision, fault: Callable[[WorkerSite], Awaitable[None]]) -> None:
    async with open_provided(provided, loaded=False, in_process=False, restart_limit=10) as site:
        before = await said(site)
        await fault(site)
        assert await said(site) == before
        now = site.runtime.statistics()
        left = (now.requests_in_flight, now.queue_depth, now.rows_running, now.leases)
        assert left == (0, 0, 0, 0)


@pytest.mark.timeout(900)
async def test_it_comes_back_from_a_death_as_it_was(small_model: Path | None) -> None:
    await comes_back(provided(small_model), killed_amid_eight_streams)


# That a step which can have no memory ends its rows, and what MLX does then its process, is in each
# run of the tests without this model.
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault",
    [killed_amid_eight_streams, pytest.param(starved_amid_eight_streams, marks=LINUX)],
)
async def test_the_default_model_comes_back_from_a_fault_as_it_was(
    fault: Callable[[WorkerSite], Awaitable[None]],
) -> None:
    await comes_back(provided(None), fault)
