"""What users have met where memory is short: refusals that are clean, and books that stay right."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.runtime.contracts import InferenceRequest as Request
from headrace.runtime.contracts import Message, Prompt, Sampling
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader, ScriptedModel
from headrace.runtime.testing.runtime import ask, asking, open_scripted

WEIGHTS = 10_000


def small(id: str = "scripted") -> ScriptedModel:
    return ScriptedModel(id=id, weights_bytes=WEIGHTS, kv_bytes_per_token=1, load_seconds=0.01)


def conversation(turns: int) -> Request:
    messages = tuple(
        Message(("user", "assistant")[n % 2], f"turn {n}: " + "words " * 8) for n in range(turns)
    )
    sampling = Sampling(seed=0, temperature=0.0)
    return Request(
        id=f"turn{turns}",
        model=None,
        prompt=Prompt(messages=messages),
        sampling=sampling,
        max_tokens=4,
        stop=(),
        stream=True,
        route="test",
    )


async def test_a_conversation_that_grows_is_refused_in_time_c1(autojump_clock: MockClock) -> None:
    loader = ScriptedLoader(small())
    open_small = open_scripted(loader, memory_bytes=WEIGHTS + 600)
    async with open_small as runtime:
        codes = []
        for turns in range(1, 40, 2):
            answer = await ask(runtime, conversation(turns))
            codes.append(answer.code)
            assert loader.device.peak_bytes <= WEIGHTS + 600
        first = codes.index(Code.CONTEXT_OVER_BUDGET)
        assert codes[:first] == [None] * first
        assert set(codes[first:]) == {Code.CONTEXT_OVER_BUDGET}
        assert first > 2
        # And whoever asks for less is served.
        assert (await ask(runtime, asking("short", max_tokens=2))).code is None


async def test_models_that_take_turns_fifty_times_leave_no_byte_c5(
    autojump_clock: MockClock,
) -> None:
    loader = ScriptedLoader(small("m"), small("m2"))
    async with open_scripted(loader, budget_bytes=WEIGHTS + WEIGHTS // 2) as runtime:
        for _ in range(50):
            for model_id in ("m", "m2"):
                await runtime.load(model_id)
                state = runtime.statistics()
                held = sum(model.bytes for model in state.models if model.state == "ready")
                assert held == loader.device.active_bytes == WEIGHTS
        await runtime.unload("m2")
        assert loader.device.active_bytes == 0
        assert sum(model.bytes for model in runtime.statistics().models) in (0, 2 * WEIGHTS)


async def test_prompts_that_are_dropped_leave_room_for_the_next_c6(
    autojump_clock: MockClock,
) -> None:
    """A long prompt is given up between two of its chunks, a hundred times, and then runs."""
    loader = ScriptedLoader(small())
    settings = Settings(prefill_chunk_tokens=64)
    async with open_scripted(loader, settings, memory_bytes=WEIGHTS + 700) as runtime:
        await runtime.load("scripted")
        await wait_all_tasks_blocked()
        before = loader.device.active_bytes
        for n in range(100):
            with trio.move_on_after(0.05 + n / 1000):
                await ask(runtime, asking("x" * 500, id=f"drop{n}", max_tokens=10))
            state = runtime.statistics()
            assert (state.kv_bytes, state.leases, state.rows_running) == (0, 0, 0)
            assert loader.device.active_bytes == before
        assert (await ask(runtime, asking("x" * 500, max_tokens=10))).code is None
