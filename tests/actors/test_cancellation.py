"""A request is a scope: when it is left, its row leaves at the next step boundary.

Each story cancels at an exact engine step, and then asks the engine's own record how long the
row stayed. Steps are numbered from 1; time is virtual.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Accepted, Delta, InferenceRequest
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Script, ScriptedDevice, ScriptedLoader, ScriptedModel
from headrace.runtime.testing.hooks import StepKind
from headrace.runtime.testing.runtime import ask, asking, open_scripted, read_all
from headrace.runtime.testing.scene import Scene, open_scene

LONG_PROMPT = "x" * 4000
CHUNKED = Settings(prefill_chunk_tokens=256)


async def leave_at(
    scene: Scene, request: InferenceRequest, step: int, kind: StepKind, *, read: bool = True
) -> None:
    """Be in the request's scope, and leave it while that step runs."""
    with trio.CancelScope() as scope:
        scene.model.at_step(step, scope.cancel, kind=kind)
        async with scene.runtime.request(request) as generation:
            if read:
                await read_all(generation)
            await trio.sleep_forever()
    assert scope.cancelled_caught


def assert_gone_within_the_step(scene: Scene, text: str, step: int) -> None:
    row = scene.engine.row_of(text)
    assert scene.engine.steps_of(row)[-1] == step
    assert scene.engine.removed_after(row) == step
    assert scene.engine.rows == ()
    assert scene.engine.kv_bytes() == 0


class TestInEachPhase:
    @pytest.mark.parametrize("chunk", [1, 2, 9, 15])
    async def test_prefill(self, autojump_clock: MockClock, chunk: int) -> None:
        async with open_scene(ScriptedModel(context_window=8192), CHUNKED) as scene:
            await leave_at(scene, asking(LONG_PROMPT), chunk, "prefill")
            assert_gone_within_the_step(scene, LONG_PROMPT, step=chunk)
            assert scene.runtime.statistics().decoded_tokens_total == 0
            await scene.baseline.settle()

    @pytest.mark.parametrize("token", [1, 2, 17])
    async def test_decode(self, autojump_clock: MockClock, token: int) -> None:
        async with open_scene() as scene:
            await leave_at(scene, asking("count"), token, "decode")
            assert_gone_within_the_step(scene, "count", step=1 + token)
            await scene.baseline.settle()

    async def test_decode_without_stream(self, autojump_clock: MockClock) -> None:
        async with open_scene() as scene:
            await leave_at(scene, asking("count", stream=False), 5, "decode")
            assert_gone_within_the_step(scene, "count", step=6)
            await scene.baseline.settle()

    async def test_nobody_reads(self, autojump_clock: MockClock) -> None:
        async with open_scene() as scene:
            await leave_at(scene, asking("count"), 40, "decode", read=False)
            assert_gone_within_the_step(scene, "count", step=41)
            await scene.baseline.settle()

    async def test_silent(self, autojump_clock: MockClock) -> None:
        # The row says the first byte of a character over and over: there is nothing to show.
        lead_byte = Script(tokens=(0xF0,), end=False)
        stop = "\ufffd" * 1000
        async with open_scene(ScriptedModel(scripts={"": lead_byte})) as scene:
            with trio.CancelScope() as scope:
                scene.model.at_step(30, scope.cancel, kind="decode")
                async with scene.runtime.request(asking("hush", stop=(stop,))) as generation:
                    await generation.receive()
                    event = await generation.receive()
                    pytest.fail(f"the silent row said {event}")
            assert_gone_within_the_step(scene, "hush", step=31)
            await scene.baseline.settle()

    async def test_loading(self, autojump_clock: MockClock) -> None:
        loader = ScriptedLoader()
        async with open_scripted(loader) as runtime:
            with trio.move_on_after(0.4):
                async with runtime.request(asking("early")) as generation:
                    await trio.sleep(0.3)
                    assert generation.stage == "loading"
                    await read_all(generation)
            assert trio.current_time() == 0.4
            await wait_all_tasks_blocked()
            state = runtime.statistics()
            assert (state.requests_in_flight, state.queue_depth, state.leases) == (0, 0, 0)
            # The load is shared, so it goes on, and the model serves whoever comes next.
            await ask(runtime, asking("late", max_tokens=1))
            assert loader.loads == ["scripted"]
            with pytest.raises(LookupError, match="0 rows"):
                loader.model.engine.row_of("early")

    async def test_queued(self, autojump_clock: MockClock) -> None:
        async with (
            open_scene(settings=Settings(max_rows=1)) as scene,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ask, scene.runtime, asking("running", max_tokens=50))
            await trio.sleep(0.1)  # it decodes by now
            before = trio.current_time()
            with trio.move_on_after(0.123):
                async with scene.runtime.request(asking("waiting")) as generation:
                    await wait_all_tasks_blocked()
                    assert generation.stage == "queued"
                    assert scene.runtime.statistics().queue_depth == 1
                    await read_all(generation)
            # Its prompt was built already, and is dropped at the boundary of the others' step.
            assert trio.current_time() <= before + 0.123 + 0.010
            await wait_all_tasks_blocked()
            assert scene.runtime.statistics().queue_depth == 0
            with pytest.raises(LookupError, match="0 rows"):
                scene.engine.row_of("waiting")
        assert scene.engine.misuses == []

    async def test_the_very_beginning(self, autojump_clock: MockClock) -> None:
        async with open_scene() as scene:
            with trio.CancelScope() as scope:
                scope.cancel()
                async with scene.runtime.request(asking("never")):
                    pass
            await scene.baseline.settle()
            assert scene.engine.calls == []


