"""Many schedules of a busy house: nothing is left, and one seed tells one story."""

from __future__ import annotations

import itertools

import attrs
import pytest
import trio

from headrace.actors.generation import Generation
from headrace.actors.host import Seat
from headrace.actors.residence import Waiter
from headrace.actors.row import Row
from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import CancelReason, InferenceRequest
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.sink import StreamSink
from headrace.runtime.testing import Choices, ScriptedModel, explore, objects, raising
from headrace.runtime.testing.runtime import Answer, ask, asking, read_all
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.script import ALPHABET

pytestmark = pytest.mark.explore
SETTINGS = Settings(max_rows=3, queue_limit=2, prefill_chunk_tokens=16)
# Long enough for all eight to meet, short enough that many are cancelled in each phase.
SPREAD_SECONDS = 0.15


def request_of(choices: Choices, number: int) -> InferenceRequest:
    prompt = f"{number}" + "x" * choices.pick((0, 10, 40))
    return asking(prompt, id=f"r{number}", max_tokens=choices.between(1, 8))


async def one_client(runtime: Runtime, choices: Choices, number: int) -> Answer | None:
    """Comes at some time; every second one leaves at some time, in one of three ways."""
    await trio.sleep(choices.seconds(SPREAD_SECONDS))
    request = request_of(choices, number)
    leaves_after = choices.seconds(SPREAD_SECONDS)
    if number % 2:
        return await ask(runtime, request)
    match choices.below(3):
        case 0:  # hangs up
            with trio.move_on_after(leaves_after):
                return await ask(runtime, request)
        case 1:  # is ended by its id
            return await cancelled_by_id(runtime, request, leaves_after)
        case 2:  # goes without having read
            async with runtime.request(request):
                await trio.sleep(leaves_after)
    return None


async def cancelled_by_id(runtime: Runtime, request: InferenceRequest, after: float) -> Answer:
    async def cancel() -> None:
        await trio.sleep(after)
        runtime.cancel(request.id)

    async with trio.open_nursery() as nursery, runtime.request(request) as generation:
        nursery.start_soon(cancel)
        answer = await read_all(generation)
        nursery.cancel_scope.cancel()
    return answer


async def eight_clients(runtime: Runtime, choices: Choices) -> dict[int, Answer | None]:
    """All of them, to the last one's end; those with odd numbers stay."""
    answers: dict[int, Answer | None] = {}

    async def client(number: int) -> None:
        answers[number] = await one_client(runtime, choices, number)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(client, number)
    return answers


async def a_busy_house(choices: Choices) -> list[str]:
    async with open_scene(settings=SETTINGS) as scene:
        answers = await eight_clients(scene.runtime, choices)
        scene.baseline.check()
        for number in (1, 3, 5, 7):
            check_survivor(answers[number])
        check_counters(scene)
        return scene.trace()


def check_survivor(answer: Answer | None) -> None:
    """Whoever stays gets the text of its own row, as if it had been alone."""
    assert answer is not None
    if answer.code is not None:
        assert answer.code is Code.QUEUE_FULL
        return
    assert len(answer.text) == answer.accepted.max_tokens
    begin = ALPHABET.index(answer.text[0])
    alone = itertools.islice(itertools.cycle(ALPHABET), begin, begin + len(answer.text))
    assert answer.text == "".join(alone)


def check_counters(scene: Scene) -> None:
    state = scene.runtime.statistics()
    batch = state.models[0].batch
    assert batch.submitted_rows == batch.finished_rows + batch.cancelled_rows
    ended = scene.runtime.trace.events("request.ended")
    assert len(ended) == 8
    cancelled = [event for event in ended if event.fields["outcome"] == "cancelled"]
    assert sum(state.cancelled_total.values()) == len(cancelled)
    reasons: set[CancelReason] = {event.fields["reason"] for event in cancelled}
    assert reasons <= {"api", "disconnect"}


def test_eight_clients_of_whom_half_leave(seeds: range) -> None:
    assert explore(a_busy_house, seeds).schedules == len(seeds)
    explore(a_busy_house, seeds[: len(seeds) // 5], twice=True)


def test_no_sink_or_seat_outlives_its_request(seeds: range) -> None:
    kinds = (Generation, StreamSink, Seat, Row, Waiter)

    async def scenario(choices: Choices) -> None:
        async with open_scene(settings=SETTINGS) as scene:
            await eight_clients(scene.runtime, choices)
            alive = objects()
        assert {kind.__name__: count for kind in kinds if (count := alive[name_of(kind)])} == {}

    # Looking for objects takes longer than the run before it.
    explore(scenario, seeds[: len(seeds) // 8])


def test_with_faults_in_the_engine(seeds: range) -> None:
    async def scenario(choices: Choices) -> list[str]:
        model = ScriptedModel()
        for _ in range(3):
            model.at_step(choices.between(1, 30), raising(OSError("scripted")))
        async with open_scene(model, SETTINGS) as scene:
            answers = await eight_clients(scene.runtime, choices)
            scene.baseline.check()
            check_counters(scene)
            codes = {answer.code for answer in answers.values() if answer is not None}
            assert codes <= {
                None,
                Code.QUEUE_FULL,
                Code.GENERATION_FAILED,
                Code.REQUEST_CANCELLED,
            }
        return scene.trace()

    explore(scenario, seeds)


def test_a_step_that_raises_tells_one_story_too(seeds: range) -> None:
    async def scenario(choices: Choices) -> list[str]:
        async with open_scene() as scene:
            scene.model.at_step(choices.between(1, 5), raising(OSError("scripted")))
            await ask(scene.runtime, asking("hello", max_tokens=8))
            return scene.trace()

    explore(scenario, seeds[:10], twice=True)


def test_with_an_engine_that_hangs(seeds: range) -> None:
    async def scenario(choices: Choices) -> list[str]:
        settings = attrs.evolve(SETTINGS, step_timeout_s=1.0)
        async with open_scene(settings=settings) as scene:
            scene.model.at_step(choices.between(1, 30), scene.device.hang)
            answers = await eight_clients(scene.runtime, choices)
            for number in (1, 3, 5, 7):
                answer = answers[number]
                assert answer is not None
                assert answer.code in (None, Code.QUEUE_FULL, Code.ENGINE_UNAVAILABLE)
            state = scene.runtime.statistics()
            assert (state.requests_in_flight, state.queue_depth, state.leases) == (0, 0, 0)
            if scene.model.hooks.pending == 0:  # a new engine serves whoever comes now
                assert (await ask(scene.runtime, asking("after", max_tokens=1))).code is None
        return scene.trace()

    explore(scenario, seeds)


def test_the_runtime_is_left_in_the_midst_of_it(seeds: range) -> None:
    async def scenario(choices: Choices) -> list[str]:
        model = ScriptedModel()
        answers: dict[int, Answer | None] = {}
        async with trio.open_nursery() as clients, open_scene(model, SETTINGS) as scene:

            async def come() -> None:
                answers.update(await eight_clients(scene.runtime, choices))

            clients.start_soon(come)
            await trio.sleep(choices.seconds(2 * SPREAD_SECONDS))
        for number in (1, 3, 5, 7):
            answer = answers[number]
            assert answer is not None
            assert answer.code in (None, Code.QUEUE_FULL, Code.DRAINING, Code.CLOSED)
        assert [engine.closed for engine in model.engines] == [True]
        assert [misuse for engine in model.engines for misuse in engine.misuses] == []
        return scene.trace()

    explore(scenario, seeds)
    explore(scenario, seeds[: len(seeds) // 5], twice=True)


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
