"""Task completions: the runtime's own rows, under the scope of whoever wants them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from headrace.actors.completing import MOST_CHARACTERS, Completion, Completions
from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import InferenceRequest
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import (
    Choices,
    Hook,
    Script,
    ScriptedLoader,
    ScriptedModel,
    explore,
    raising,
    sweep,
)
from headrace.runtime.testing.runtime import ask, asking, open_scripted
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.sweep import StepsOf

TEXTS = ("a long one", "a short one", "one between")


def saying() -> ScriptedModel:
    """A model whose rows end at different steps: the first of them comes last."""
    scripts = {
        "a long one": Script("a long answer"),
        "a short one": Script("short"),
        "one between": Script("in between"),
    }
    return ScriptedModel(scripts=scripts)


def rows(*texts: str, max_tokens: int = 40) -> list[InferenceRequest]:
    return [asking(text, max_tokens=max_tokens) for text in texts]


def texts_of(completions: Sequence[Completion]) -> list[str]:
    return [completion.text for completion in completions]


async def test_answers_come_in_the_order_of_the_rows(autojump_clock: MockClock) -> None:
    async with open_scene(saying()) as scene:
        said = await Completions(scene.runtime).complete_batch(rows(*TEXTS))
        assert texts_of(said) == ["a long answer", "short", "in between"]
        assert [completion.reason for completion in said] == ["stop"] * 3
        assert [completion.usage.completion_tokens for completion in said] == [13, 5, 10]
        await scene.baseline.settle()


async def test_one_row_alone(autojump_clock: MockClock) -> None:
    async with open_scene(saying()) as scene:
        said = await Completions(scene.runtime).complete(asking("a long one", max_tokens=6))
        assert (said.text, said.reason) == ("a long", "length")
        await scene.baseline.settle()


async def test_no_rows_cost_nothing(autojump_clock: MockClock) -> None:
    loader = ScriptedLoader()
    async with open_scripted(loader) as runtime:
        assert await Completions(runtime).complete_batch([]) == []
        assert loader.loads == []
        assert runtime.trace.events() == []


async def test_a_row_that_asks_for_several_answers_is_a_bug(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        with pytest.raises(ValueError, match="one answer"):
            await Completions(scene.runtime).complete(attrs.evolve(asking("hello"), n=2))


async def test_no_more_rows_run_than_the_call_may_have(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        texts = [f"row {number}" for number in range(7)]
        await Completions(scene.runtime, width=2).complete_batch(rows(*texts, max_tokens=3))
        steps = [call.rows for call in scene.engine.calls if call.kind == "decode"]
        assert max(map(len, steps)) == 2
        assert len(scene.engine.known_rows) == 7
        await scene.baseline.settle()


async def test_a_client_passes_the_rows_that_wait(autojump_clock: MockClock) -> None:
    async with open_scene(settings=Settings(max_rows=1)) as scene, trio.open_nursery() as nursery:
        client = Completions(scene.runtime)
        nursery.start_soon(client.complete_batch, rows("first", "second", "third", max_tokens=5))
        await trio.sleep(0.02)
        nursery.start_soon(ask, scene.runtime, asking("somebody", max_tokens=5))
        await trio.sleep(1)
        texts = ("first", "somebody", "second", "third")
        assert [scene.engine.row_of(text) for text in texts] == sorted(scene.engine.known_rows)


async def test_a_call_has_one_place_in_the_queue(autojump_clock: MockClock) -> None:
    async with open_scene(settings=Settings(max_rows=1, queue_limit=0)) as scene:
        said = await Completions(scene.runtime).complete_batch(rows(*TEXTS, max_tokens=2))
        assert [len(text) for text in texts_of(said)] == [2, 2, 2]


async def test_the_failure_of_one_row_is_that_of_the_call(autojump_clock: MockClock) -> None:
    model = saying()
    model.scripts = {**model.scripts, "a short one": Script("short", fail_at=3)}
    async with open_scene(model) as scene:
        with pytest.raises(RequestError) as failed:
            await Completions(scene.runtime).complete_batch(rows(*TEXTS))
        assert failed.value.code is Code.GENERATION_FAILED
        assert len(failed.value.info.message) <= MOST_CHARACTERS
        # The others have left by the step in which it failed, and none is tried again.
        assert scene.engine.rows == ()
        assert len(scene.engine.known_rows) == 3
        removed = [scene.engine.removed_after(row) for row in scene.engine.known_rows]
        assert max(step or 0 for step in removed) == scene.engine.steps
        await scene.baseline.settle()


async def test_a_step_that_raises_fails_the_call_once(autojump_clock: MockClock) -> None:
    async with open_scene(saying()) as scene:
        scene.model.at_step(4, raising(OSError("scripted")))
        with pytest.raises(RequestError) as failed:
            await Completions(scene.runtime).complete_batch(rows(*TEXTS))
        assert failed.value.code in (Code.GENERATION_FAILED, Code.ENGINE_UNAVAILABLE)
        await trio.testing.wait_all_tasks_blocked()
        assert sum(len(engine.known_rows) for engine in scene.model.engines) <= 3


async def test_a_model_that_cannot_be_loaded(autojump_clock: MockClock) -> None:
    model = ScriptedModel(load_failures=[RequestError(Code.LOAD_FAILED, "x" * 1000)])
    async with open_scripted(ScriptedLoader(model)) as runtime:
        with pytest.raises(RequestError) as failed:
            await Completions(runtime).complete(asking("hello"))
        assert failed.value.code is Code.LOAD_FAILED
        assert len(failed.value.info.message) <= MOST_CHARACTERS


async def test_what_is_wrong_with_one_row_is_known_before_any_runs(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene:
        with pytest.raises(RequestError) as failed:
            await Completions(scene.runtime).complete_batch(rows("good", "x" * 5000))
        assert failed.value.code is Code.CONTEXT_LENGTH_EXCEEDED
        assert scene.engine.known_rows == ()
        await scene.baseline.settle()


@pytest.mark.parametrize("step", [2, 5, 9])
async def test_an_abort_joins_every_row(autojump_clock: MockClock, step: int) -> None:
    async with open_scene() as scene:
        with trio.CancelScope() as scope:
            scene.model.at_step(step, scope.cancel, kind="decode")
            await Completions(scene.runtime).complete_batch(rows(*TEXTS))
        # No moment later: when the call has returned, its rows have left the batch.
        assert scope.cancelled_caught
        assert scene.engine.rows == ()
        removed = [scene.engine.removed_after(row) for row in scene.engine.known_rows]
        assert removed == [scene.engine.steps] * 3
        scene.baseline.check()


async def test_a_row_can_be_cancelled_by_its_id(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        scene.model.at_step(5, cancelling(scene.runtime, "a short one"))
        with pytest.raises(RequestError) as failed:
            await Completions(scene.runtime).complete_batch(rows(*TEXTS))
        assert failed.value.code is Code.REQUEST_CANCELLED
        await scene.baseline.settle()


def cancelling(runtime: Runtime, request_id: str) -> Hook:
    def hook() -> None:
        runtime.cancel(request_id)

    return hook


@pytest.mark.parametrize("of", ["task", "run"])
async def test_a_cancel_at_every_step(autojump_clock: MockClock, of: StepsOf) -> None:
    async with open_scene(saying()) as scene:
        client = Completions(scene.runtime, width=2)

        async def call() -> None:
            said = await client.complete_batch(rows(*TEXTS, max_tokens=2))
            assert texts_of(said) == ["a ", "sh", "in"]

        async def check() -> None:
            scene.baseline.check()
            assert (await client.complete(asking("a short one", max_tokens=1))).text == "s"
            await scene.baseline.settle()

        # The task that calls waits for its rows in one place.
        assert await sweep(call, check, of=of) > (20 if of == "run" else 0)


@pytest.mark.explore
def test_calls_beside_each_other_in_any_order(seeds: range) -> None:
    """Each call gets all of its own texts, one error, or its cancellation, and nothing stays."""

    async def scenario(choices: Choices) -> list[str]:
        model, codes = saying(), list[Code]()
        if choices.chance(3):
            model.scripts = {**model.scripts, "one between": Script("in", fail_at=2)}
        async with open_scene(model, Settings(max_rows=3, prefill_chunk_tokens=16)) as scene:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    client = Completions(scene.runtime, width=2)
                    nursery.start_soon(one_call, client, choices, codes)
            scene.baseline.check()
        assert set(codes) <= {Code.GENERATION_FAILED}
        return scene.trace()

    explore(scenario, seeds[:20], twice=True)


async def one_call(client: Completions, choices: Choices, codes: list[Code]) -> None:
    await trio.sleep(choices.seconds(0.1))
    texts = [choices.pick(TEXTS) for _ in range(choices.below(4))]
    leaves_after = choices.seconds(0.4) if choices.chance() else 1000.0
    asked = [attrs.evolve(row, id=f"{n} {row.id}") for n, row in enumerate(rows(*texts))]
    with trio.move_on_after(leaves_after):
        try:
            said = await client.complete_batch(asked)
        except RequestError as error:
            codes.append(error.code)
        else:
            expected = {"a long one": "a long answer", "a short one": "short"}
            assert texts_of(said) == [expected.get(text, "in between") for text in texts]
