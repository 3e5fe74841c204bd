"""Stopping: what runs may finish within a bound, then every stream ends properly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import attrs
import trio

from headrace.http.serve import Server, serve_runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedModel, Timings
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.site import Caller, Reply, chat, http

ENDED = b'"code":"closed"}}\n\n'


async def connect(port: int, request: bytes) -> Caller:
    caller = Caller(await trio.open_tcp_stream("127.0.0.1", port))
    await caller.send(request)
    return caller


async def once(port: int, request: bytes) -> Reply:
    caller = await connect(port, request)
    async with caller.stream:
        return Reply.of(await caller.read_to_end())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - a server behind sockets sets no event here
        await trio.sleep(0.005)


@attrs.define
class Serving:
    """A server that a story stops, with the times of that and of its end."""

    server: Server
    scene: Scene
    stopped_at: float = 0.0
    ended_at: float = 0.0

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])

    def stop(self) -> None:
        self.stopped_at = trio.current_time()
        self.server.stop()

    async def watch(self) -> None:
        await self.server.ended.wait()
        self.ended_at = trio.current_time()


Story: TypeAlias = Callable[[Serving], Awaitable[None]]
# Nobody waits for so long: who comes to an end at all did not wait for it.
NEVER = 3600.0


async def seconds_to_stop(story: Story, *, drain_seconds: float, **settings: Any) -> float:
    """Serve, let the story stop the server, and say how long the server took to end."""
    model = ScriptedModel(load_seconds=0, timings=Timings(seconds_per_decode=0.02))
    chosen = Settings(port=0, shutdown_timeout_s=drain_seconds, **settings)
    async with open_scene(model, chosen) as scene:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                server = await nursery.start(serve_runtime, scene.runtime)
                serving = Serving(server, scene)
                nursery.start_soon(serving.watch)
                await story(serving)
        await scene.baseline.settle()
    return serving.ended_at - serving.stopped_at


async def test_streams_may_finish_within_the_bound() -> None:
    async def story(serving: Serving) -> None:
        request = chat(stream=True, max_tokens=30)
        callers = [await connect(serving.port, request) for _ in range(8)]
        for caller in callers:
            await caller.read_until(b'"content":"')
        serving.stop()
        for caller in callers:
            async with caller.stream:
                assert b"data: [DONE]\n\n" in await caller.read_to_end()

    await seconds_to_stop(story, drain_seconds=NEVER)


async def test_streams_that_do_not_finish_end_with_an_error_frame_b9() -> None:
    async def story(serving: Serving) -> None:
        callers = [await connect(serving.port, chat(stream=True)) for _ in range(8)]
        for caller in callers:
            await caller.read_until(b'"content":"')
        serving.stop()
        for caller in callers:
            async with caller.stream:
                rest = await caller.read_to_end()
                assert rest.count(ENDED) == 1
                # The body ends cleanly, with its last chunk.
                assert rest.endswith(b"\r\n0\r\n\r\n")

    assert await seconds_to_stop(story, drain_seconds=0.3) >= 0.3


async def test_whole_answers_that_do_not_finish_get_a_503() -> None:
    async def story(serving: Serving) -> None:
        caller = await connect(serving.port, chat())
        runtime = serving.scene.runtime
        await until(lambda: runtime.statistics().rows_running == 1)
        serving.stop()
        async with caller.stream:
            reply = Reply.of(await caller.read_to_end())
        assert (reply.status, reply.code) == (503, "closed")
        assert "retry-after" in reply.headers

    await seconds_to_stop(story, drain_seconds=0.3)


async def test_meanwhile_new_work_is_refused_and_reads_are_answered() -> None:
    async def story(serving: Serving) -> None:
        device = serving.scene.device
        serving.scene.model.at_step(5, device.hang, kind="decode")
        running = await connect(serving.port, chat(stream=True, max_tokens=10))
        await running.read_until(b'"content":"')
        await until(lambda: device.hung)
        serving.stop()
        for stream in (False, True):
            reply = await once(serving.port, chat(stream=stream))
            assert (reply.status, reply.code) == (503, "draining")
            assert int(reply.headers["retry-after"]) >= 1
        health = await once(serving.port, http("GET", "/health"))
        assert (health.status, health.json["status"]) == (503, "draining")
        assert (await once(serving.port, http("GET", "/v1/models"))).status == 200
        device.release()
        async with running.stream:
            assert b"data: [DONE]\n\n" in await running.read_to_end()

    await seconds_to_stop(story, drain_seconds=NEVER)


async def test_a_second_stop_skips_the_wait() -> None:
    async def story(serving: Serving) -> None:
        caller = await connect(serving.port, chat(stream=True))
        await caller.read_until(b'"content":"')
        serving.stop()
        serving.server.stop_now()
        async with caller.stream:
            assert ENDED in await caller.read_to_end()

    await seconds_to_stop(story, drain_seconds=NEVER)


async def test_idle_connections_do_not_hold_the_server() -> None:
    async def story(serving: Serving) -> None:
        fresh = await connect(serving.port, b"")
        used = await connect(serving.port, http("GET", "/health", close=False))
        await used.read_reply()
        serving.stop()
        for caller in (fresh, used):
            async with caller.stream:
                assert await caller.read_to_end() == b""

    await seconds_to_stop(story, drain_seconds=NEVER)


async def test_a_reader_that_has_stalled_does_not_hold_the_server() -> None:
    async def story(serving: Serving) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", serving.port) as stream:
            # Large answers, never read: the server comes to wait for the socket.
            for _ in range(2000):
                with trio.move_on_after(0.2) as blocked:
                    await stream.send_all(http("GET", "/stats", close=False))
                if blocked.cancelled_caught:
                    break
            serving.stop()
            await serving.server.ended.wait()

    await seconds_to_stop(story, drain_seconds=0.2, write_stall_s=NEVER)


async def test_cancelling_the_server_ends_it_at_once() -> None:
    model = ScriptedModel(load_seconds=0)
    async with open_scene(model, Settings(port=0)) as scene:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                server = await nursery.start(partial(serve_runtime, scene.runtime))
                port = int(server.addresses[0].rpartition(":")[2])
                caller = await connect(port, chat(stream=True))
                await caller.read_until(b'"content":"')
                nursery.cancel_scope.cancel()
        await caller.stream.aclose()
        await scene.baseline.settle()
        assert scene.engine.rows == ()
