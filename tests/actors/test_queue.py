"""Admission: who runs, who waits in which order, who is refused and with what words."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.admission import Plan
from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Accepted, Failed
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Choices, ScriptedModel, explore
from headrace.runtime.testing.runtime import Answer, ask, asking
from headrace.runtime.testing.scene import open_scene


class Clients:
    """Requests by name, and the order in which they were accepted and ended."""

    def __init__(self, runtime: Runtime, nursery: trio.Nursery) -> None:
        self._runtime = runtime
        self._nursery = nursery
        self.accepted: list[str] = []
        self.answers: dict[str, Answer] = {}

    async def come(self, name: str, max_tokens: int = 5) -> None:
        """Arrive, and let everything happen that can happen at once."""
        self._nursery.start_soon(self._ask, name, max_tokens)
        await wait_all_tasks_blocked()

    async def _ask(self, name: str, max_tokens: int) -> None:
        async with self._runtime.request(asking(name, max_tokens=max_tokens)) as generation:
            events = []
            async for event in generation:
                events.append(event)
                if isinstance(event, Accepted):
                    self.accepted.append(name)
        self.answers[name] = Answer(tuple(events))


async def test_no_more_rows_run_than_are_allowed(autojump_clock: MockClock) -> None:
    settings = Settings(max_rows=2)
    async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
        clients = Clients(scene.runtime, nursery)
        for name in "abcde":
            await clients.come(name, max_tokens=20)
        await trio.sleep(0.1)
        state = scene.runtime.statistics()
        assert (state.rows_running, state.queue_depth) == (2, 3)
        assert (state.models[0].batch.max_rows, state.models[0].batch.waiting_rows) == (2, 3)
    assert max(len(call.rows) for call in scene.engine.calls) == 2
    assert all(answer.code is None for answer in clients.answers.values())


def test_who_waits_is_admitted_in_the_order_of_arrival() -> None:
    async def scenario(choices: Choices) -> None:
        async with open_scene(settings=Settings(max_rows=1)) as scene:
            async with trio.open_nursery() as nursery:
                clients = Clients(scene.runtime, nursery)
                for name in "abcdef":
                    await clients.come(name, max_tokens=3)
            assert clients.accepted == list("abcdef")
            assert list(clients.answers) == list("abcdef")

    explore(scenario, range(20))


async def test_a_place_is_free_as_soon_as_its_row_has_left(autojump_clock: MockClock) -> None:
    async with open_scene(settings=Settings(max_rows=1)) as scene:
        async with trio.open_nursery() as nursery:
            clients = Clients(scene.runtime, nursery)
            await clients.come("ahead", max_tokens=4)
            await clients.come("behind", max_tokens=4)
        ahead, behind = scene.engine.row_of("ahead"), scene.engine.row_of("behind")
        assert scene.engine.steps_of(behind)[0] == scene.engine.steps_of(ahead)[-1] + 1


class TestOverflow:
    async def test_is_refused_at_once_with_a_time_to_come_back(
        self, autojump_clock: MockClock
    ) -> None:
        settings = Settings(max_rows=1, queue_limit=2)
        async with open_scene(settings=settings) as scene:
            async with trio.open_nursery() as nursery:
                clients = Clients(scene.runtime, nursery)
                for name in "abcde":
                    await clients.come(name)
                refused = {
                    name for name, answer in clients.answers.items() if answer.code is not None
                }
                assert refused == {"d", "e"}
                end = clients.answers["d"].end
                assert isinstance(end, Failed)
                assert end.error.code is Code.QUEUE_FULL
                assert end.error.retry_after_seconds is not None
                assert end.error.retry_after_seconds > 0
                assert len(clients.answers["d"].events) == 1
            assert set(clients.accepted) == {"a", "b", "c"}
            await scene.baseline.settle()

    async def test_ends_when_somebody_leaves_the_queue(self, autojump_clock: MockClock) -> None:
        settings = Settings(max_rows=1, queue_limit=1)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            clients = Clients(scene.runtime, nursery)
            await clients.come("runs", max_tokens=100)
            with trio.move_on_after(0.05):
                await ask(scene.runtime, asking("waits a while"))
            await clients.come("comes after", max_tokens=1)
            assert clients.answers == {}
        assert clients.answers["comes after"].code is None

    async def test_without_a_queue_only_rows_have_places(self, autojump_clock: MockClock) -> None:
        settings = Settings(max_rows=2, queue_limit=0)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            clients = Clients(scene.runtime, nursery)
            for name in "abc":
                await clients.come(name)
            assert list(clients.answers) == ["c"]
            assert clients.answers["c"].code is Code.QUEUE_FULL

    async def test_the_time_to_come_back_holds(self, autojump_clock: MockClock) -> None:
        settings = Settings(max_rows=1, queue_limit=1)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            clients = Clients(scene.runtime, nursery)
            for number in range(4):  # so that the rate is known
                await ask(scene.runtime, asking(f"before {number}", max_tokens=50))
            for name in "abc":
                await clients.come(name, max_tokens=50)
            end = clients.answers["c"].end
            assert isinstance(end, Failed)
            seconds = end.error.retry_after_seconds
            assert seconds is not None
            await trio.sleep(seconds)
            await clients.come("again", max_tokens=1)
        assert clients.answers["again"].code is None

    async def test_all_of_a_crowd_who_come_back_when_told_to_are_served(
        self, autojump_clock: MockClock
    ) -> None:
        """Given two rows and four places more, when 30 come at once and those without a place
        come again when they are told to, then each is answered the second time at the latest."""
        settings = Settings(max_rows=2, queue_limit=4)
        async with open_scene(settings=settings) as scene:
            for number in range(4):  # so that the rate is known
                await ask(scene.runtime, asking(f"before {number}", max_tokens=50))
            codes: list[Code | None] = []

            async def obeying(name: str) -> None:
                answer = await ask(scene.runtime, asking(name, max_tokens=50))
                if answer.code is Code.QUEUE_FULL:
                    assert isinstance(answer.end, Failed)
                    assert answer.end.error.retry_after_seconds is not None
                    await trio.sleep(answer.end.error.retry_after_seconds)
                    answer = await ask(scene.runtime, asking(name, max_tokens=50))
                codes.append(answer.code)

            async with trio.open_nursery() as nursery:
                for number in range(30):
                    nursery.start_soon(obeying, f"client {number}")
            assert codes == [None] * 30


async def test_the_limit_of_the_queue_is_none_for_a_row_that_runs(
    autojump_clock: MockClock,
) -> None:
    """Given a queue in which nobody may wait for more than a second, when an answer takes three,
    then it is told to its end."""
    began = trio.current_time()
    async with open_scene(settings=Settings(queue_timeout_s=1)) as scene:
        answer = await ask(scene.runtime, asking("runs", max_tokens=300))
    assert trio.current_time() > began + 2
    assert answer.code is None
    assert len(answer.text) == 300


async def test_whoever_waits_too_long_is_told(autojump_clock: MockClock) -> None:
    settings = Settings(max_rows=1, queue_timeout_s=2)
    async with open_scene(settings=settings) as scene:
        async with trio.open_nursery() as nursery:
            clients = Clients(scene.runtime, nursery)
            await clients.come("runs", max_tokens=500)
            await clients.come("waits")
            began = trio.current_time()
            while "waits" not in clients.answers:
                await wait_all_tasks_blocked()
                await trio.sleep(0.01)
            assert trio.current_time() - began == pytest.approx(2, abs=0.03)
            assert clients.answers["waits"].code is Code.QUEUE_TIMEOUT
            assert scene.runtime.statistics().queue_depth == 0
        await scene.baseline.settle()


async def test_the_time_in_the_queue_does_not_limit_the_answer(autojump_clock: MockClock) -> None:
    async with open_scene(settings=Settings(queue_timeout_s=2)) as scene:
        began = trio.current_time()
        answer = await ask(scene.runtime, asking("count", max_tokens=500))
        assert trio.current_time() - began > 4
        assert (answer.code, len(answer.text)) == (None, 500)


async def test_a_request_has_a_time_limit_and_keeps_what_it_said(
    autojump_clock: MockClock,
) -> None:
    async with open_scene(settings=Settings(request_timeout_s=0.5)) as scene:
        answer = await ask(scene.runtime, asking("count"))
        assert answer.code is None
        assert 40 <= len(answer.text) <= 50
        assert not isinstance(answer.end, Failed)
        assert answer.end.reason == "length"
        assert [warning.code for warning in answer.end.warnings] == ["stopped_early"]
        assert scene.runtime.statistics().cancelled_total["timeout"] == 1
        await scene.baseline.settle()


async def test_a_time_limit_that_passes_before_any_text_is_an_error(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(context_window=8192)
    async with open_scene(model, Settings(request_timeout_s=0.5)) as scene:
        answer = await ask(scene.runtime, asking("x" * 4000))
        assert answer.code is Code.REQUEST_DEADLINE
        await scene.baseline.settle()


class TestRoom:
    """A prompt is counted as `user: ` + text + newline + `assistant: `, letter by letter."""

    OVERHEAD = len("user: \nassistant: ")

    async def test_a_cap_beyond_the_window_is_clamped_and_said(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(ScriptedModel(context_window=100)) as scene:
            prompt = "x" * (90 - self.OVERHEAD)
            answer = await ask(scene.runtime, asking(prompt, max_tokens=50))
        assert (answer.accepted.prompt_tokens, answer.accepted.max_tokens) == (90, 10)
        assert len(answer.accepted.warnings) == 1
        assert len(answer.text) == 10

    async def test_a_prompt_that_fills_the_window_is_refused(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(ScriptedModel(context_window=100)) as scene:
            answer = await ask(scene.runtime, asking("x" * (101 - self.OVERHEAD)))
            assert [type(event) for event in answer.events] == [Failed]
            assert answer.code is Code.CONTEXT_LENGTH_EXCEEDED
            assert scene.engine.calls == []
            await scene.baseline.settle()

    async def test_without_a_cap_the_room_is_the_cap(self, autojump_clock: MockClock) -> None:
        async with open_scene(ScriptedModel(context_window=60)) as scene:
            answer = await ask(scene.runtime, asking("count"))
        assert len(answer.text) == 60 - self.OVERHEAD - len("count")
        assert answer.accepted.warnings == ()


async def test_an_unknown_model_is_refused_before_anything_else(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        answer = await ask(scene.runtime, asking("hello", model="nobody"))
        assert answer.code is Code.MODEL_NOT_FOUND
        assert len(answer.events) == 1
        await scene.baseline.settle()


def test_a_plan_is_leave_for_one_use() -> None:
    plan = Plan("t1", 5, ())
    assert plan.take() == 5
    with pytest.raises(RuntimeError, match="the plan of t1 was used twice"):
        plan.take()
