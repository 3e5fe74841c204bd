"""A server as a process of its own: signals, exit codes, and nothing left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from headrace.runtime.testing.site import Caller, Reply, chat, http

SERVER = """
import logging, sys, time, trio
from headrace.actors.spec import ModelSpec
from headrace.actors.provision import Provision
from headrace.http.serve import serve_until_signal
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedDevice, ScriptedLoader, ScriptedModel

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
device = ScriptedDevice(sleep=time.sleep)
loader = ScriptedLoader(ScriptedModel(load_seconds=float(sys.argv[2])), device=device)
settings = Settings(port=0, shutdown_timeout_s=float(sys.argv[1]))
provision = Provision((ModelSpec("scripted", "scripted", 1),), loader, 1_000_000_000)
trio.run(serve_until_signal, settings, provision)
"""


@asynccontextmanager
async def process(*, drain: float, load: float = 0.0) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-c", SERVER, str(drain), str(load)]
    started = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        with trio.CancelScope(shield=True):
            await started.wait()
        assert started.stdout is not None
        await trio.aclose_forcefully(started.stdout)


async def port_of(server: trio.Process) -> int:
    """The port in the line that says where the server listens."""
    assert server.stdout is not None
    said = b""
    with trio.fail_after(60):
        while (match := re.search(rb"listening on http://127.0.0.1:(\d+)", said)) is None:
            said += await server.stdout.receive_some()
    return int(match[1])


async def streams(port: int, count: int, **fields: Any) -> list[Caller]:
    callers = [Caller(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(count)]
    for caller in callers:
        await caller.send(chat(stream=True, **fields))
    for caller in callers:
        await caller.read_until(b'"content":"')
    return callers


async def health(port: int) -> str:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        caller = Caller(stream)
        await caller.send(http("GET", "/health"))
        return str(Reply.of(await caller.read_to_end()).json["status"])


async def ends(callers: list[Caller]) -> list[bytes]:
    rests = []
    for caller in callers:
        async with caller.stream:
            rests.append(await caller.read_to_end())
    return rests


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_streams_finish_and_the_exit_code_is_0(number: signal.Signals) -> None:
    async with process(drain=600) as server:
        callers = await streams(await port_of(server), 8, max_tokens=40)
        server.send_signal(number)
        with trio.fail_after(60):
            assert all(b"data: [DONE]\n\n" in rest for rest in await ends(callers))
            assert await server.wait() == 0


async def test_streams_without_end_are_ended_properly_b9() -> None:
    async with process(drain=0.5) as server:
        callers = await streams(await port_of(server), 8)
        server.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            rests = await ends(callers)
            assert [rest.count(b'"code":"closed"') for rest in rests] == [1] * 8
            assert all(rest.endswith(b"\r\n0\r\n\r\n") for rest in rests)
            assert await server.wait() == 0


async def test_a_second_signal_does_not_wait() -> None:
    async with process(drain=600) as server:
        port = await port_of(server)
        callers = await streams(port, 1)
        server.send_signal(signal.SIGTERM)
        while (await health(port)) != "draining":  # noqa: ASYNC110 - it is another process
            await trio.sleep(0.02)
        assert server.poll() is None
        server.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert b'"code":"closed"' in (await ends(callers))[0]
            assert await server.wait() == 0


async def test_a_signal_while_a_model_loads_ends_the_server_too() -> None:
    async with process(drain=5, load=1.0) as server:
        await port_of(server)
        server.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert await server.wait() == 0