async def test_the_scope_ends_with_the_step_in_which_it_was_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene:
        with trio.CancelScope() as scope:
            async with scene.runtime.request(asking("count")) as generation:
                while not isinstance(await generation.receive(), Delta):
                    pass
                # The next step has begun and takes ten milliseconds; cancel in its middle.
                began = trio.current_time()
                await trio.sleep(0.004)
                scope.cancel()
                await read_all(generation)
        assert trio.current_time() == pytest.approx(began + 0.010)
        assert scene.engine.rows == ()


async def test_the_api_ends_a_request_and_its_reader_is_told(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        scene.model.at_step(3, lambda: _cancelled(scene.runtime, "r7"), kind="decode")
        answer = await ask(scene.runtime, asking("count", id="r7"))
        assert answer.code is Code.REQUEST_CANCELLED
        assert len(answer.text) == 2
        assert_gone_within_the_step(scene, "count", step=4)
        assert scene.runtime.statistics().cancelled_total["api"] == 1
        assert not scene.runtime.cancel("r7")
        await scene.baseline.settle()


def _cancelled(runtime: Runtime, request_id: str) -> None:
    assert runtime.cancel(request_id)


async def test_a_request_that_is_cancelled_twice_ends_once(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        async with scene.runtime.request(asking("count", id="r")) as generation:
            await generation.receive()
            scene.runtime.cancel("r")
            generation.cancel("timeout")
            answer = await read_all(generation)
        assert answer.code is Code.REQUEST_CANCELLED
        totals = scene.runtime.statistics().cancelled_total
        assert (totals["api"], totals["timeout"], totals["disconnect"]) == (1, 0, 0)
        await scene.baseline.settle()


async def test_a_scope_that_was_read_to_its_end_was_not_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene:
        await ask(scene.runtime, asking("count", max_tokens=3))
        assert set(scene.runtime.statistics().cancelled_total.values()) == {0}
        await scene.baseline.settle()


async def test_a_scope_left_before_its_end_was_read_counts_as_a_disconnect(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene:
        async with scene.runtime.request(asking("count", max_tokens=3)) as generation:
            await generation.receive()
        assert scene.runtime.statistics().cancelled_total["disconnect"] == 1
        await scene.baseline.settle()


async def test_cancelling_in_the_step_that_ends_the_row_is_no_trouble(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene:
        with trio.CancelScope() as scope:
            scene.model.at_step(3, scope.cancel, kind="decode")
            async with scene.runtime.request(asking("count", max_tokens=3)) as generation:
                await read_all(generation)
        assert_gone_within_the_step(scene, "count", step=4)
        await scene.baseline.settle()


async def test_an_error_in_the_scope_comes_out_as_itself(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:

        async def fails() -> None:
            async with scene.runtime.request(asking("count")) as generation:
                await generation.receive()
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await fails()
        await scene.baseline.settle()


async def test_every_row_that_was_submitted_is_counted_as_finished_or_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene, trio.open_nursery() as nursery:
        nursery.start_soon(ask, scene.runtime, asking("finishes", max_tokens=9))
        await trio.sleep(0.055)
        # Goes in the very step in which it was submitted, so it never joins the batch.
        async with scene.runtime.request(asking("hurries")) as generation:
            assert isinstance(await generation.receive(), Accepted)
        await trio.sleep(1)
        batch = scene.runtime.statistics().models[0].batch
        assert (batch.finished_rows, batch.cancelled_rows) == (1, batch.submitted_rows - 1)


async def test_a_hundred_cancelled_at_once_are_all_gone_at_the_next_boundary(
    autojump_clock: MockClock,
) -> None:
    async with open_scene(settings=Settings(max_rows=100, queue_limit=0)) as scene:
        with trio.CancelScope() as scope:
            scene.model.at_step(20, scope.cancel)
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(ask, scene.runtime, asking(f"row {number:03}"))
        assert scene.engine.steps == 20
        await scene.baseline.settle()


async def test_the_lease_is_back_when_the_scope_is_left(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        async with scene.runtime.request(asking("count", max_tokens=3)) as generation:
            await read_all(generation)
        scene.baseline.check()


async def test_when_the_runtime_is_left_its_requests_end_with_closed(
    autojump_clock: MockClock,
) -> None:
    codes: list[Code | None] = []

    async def reader(runtime: Runtime) -> None:
        codes.append((await ask(runtime, asking("count"))).code)

    async with trio.open_nursery() as readers:
        async with open_scene() as scene:
            readers.start_soon(reader, scene.runtime)
            await trio.sleep(0.5)
        assert scene.engine.closed
    assert codes == [Code.CLOSED]
    assert scene.engine.misuses == []


async def test_cancelling_around_the_whole_runtime_ends_everything(
    autojump_clock: MockClock,
) -> None:
    device = ScriptedDevice()
    model = ScriptedModel()
    with trio.CancelScope() as scope:
        model.at_step(10, scope.cancel)
        async with (
            open_scripted(ScriptedLoader(model, device=device)) as runtime,
            trio.open_nursery() as nursery,
        ):
            for number in range(3):
                nursery.start_soon(ask, runtime, asking(f"row {number}"))
    assert scope.cancelled_caught
    assert model.engine.closed
    assert device.active_bytes == 0
    assert model.engine.misuses == []
