"""The server's own end, with workers under it: however it goes, they go too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from headrace.runtime.testing.site import Caller, Reply, chat, http
from headrace.runtime.testing.workers import START_SECONDS, is_alive

SERVER = """
import logging, sys, trio
from headrace.http.serve import serve_until_signal
from headrace.runtime.settings import Settings
from headrace.runtime.testing.planned import WorkerModel
from headrace.runtime.testing.workers import provision

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
drain, load = map(float, sys.argv[1:])
settings = Settings(port=0, in_process=False, shutdown_timeout_s=drain)
model = WorkerModel(id="a", load_seconds=load)
trio.run(serve_until_signal, settings, provision(model))
"""


@attrs.frozen
class Program:
    """A server in a process of its own."""

    process: trio.Process
    port: int

    async def dial(self) -> Caller:
        return Caller(await trio.open_tcp_stream("127.0.0.1", self.port))

    async def engine(self) -> Any:
        caller = await self.dial()
        async with caller.stream:
            await caller.send(http("GET", "/engine"))
            return Reply.of(await caller.read_to_end()).json

    async def worker_pid(self) -> int:
        """The worker's process id, once there is one."""
        with trio.fail_after(START_SECONDS):
            while True:
                engine = await self.engine()
                if engine["pid"]:
                    return int(engine["pid"])
                await trio.sleep(0.02)

    async def streams(self, count: int) -> list[Caller]:
        """Streams without end, each with its first text read."""
        callers = [await self.dial() for _ in range(count)]
        for caller in callers:
            await caller.send(chat(stream=True))
        with trio.fail_after(START_SECONDS):
            for caller in callers:
                await caller.read_until(b'"content":"')
        return callers


@asynccontextmanager
async def program(*, drain: float = 20.0, load: float = 0.0) -> AsyncIterator[Program]:
    command = [sys.executable, "-c", SERVER, str(drain), str(load)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        said = b""
        with trio.fail_after(START_SECONDS):
            while (match := re.search(rb"listening on http://127.0.0.1:(\d+)", said)) is None:
                heard = await process.stdout.receive_some()
                assert heard, "the server has ended"
                said += heard
        yield Program(process, int(match[1]))
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        await trio.aclose_forcefully(process.stdout)


async def until(holds: Callable[[], bool], within: float = 60.0) -> None:
    with trio.fail_after(within):
        while not holds():  # noqa: ASYNC110 - a process that dies sets no event here
            await trio.sleep(0.02)


async def close(callers: list[Caller]) -> list[bytes]:
    rests = []
    for caller in callers:
        async with caller.stream:
            rests.append(await caller.read_to_end())
    return rests


async def test_workers_of_a_killed_server_go_too() -> None:
    async with program() as server:
        callers = await server.streams(2)
        worker = await server.worker_pid()
        server.process.kill()
        await server.process.wait()
        await until(lambda: not is_alive(worker))
        for caller in callers:
            await caller.close()


async def test_so_is_a_worker_that_was_still_loading_while_the_server_answered() -> None:
    async with program(load=300.0) as server:
        worker = await server.worker_pid()
        assert (await server.engine())["state"] == "starting"
        # In the load, and not in the imports before it.
        await trio.sleep(2.0)
        assert is_alive(worker)
        server.process.kill()
        await server.process.wait()
        await until(lambda: not is_alive(worker))


async def test_sigterm_ends_streams_worker_and_server_and_the_exit_code_is_0_b9() -> None:
    async with program(drain=0.5) as server:
        callers = await server.streams(4)
        worker = await server.worker_pid()
        server.process.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            rests = await close(callers)
            assert await server.process.wait() == 0
        assert [rest.count(b'"code":"closed"') for rest in rests] == [1] * 4
        assert not any(b"[DONE]" in rest for rest in rests)
        assert not is_alive(worker)


async def test_a_worker_that_stands_still_does_not_keep_the_server_from_its_end_b9() -> None:
    async with program(drain=0.2) as server:
        staying, leaving = await server.streams(2)
        worker = await server.worker_pid()
        os.kill(worker, signal.SIGSTOP)
        await leaving.close()
        server.process.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            (rest,) = await close([staying])
            assert rest.count(b'"code":"closed"') == 1
            assert await server.process.wait() == 0
        assert not is_alive(worker)
