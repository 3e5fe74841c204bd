"""Several models: one load each, never more bytes than there are, and a lease is never broken."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors import local
from headrace.actors.runtime import Runtime
from headrace.runtime.errors import Code
from headrace.runtime.testing import (
    Choices,
    ScriptedDevice,
    ScriptedLoader,
    ScriptedModel,
    explore,
)
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted

WEIGHTS = 1000


def two_models(limit_bytes: int | None = None) -> ScriptedLoader:
    models = [ScriptedModel(id=name, weights_bytes=WEIGHTS, kv_bytes_per_token=0) for name in "ab"]
    return ScriptedLoader(*models, device=ScriptedDevice(limit_bytes=limit_bytes))


async def ask_all(runtime: Runtime, *names: str, max_tokens: int = 20) -> list[Answer]:
    answers: list[Answer] = []

    async def one(number: int, model: str) -> None:
        request = asking(f"{number} to {model}", model=model, max_tokens=max_tokens)
        answers.append(await ask(runtime, request))

    async with trio.open_nursery() as nursery:
        for number, model in enumerate(names):
            nursery.start_soon(one, number, model)
    return answers


async def test_two_models_that_fit_serve_side_by_side(autojump_clock: MockClock) -> None:
    loader = two_models()
    async with open_scripted(loader) as runtime:
        answers = await ask_all(runtime, "a", "b", "a", "b")
        assert {answer.code for answer in answers} == {None}
        assert sorted(loader.loads) == ["a", "b"]
        assert [model.state for model in runtime.statistics().models] == ["ready", "ready"]


async def test_two_that_do_not_fit_take_turns_within_the_budget(autojump_clock: MockClock) -> None:
    loader = two_models(limit_bytes=WEIGHTS)
    async with open_scripted(loader, budget_bytes=WEIGHTS) as runtime:
        answers = await ask_all(runtime, "a", "b")
        assert {answer.code for answer in answers} == {None}
        await wait_all_tasks_blocked()
        assert runtime.statistics().leases == 0
    assert loader.device.peak_bytes == WEIGHTS
    assert loader.device.active_bytes == 0


async def test_a_model_in_use_is_not_taken_away(autojump_clock: MockClock) -> None:
    loader = two_models(limit_bytes=WEIGHTS)
    async with open_scripted(loader, budget_bytes=WEIGHTS) as runtime:
        order: list[str] = []

        async def client(model: str, max_tokens: int) -> None:
            request = asking(f"to {model}", model=model, max_tokens=max_tokens)
            answer = await ask(runtime, request)
            assert len(answer.text) == max_tokens
            order.append(model)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client, "a", 500)
            await trio.sleep(1.5)
            nursery.start_soon(client, "b", 1)
        assert order == ["a", "b"]
        assert loader.loads == ["a", "b"]


async def test_swapping_to_and_fro_leaves_the_memory_as_it_was(autojump_clock: MockClock) -> None:
    loader = two_models(limit_bytes=WEIGHTS)
    async with open_scripted(loader, budget_bytes=WEIGHTS) as runtime:
        for _ in range(10):
            for name in "ab":
                answer = await ask(runtime, asking("hello", model=name, max_tokens=2))
                assert answer.code is None
                assert loader.device.active_bytes == WEIGHTS
    assert loader.loads == list("ab") * 10
    assert all(engine.closed for engine in loader.engines())
    assert [misuse for engine in loader.engines() for misuse in engine.misuses] == []


async def test_whoever_waits_for_a_swap_may_leave(autojump_clock: MockClock) -> None:
    loader = two_models(limit_bytes=WEIGHTS)
    async with (
        open_scripted(loader, budget_bytes=WEIGHTS) as runtime,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ask, runtime, asking("long", model="a", max_tokens=300))
        await trio.sleep(1.5)
        with trio.move_on_after(0.5):
            await ask(runtime, asking("impatient", model="b"))
        await wait_all_tasks_blocked()
        assert runtime.statistics().requests_in_flight == 1
        answer = await ask(runtime, asking("more", model="a", max_tokens=2))
        assert answer.code is None
        assert loader.loads == ["a"]


async def test_one_that_never_fits_is_refused_or_served_alone(autojump_clock: MockClock) -> None:
    loader = two_models(limit_bytes=WEIGHTS - 1)
    async with open_scripted(loader, budget_bytes=WEIGHTS - 1) as runtime:
        answer = await ask(runtime, asking("hello", model="a"))
        assert answer.code is Code.LOAD_FAILED
    assert loader.device.active_bytes == 0


def test_under_every_schedule_of_swaps_the_memory_holds(seeds: range) -> None:
    async def scenario(choices: Choices) -> list[str]:
        loader = two_models(limit_bytes=WEIGHTS)
        async with open_scripted(loader, budget_bytes=WEIGHTS) as runtime:

            async def client(number: int) -> None:
                await trio.sleep(choices.seconds(4))
                request = asking(f"{number}", model=choices.pick("ab"), max_tokens=5)
                if choices.chance(3):
                    with trio.move_on_after(choices.seconds(3)):
                        await ask(runtime, request)
                else:
                    assert (await ask(runtime, request)).code is None

            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(client, number)
            await wait_all_tasks_blocked()
            state = runtime.statistics()
            assert (state.leases, state.requests_in_flight, state.queue_depth) == (0, 0, 0)
        assert loader.device.peak_bytes == WEIGHTS
        assert loader.device.active_bytes == 0
        assert [misuse for engine in loader.engines() for misuse in engine.misuses] == []
        return [str(event) for event in runtime.trace.events()]

    explore(scenario, seeds)
    explore(scenario, seeds[: len(seeds) // 5], twice=True)


async def test_what_steps_need_is_not_counted_as_the_models(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is measured in workers, whose process holds nothing else."""
    monkeypatch.setattr(local, "LocalRunner", partial(local.LocalRunner, measures=True))
    loader = two_models()
    async with open_scripted(loader) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(ask, runtime, asking("hello", model="a", max_tokens=400))
        await trio.sleep(1)
        loader.device.allocate(500)
        await trio.sleep(2)
        model = runtime.model("a")
        assert model.memory is not None
        assert model.memory.active_bytes >= WEIGHTS + 500
        assert model.bytes == WEIGHTS
        await trio.sleep(60)
        # It is still there when no row is any more, so it belongs to the model.
        assert runtime.model("a").bytes == WEIGHTS + 500
        loader.device.free(500)
