"""Several prompts in one request: scopes beside each other that are one to their client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.runtime import Runtime
from headrace.http.several import open_work
from headrace.http.wire.answer import Answer
from headrace.runtime.contracts import Accepted, Event, Failed, Finished, InferenceRequest
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedModel, Timings
from headrace.runtime.testing.runtime import ask, asking
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.site import Reply, http, open_site

COMPLETIONS = "/v1/completions"


def prompts(count: int, *, max_tokens: int = 3) -> list[InferenceRequest]:
    return [asking(f"p{number}", max_tokens=max_tokens) for number in range(count)]


async def run(runtime: Runtime, requests: Sequence[InferenceRequest]) -> list[Event]:
    async with open_work(runtime, requests) as work:
        return await work.receive_all()


def texts(events: Sequence[Event], count: int) -> list[str]:
    return [choice.text for choice in Answer.of(events, count).choices]


class TestTogether:
    async def test_each_prompt_is_answered_as_it_is_alone(self, autojump_clock: MockClock) -> None:
        async with open_scene() as scene:
            alone = [(await ask(scene.runtime, request)).text for request in prompts(3)]
            together = await run(scene.runtime, prompts(3))
            assert texts(together, 3) == alone
            finished = together[-1]
            assert isinstance(finished, Finished)
            assert finished.usage.completion_tokens == 9
            scene.baseline.check()

    async def test_a_single_prompt_needs_nothing_more(self, autojump_clock: MockClock) -> None:
        async with open_scene() as scene:
            (alone,) = prompts(1)
            assert texts(await run(scene.runtime, [alone]), 1) == [
                (await ask(scene.runtime, alone)).text
            ]

    async def test_more_prompts_than_places_take_turns(self, autojump_clock: MockClock) -> None:
        settings = Settings(max_rows=2, queue_limit=0)
        async with open_scene(settings=settings) as scene:
            events = await run(scene.runtime, prompts(9))
            assert all(len(text) == 3 for text in texts(events, 9))
            assert max(len(call.rows) for call in scene.engine.calls) == 2
            scene.baseline.check()

    async def test_choices_count_where_rows_do(self, autojump_clock: MockClock) -> None:
        async with open_scene(settings=Settings(max_rows=4)) as scene:
            several = [attrs.evolve(request, n=2) for request in prompts(3)]
            async with open_work(scene.runtime, several) as work:
                await wait_all_tasks_blocked()
                stages = [report.stage for report in scene.runtime.requests()]
                assert sorted(stages) == ["prefilling", "prefilling", "queued"]
                work.cancel("api")

    async def test_a_reader_that_was_cut_short_misses_nothing(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene() as scene, open_work(scene.runtime, prompts(3)) as work:
            events: list[Event] = []
            while not (events and isinstance(events[-1], Finished)):
                with trio.move_on_after(0.001):
                    events += await work.receive()
            assert all(len(text) == 3 for text in texts(events, 3))


class TestEnds:
    async def test_one_failure_is_the_end_of_all(self, autojump_clock: MockClock) -> None:
        model = ScriptedModel(context_window=64)
        async with open_scene(model) as scene:
            requests = [*prompts(2, max_tokens=50), asking("x" * 100)]
            events = await run(scene.runtime, requests)
            end = events[-1]
            assert isinstance(end, Failed)
            assert end.error.code is Code.CONTEXT_LENGTH_EXCEEDED
            scene.baseline.check()

    async def test_cancelling_ends_those_that_run_and_those_that_wait(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(settings=Settings(max_rows=2)) as scene:
            async with open_work(scene.runtime, prompts(5, max_tokens=1000)) as work:
                assert isinstance((await work.receive())[0], Accepted)
                work.cancel("api")
                await work.wait_released()
                end = (await work.receive_all())[-1]
                assert isinstance(end, Failed)
                assert end.error.code is Code.REQUEST_CANCELLED
                assert work.cancelled == "api"
            scene.baseline.check()

    async def test_leaving_leaves_nothing_behind(self, autojump_clock: MockClock) -> None:
        async with open_scene(settings=Settings(max_rows=2)) as scene:
            async with open_work(scene.runtime, prompts(5, max_tokens=1000)) as work:
                await work.receive()
            scene.baseline.check()
            assert scene.runtime.statistics().requests_in_flight == 0


class TestFullQueue:
    async def test_a_request_without_a_single_place_is_refused(
        self, autojump_clock: MockClock
    ) -> None:
        settings = Settings(max_rows=1, queue_limit=0)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            nursery.start_soon(ask, scene.runtime, asking("ahead", max_tokens=500))
            await wait_all_tasks_blocked()
            (end,) = await run(scene.runtime, prompts(3))
            assert isinstance(end, Failed)
            assert end.error.code is Code.QUEUE_FULL
            assert end.error.retry_after_seconds is not None

    async def test_its_prompts_share_one_place(self, autojump_clock: MockClock) -> None:
        settings = Settings(max_rows=1, queue_limit=1)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            nursery.start_soon(ask, scene.runtime, asking("ahead", max_tokens=500))
            await wait_all_tasks_blocked()
            async with open_work(scene.runtime, prompts(4)) as work:
                await wait_all_tasks_blocked()
                assert scene.runtime.statistics().queue_depth == 1
                refused = await ask(scene.runtime, asking("behind"))
                assert refused.code is Code.QUEUE_FULL
                events = await work.receive_all()
            assert all(len(text) == 3 for text in texts(events, 4))

    async def test_waiting_for_the_first_row_has_an_end(self, autojump_clock: MockClock) -> None:
        settings = Settings(max_rows=1, queue_timeout_s=2)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            nursery.start_soon(ask, scene.runtime, asking("ahead", max_tokens=4000))
            await wait_all_tasks_blocked()
            end = (await run(scene.runtime, prompts(3)))[-1]
            assert isinstance(end, Failed)
            assert end.error.code is Code.QUEUE_TIMEOUT
            nursery.cancel_scope.cancel()

    async def test_its_later_prompts_wait_for_its_own_and_not_in_the_queue(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(settings=Settings(max_rows=2, queue_timeout_s=2)) as scene:
            began = trio.current_time()
            events = await run(scene.runtime, prompts(6, max_tokens=200))
            assert trio.current_time() - began > 5
            assert all(len(text) == 200 for text in texts(events, 6))

    async def test_others_come_between_its_prompts(self, autojump_clock: MockClock) -> None:
        async with (
            open_scene(settings=Settings(max_rows=1)) as scene,
            open_work(scene.runtime, prompts(3, max_tokens=50)) as work,
        ):
            assert isinstance((await work.receive())[0], Accepted)
            other = await ask(scene.runtime, asking("other", max_tokens=1))
            assert other.code is None
            rows = [scene.engine.row_of(name) for name in ("p0", "other")]
            assert scene.engine.known_rows[:2] == tuple(rows)
            await work.receive_all()


def completion(prompt: Any, **fields: Any) -> bytes:
    return http("POST", COMPLETIONS, json.dumps({"prompt": prompt, **fields}).encode())


def slow() -> ScriptedModel:
    return ScriptedModel(load_seconds=0, timings=Timings(seconds_per_decode=0.02))


def chunks(reply: Reply) -> list[dict[str, Any]]:
    data = [frame.removeprefix("data: ") for frame in reply.frames if frame[0] != ":"]
    assert data.pop() == "[DONE]"
    return [json.loads(item) for item in data]


class TestOverTheWire:
    async def test_a_stream_says_what_the_plain_answer_says(self) -> None:
        async with open_site() as site:
            asked = {"prompt": ["a", "b", "c"], "max_tokens": 4, "echo": True}
            whole = (await site.call(completion(**asked))).json
            reply = await site.call(completion(**asked, stream=True))
            said = ["", "", ""]
            for chunk in chunks(reply):
                (choice,) = chunk["choices"]
                said[choice["index"]] += choice["text"]
            assert said == [choice["text"] for choice in whole["choices"]]
            assert [text[0] for text in said] == ["a", "b", "c"]
            await site.idle()

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_disconnect_ends_them_all_a1(self, stream: bool) -> None:
        async with open_site(slow(), max_rows=2) as site:
            async with site.dial() as caller:
                await caller.send(completion(["a"] * 5, max_tokens=4000, stream=stream))
                await site.until(lambda: site.scene.runtime.statistics().rows_running == 2)
            await site.idle()

    async def test_they_are_cancelled_by_one_id(self) -> None:
        async with open_site(slow()) as site:
            async with site.dial() as caller:
                await caller.send(completion(["a", "b"], max_tokens=4000))
                await site.until(lambda: site.scene.runtime.statistics().rows_running == 2)
                listed = (await site.call(http("GET", "/v1/requests"))).json["data"]
                (name,) = {row["response_id"] for row in listed}
                assert name.startswith("cmpl-")
                deleted = await site.call(http("DELETE", f"/v1/requests/{name}"))
                assert deleted.json["status"] == "cancelled"
                reply = Reply.of(await caller.read_to_end())
                assert (reply.status, reply.code) == (499, "request_cancelled")
            await site.idle()

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("wrong", "code", "param"),
        [
            ("x" * 5000, "context_length_exceeded", "prompt[6]"),
            ([1, 2, 300], "invalid_token_id", "prompt[6][2]"),
        ],
    )
    async def test_what_is_wrong_with_a_late_prompt_is_said_before_anything_runs_h6(
        self, stream: bool, wrong: Any, code: str, param: str
    ) -> None:
        good: Any = "a" if isinstance(wrong, str) else [65]
        async with open_site(max_rows=2) as site:
            asked = completion([*[good] * 6, wrong, good], stream=stream, max_tokens=2)
            reply = await site.call(asked)
            assert (reply.status, reply.code) == (400, code)
            assert reply.json["error"]["param"] == param
            assert site.scene.engine.known_rows == ()
            await site.idle()

    @pytest.mark.parametrize(
        ("prompt", "param"),
        [
            ([1, 300], "prompt[1]"),
            ([[1, 300]], "prompt[0][1]"),
            ("x" * 5000, "prompt"),
            (["x" * 5000], "prompt[0]"),
            (["x", "x" * 5000], "prompt[1]"),
        ],
    )
    async def test_what_is_wrong_is_named_by_its_place(self, prompt: Any, param: str) -> None:
        async with open_site() as site:
            reply = await site.call(completion(prompt))
            assert (reply.status, reply.json["error"]["param"]) == (400, param)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_prompt_that_is_too_long_is_named_k1(self, stream: bool) -> None:
        async with open_site() as site:
            reply = await site.call(completion("x" * 5000, stream=stream))
            assert (reply.status, reply.code) == (400, "context_length_exceeded")
            assert reply.json["error"]["param"] == "prompt"
            assert "maximum context length is 4096 tokens" in reply.json["error"]["message"]
