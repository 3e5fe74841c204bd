"""Readers of all paces get the same text, and cost nobody else anything."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.contracts import Accepted, ChoiceEnded, Delta, Event, Failed, Finished
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.runtime import ask, asking, read_all
from headrace.runtime.testing.scene import Scene, open_scene


async def test_the_events_come_in_their_order(autojump_clock: MockClock) -> None:
    async with open_scene(ScriptedModel(scripts={"": Script("Hi!")})) as scene:
        answer = await ask(scene.runtime, asking("greet"))
    kinds = [type(event) for event in answer.events]
    assert kinds == [Accepted, Delta, Delta, Delta, ChoiceEnded, Finished]
    assert answer.text == "Hi!"
    assert isinstance(answer.end, Finished)
    assert answer.end.reason == "stop"
    assert answer.end.usage.completion_tokens == 3
    assert answer.end.usage.prompt_tokens == len("user: greet\nassistant: ")


@pytest.mark.parametrize("pause", [0, 0.001, 0.01, 0.033, 0.5, 2])
async def test_a_slow_reader_gets_the_same_text_in_larger_pieces(
    autojump_clock: MockClock, pause: float
) -> None:
    async with open_scene() as scene:
        expected = (await ask(scene.runtime, asking("count", max_tokens=40))).text
        events = []
        async with scene.runtime.request(asking("count", max_tokens=40)) as generation:
            async for event in generation:
                events.append(event)
                await trio.sleep(pause)
        deltas = [event for event in events if isinstance(event, Delta)]
        assert "".join(delta.text for delta in deltas) == expected
        assert sum(delta.tokens for delta in deltas) == 40
        if pause > 0.5:
            assert len(deltas) == 1
        await scene.baseline.settle()


async def test_a_reader_may_look_in_between_without_losing_anything(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene:
        expected = (await ask(scene.runtime, asking("count", max_tokens=20))).text
        got, silences = list[Event](), 0
        async with scene.runtime.request(asking("count", max_tokens=20)) as generation:
            while not got or not isinstance(got[-1], Finished):
                with trio.move_on_after(0.004) as scope:
                    got.append(await generation.receive())
                silences += scope.cancelled_caught
        assert "".join(event.text for event in got if isinstance(event, Delta)) == expected
        assert silences > 20


async def test_a_reader_who_has_stopped_holds_no_row_once_the_row_is_done(
    autojump_clock: MockClock,
) -> None:
    async with open_scene(settings=Settings(write_stall_s=1000)) as scene:
        async with scene.runtime.request(asking("count", max_tokens=10)) as generation:
            await trio.sleep(5)
            state = scene.runtime.statistics()
            held = (state.rows_running, state.kv_bytes, state.leases, state.queue_depth)
            assert held == (0, 0, 0, 0)
            assert state.requests_in_flight == 1
            assert len((await read_all(generation)).text) == 10
        await scene.baseline.settle()


class TestStall:
    async def test_a_reader_who_stops_in_the_midst_is_ended(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(settings=Settings(write_stall_s=3)) as scene:
            async with scene.runtime.request(asking("count")) as generation:
                await generation.receive()
                await trio.sleep(3.1)
                self.assert_free(scene)
                answer = await read_all(generation)
            assert answer.code is Code.REQUEST_CANCELLED
            assert len(answer.text) == pytest.approx(300, abs=5)
            assert scene.runtime.statistics().cancelled_total["stall"] == 1
            await scene.baseline.settle()

    async def test_a_reader_who_never_began_is_ended(self, autojump_clock: MockClock) -> None:
        async with open_scene(settings=Settings(write_stall_s=3)) as scene:
            async with scene.runtime.request(asking("count")):
                await trio.sleep(3.1)
                self.assert_free(scene)
            await scene.baseline.settle()

    async def test_a_reader_who_reads_now_and_then_is_not(self, autojump_clock: MockClock) -> None:
        async with open_scene(settings=Settings(write_stall_s=3)) as scene:
            async with scene.runtime.request(asking("count", max_tokens=2000)) as generation:
                events = []
                async for event in generation:
                    events.append(event)
                    await trio.sleep(2.9)
            assert isinstance(events[-1], Finished)
            assert set(scene.runtime.statistics().cancelled_total.values()) == {0}

    async def test_a_reader_who_waits_for_a_silent_row_is_not(
        self, autojump_clock: MockClock
    ) -> None:
        silent = Script(tokens=(0xF0,), end=False)
        model = ScriptedModel(scripts={"": silent}, context_window=2000)
        stop = "\ufffd" * 5000
        async with open_scene(model, Settings(write_stall_s=3)) as scene:
            answer = await ask(scene.runtime, asking("hush", stop=(stop,)))
        assert trio.current_time() > 15
        assert isinstance(answer.end, Finished)

    async def test_neighbours_do_not_notice(self, autojump_clock: MockClock) -> None:
        async with open_scene(settings=Settings(write_stall_s=3)) as scene:
            expected = (await ask(scene.runtime, asking("reads", max_tokens=500))).text
            began = trio.current_time()
            async with scene.runtime.request(asking("stalls")):
                answer = await ask(scene.runtime, asking("reads", max_tokens=500))
            # Steps take the same time for one row as for two, so it is as fast as alone.
            assert trio.current_time() - began == pytest.approx(5.04, abs=0.1)
        assert answer.text == expected

    @staticmethod
    def assert_free(scene: Scene) -> None:
        state = scene.runtime.statistics()
        assert (state.rows_running, state.kv_bytes, state.leases) == (0, 0, 0)
        assert scene.engine.rows == ()


class TestText:
    async def test_a_stop_string_ends_the_row_and_is_not_shown(
        self, autojump_clock: MockClock
    ) -> None:
        alphabet = Script("ABCDEFGHIJKLMNOP")
        async with open_scene(ScriptedModel(scripts={"": alphabet})) as scene:
            answer = await ask(scene.runtime, asking("say it", stop=("DEFGHIJ",)))
            assert answer.text == "ABC"
            assert isinstance(answer.end, Finished)
            assert (answer.end.reason, answer.end.matched_stop) == ("stop", "DEFGHIJ")
            row = scene.engine.row_of("say it")
            assert len(scene.engine.steps_of(row)) == 1 + len("ABCDEFGHIJ")
            await scene.baseline.settle()

    async def test_characters_come_whole(self, autojump_clock: MockClock) -> None:
        text = "ďábel 👩‍👩‍👧 日本"
        async with open_scene(ScriptedModel(scripts={"": Script(text)})) as scene:
            answer = await ask(scene.runtime, asking("say it"))
        assert answer.text == text
        deltas = [event.text for event in answer.events if isinstance(event, Delta)]
        assert "\ufffd" not in "".join(deltas)
        assert len(deltas) == len(text)

    async def test_a_character_cut_at_the_end_becomes_one_replacement(
        self, autojump_clock: MockClock
    ) -> None:
        cut = Script(tokens=(0x41, 0xF0, 0x9F))
        async with open_scene(ScriptedModel(scripts={"": cut})) as scene:
            answer = await ask(scene.runtime, asking("say it", max_tokens=3))
        assert answer.text == "A\ufffd"
        assert isinstance(answer.end, Finished)
        assert (answer.end.reason, answer.end.usage.completion_tokens) == ("length", 3)


async def test_a_request_tells_its_stage(autojump_clock: MockClock) -> None:
    model = ScriptedModel(context_window=8192)
    async with open_scene(model, Settings(prefill_chunk_tokens=256)) as scene:
        stages: list[str] = []

        def note() -> None:
            (report,) = scene.runtime.requests()
            stages.append(report.stage)

        model.at_step(2, note, kind="prefill")
        model.at_step(2, note, kind="decode")
        async with scene.runtime.request(asking("x" * 600, id="r", max_tokens=3)) as generation:
            await read_all(generation)
            await trio.lowlevel.checkpoint()
            (report,) = scene.runtime.requests()
        assert [*stages, generation.stage] == ["prefilling", "decoding", "ended"]
        assert (report.id, report.model, report.generated_tokens) == ("r", "scripted", 3)
        assert scene.runtime.requests() == ()


async def test_a_refusal_is_one_event_and_then_the_end(autojump_clock: MockClock) -> None:
    request = asking("hello", model="nobody")
    async with open_scene() as scene, scene.runtime.request(request) as generation:
        assert isinstance(await generation.receive(), Failed)
        for _ in range(2):
            with pytest.raises(trio.EndOfChannel):
                await generation.receive()
