"""When the engine fails: a clear end for whom it concerns, and the house goes on."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Prompt
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import RowFailed, RowToken, StepResult
from headrace.runtime.settings import Settings
from headrace.runtime.testing import (
    Script,
    ScriptedDevice,
    ScriptedLoader,
    ScriptedModel,
    ScriptedTokenizer,
    joining,
    raising,
)
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted
from headrace.runtime.testing.scene import open_scene


async def together(runtime: Runtime, *texts: str, max_tokens: int = 10) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}

    async def one(text: str) -> None:
        answers[text] = await ask(runtime, asking(text, max_tokens=max_tokens))

    async with trio.open_nursery() as nursery:
        for text in texts:
            nursery.start_soon(one, text)
    return answers


class TestOneStepRaises:
    async def test_its_rows_fail_and_the_next_request_is_served(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene() as scene:
            scene.model.at_step(5, raising(OSError("the device is gone")))
            answers = await together(scene.runtime, "first", "second")
            assert {answer.code for answer in answers.values()} == {Code.GENERATION_FAILED}
            assert (await ask(scene.runtime, asking("third", max_tokens=3))).code is None
            assert len(scene.model.engines) == 1
            await scene.baseline.settle()

    async def test_nothing_of_the_inside_is_shown(self, autojump_clock: MockClock) -> None:
        async with open_scene() as scene:
            scene.model.at_step(2, raising(OSError("/private/path is gone")))
            answer = await ask(scene.runtime, asking("hello"))
            assert "private" not in str(answer.end)
            assert "OSError" not in str(answer.end)
            (event,) = scene.runtime.trace.events("row.failed")
            assert event.fields["reason"] == "OSError: /private/path is gone"

    async def test_a_prefill_that_raises_leaves_the_decoding_rows_alone(
        self, autojump_clock: MockClock
    ) -> None:
        scripts = {"faulty": Script(raise_at=0)}
        async with open_scene(ScriptedModel(scripts=scripts)) as scene:
            alone = await ask(scene.runtime, asking("sound", max_tokens=30))
            async with trio.open_nursery() as nursery:
                comes = joining(nursery, ask, scene.runtime, asking("faulty"))
                # Those that come together are computed together: it comes when the other decodes.
                scene.model.at_step(35, comes, kind="decode")
                answers = await together(scene.runtime, "sound", max_tokens=30)
            assert scene.model.hooks.pending == 0
            assert answers["sound"].text == alone.text
            await scene.baseline.settle()


async def test_a_row_that_the_engine_gives_up_ends_alone(autojump_clock: MockClock) -> None:
    scripts = {"faulty": Script(fail_at=4)}
    async with open_scene(ScriptedModel(scripts=scripts)) as scene:
        alone = await ask(scene.runtime, asking("sound", max_tokens=10))
        answers = await together(scene.runtime, "sound", "faulty")
        assert answers["faulty"].code is Code.GENERATION_FAILED
        assert len(answers["faulty"].text) == 3
        assert answers["sound"].text == alone.text
        await scene.baseline.settle()


async def test_a_row_that_failed_is_gone_before_its_end_has_been_read(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(scripts={"faulty": Script(fail_at=4)})
    async with (
        open_scene(model) as scene,
        scene.runtime.request(asking("faulty", max_tokens=10)),
    ):
        await trio.sleep(1)
        assert scene.runtime.statistics().rows_running == 0


async def test_a_device_without_room_fails_the_rows_of_the_step(autojump_clock: MockClock) -> None:
    device = ScriptedDevice(limit_bytes=1050)
    model = ScriptedModel(weights_bytes=1000, kv_bytes_per_token=1)
    loader = ScriptedLoader(model, device=device)
    async with open_scripted(loader) as runtime:
        assert (await ask(runtime, asking("x" * 100))).code is Code.GENERATION_FAILED
        assert (await ask(runtime, asking("short", max_tokens=5))).code is None
        assert device.active_bytes == 1000
    assert device.active_bytes == 0


class TestTheEngineHangs:
    async def test_the_watchdog_ends_its_requests_and_brings_a_new_engine(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(settings=Settings(step_timeout_s=5)) as scene:
            scene.model.at_step(3, scene.device.hang)
            began = trio.current_time()
            answers = await together(scene.runtime, "first", "second")
            assert trio.current_time() - began == pytest.approx(5, abs=0.1)
            assert {answer.code for answer in answers.values()} == {Code.ENGINE_UNAVAILABLE}
            assert (await ask(scene.runtime, asking("third", max_tokens=3))).code is None
            assert len(scene.model.engines) == 2

    async def test_a_scope_that_is_left_meanwhile_ends_with_the_watchdog(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(settings=Settings(step_timeout_s=5)) as scene:
            scene.model.at_step(3, scene.device.hang)
            began = trio.current_time()
            with trio.move_on_after(1):
                await ask(scene.runtime, asking("hello"))
            assert trio.current_time() - began == pytest.approx(5, abs=0.1)
            assert scene.runtime.statistics().requests_in_flight == 0

    async def test_the_runtime_can_be_left_all_the_same(self, autojump_clock: MockClock) -> None:
        async with open_scene(settings=Settings(step_timeout_s=5)) as scene:
            scene.model.at_step(3, scene.device.hang)
            with trio.move_on_after(1):
                await ask(scene.runtime, asking("hello"))
            left = trio.current_time()
        assert trio.current_time() - left <= 5 + 10


class TestTheEngineReturnsGarbage:
    GARBAGE: tuple[StepResult, ...] = (
        StepResult(tokens=(RowToken(999, 65),)),
        StepResult(tokens=(RowToken(1, 10_000),)),
        StepResult(tokens=(RowToken(1, -1),)),
        StepResult(failed=(RowFailed(999, "who"),)),
        StepResult(tokens=(RowToken(1, 65), RowToken(1, 66))),
    )

    @pytest.mark.parametrize("garbage", GARBAGE, ids=str)
    async def test_each_request_gets_one_end_and_the_house_goes_on(
        self, autojump_clock: MockClock, garbage: StepResult
    ) -> None:
        async with open_scene() as scene:
            scene.model.at_step(3, lambda: garbage)
            answers = await together(scene.runtime, "first", "second", max_tokens=4)
            assert all(answer.end for answer in answers.values())
            assert (await ask(scene.runtime, asking("third", max_tokens=3))).code is None
            await wait_all_tasks_blocked()
            state = scene.runtime.statistics()
            assert (state.rows_running, state.leases, state.kv_bytes) == (0, 0, 0)


class TestTheLoadFails:
    async def test_its_waiters_are_told_and_the_next_load_may_succeed(
        self, autojump_clock: MockClock
    ) -> None:
        failures = [RequestError(Code.LOAD_FAILED, "the file is cut short") for _ in range(2)]
        model = ScriptedModel(load_failures=list(failures))
        loader = ScriptedLoader(model)
        async with open_scripted(loader) as runtime:
            first = await ask(runtime, asking("hello"))
            assert first.code is Code.LOAD_FAILED
            assert runtime.statistics().models[0].state == "load_failed"
            second = await ask(runtime, asking("hello"))
            assert second.code is Code.LOAD_FAILED
            assert (await ask(runtime, asking("hello", max_tokens=1))).code is None
        assert len(loader.loads) == 3

    async def test_an_error_that_is_no_answer_ends_the_waiters_too(
        self, autojump_clock: MockClock
    ) -> None:
        model = ScriptedModel(load_failures=[OSError("disk on fire")])
        async with open_scripted(ScriptedLoader(model)) as runtime:
            answer = await ask(runtime, asking("hello"))
            assert answer.code in (Code.LOAD_FAILED, Code.ENGINE_UNAVAILABLE)
            assert "fire" not in str(answer.end)
            assert (await ask(runtime, asking("hello", max_tokens=1))).code is None

    async def test_all_who_wait_share_one_load(self, autojump_clock: MockClock) -> None:
        loader = ScriptedLoader()
        async with open_scripted(loader) as runtime:
            answers = await together(runtime, *"abcdefgh", max_tokens=2)
        assert {answer.code for answer in answers.values()} == {None}
        assert loader.loads == ["scripted"]


class TestThePromptCannotBeBuilt:
    async def test_the_reason_is_told_where_it_is_an_answer(
        self, autojump_clock: MockClock
    ) -> None:
        class Strict(ScriptedTokenizer):
            def render(self, prompt: Prompt, tools: object = ()) -> str:
                raise RequestError(Code.TEMPLATE_ERROR, "Roles must alternate.", param="messages")

        async with open_scene(ScriptedModel(tokenizer=Strict())) as scene:
            answer = await ask(scene.runtime, asking("hello"))
            assert answer.code is Code.TEMPLATE_ERROR
            assert len(answer.events) == 1
            assert scene.engine.calls == []
            await scene.baseline.settle()

    async def test_and_nothing_of_the_inside_where_it_is_none(
        self, autojump_clock: MockClock
    ) -> None:
        class Broken(ScriptedTokenizer):
            def render(self, prompt: Prompt, tools: object = ()) -> str:
                raise KeyError("merges.txt")

        async with open_scene(ScriptedModel(tokenizer=Broken())) as scene:
            answer = await ask(scene.runtime, asking("hello"))
            assert answer.code is Code.INTERNAL_ERROR
            assert "merges" not in str(answer.end)
            assert len(scene.model.engines) == 1
            await scene.baseline.settle()


class TestRestarts:
    async def test_a_model_that_dies_again_and_again_is_left_alone_until_asked_for_by_hand(
        self, autojump_clock: MockClock
    ) -> None:
        garbage = StepResult(tokens=(RowToken(999, 65),))
        async with open_scene(settings=Settings(restart_limit=2)) as scene:
            codes = []
            for _ in range(3):
                scene.model.at_step(1, lambda: garbage)
                codes.append((await ask(scene.runtime, asking("hello"))).code)
            assert codes == [Code.ENGINE_UNAVAILABLE] * 3
            await trio.sleep(30)
            assert len(scene.model.engines) == 3
            assert scene.runtime.statistics().models[0].state == "crashed"
            refused = await ask(scene.runtime, asking("hello"))
            assert refused.code is Code.ENGINE_UNAVAILABLE

            await scene.runtime.load(scene.model.id)
            assert (await ask(scene.runtime, asking("hello", max_tokens=1))).code is None

    async def test_the_engine_comes_back_without_being_asked(
        self, autojump_clock: MockClock
    ) -> None:
        garbage = StepResult(tokens=(RowToken(999, 65),))
        async with open_scene() as scene:
            scene.model.at_step(1, lambda: garbage)
            await ask(scene.runtime, asking("hello"))
            await trio.sleep(1.5)
            assert scene.runtime.statistics().models[0].state == "ready"
            assert len(scene.model.engines) == 2

    async def test_the_figures_of_a_dead_engine_are_gone_and_its_totals_are_kept(
        self, autojump_clock: MockClock
    ) -> None:
        garbage = StepResult(tokens=(RowToken(999, 65),))
        async with open_scene(settings=Settings(restart_limit=0)) as scene:
            await ask(scene.runtime, asking("before", max_tokens=7))
            scene.model.at_step(12, lambda: garbage, kind="decode")
            answer = await ask(scene.runtime, asking("dies", max_tokens=7))
            assert answer.code is Code.ENGINE_UNAVAILABLE
            await wait_all_tasks_blocked()
            state = scene.runtime.statistics()
            assert (state.rows_running, state.kv_bytes, state.leases) == (0, 0, 0)
            assert state.decoded_tokens_total == 7 + 4

            await scene.runtime.load(scene.model.id)
            await ask(scene.runtime, asking("after", max_tokens=5))
            assert scene.runtime.statistics().decoded_tokens_total == 7 + 4 + 5
