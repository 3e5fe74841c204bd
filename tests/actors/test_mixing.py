"""Where an engine can, a piece of a prompt and a token for each stream are one step."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.contracts import Failed
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Call, Script, ScriptedModel, raising
from headrace.runtime.testing.runtime import Answer, ask, asking
from headrace.runtime.testing.scene import open_scene

CHUNK = 16
STREAM_TOKENS = 40
LONG = "a long prompt " * 20


async def streams_and_a_long_prompt(model: ScriptedModel) -> tuple[list[Answer], list[Call]]:
    """Two streams, and a long prompt that comes when they run. Their answers, the long one's last,
    and the engine's steps from its coming on."""
    answers: dict[str, Answer] = {}

    async def one(text: str, tokens: int) -> None:
        answers[text] = await ask(scene.runtime, asking(text, max_tokens=tokens))

    async with open_scene(model, settings=Settings(prefill_chunk_tokens=CHUNK)) as scene:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "first", STREAM_TOKENS)
            nursery.start_soon(one, "second", STREAM_TOKENS)
            await trio.sleep(0.1)
            before = len(model.engine.calls)
            nursery.start_soon(one, LONG, 3)
        assert not model.engine.misuses
        calls = model.engine.calls[before:]
    return [answers[text] for text in ("first", "second", LONG)], calls


async def test_streams_go_on_within_the_steps_of_a_long_prompt(autojump_clock: MockClock) -> None:
    in_turns, apart = await streams_and_a_long_prompt(ScriptedModel())
    mixed, together = await streams_and_a_long_prompt(ScriptedModel(mixes=True))
    assert [answer.text for answer in mixed] == [answer.text for answer in in_turns]
    kinds = [call.kind for call in together if call.kind in ("prefill", "decode")]
    pieces = kinds.count("prefill")
    assert pieces > 10
    # One after the other, with no decode between: the streams were given theirs in each of them.
    first = kinds.index("prefill")
    assert kinds[first : first + pieces] == ["prefill"] * pieces
    assert len(kinds) <= len([c for c in apart if c.kind in ("prefill", "decode")]) - pieces + 1


async def test_a_failing_piece_takes_those_of_its_step_along(autojump_clock: MockClock) -> None:
    """As with any step that raises: the rows that were in it end, and the model goes on."""
    model = ScriptedModel(mixes=True)

    async with open_scene(model, settings=Settings(prefill_chunk_tokens=CHUNK)) as scene:
        answers: list[Answer] = []

        async def one(text: str) -> None:
            answers.append(await ask(scene.runtime, asking(text, max_tokens=30)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "stream")
            await trio.sleep(0.1)
            model.at_step(3, raising(RuntimeError("broken")), kind="prefill")
            nursery.start_soon(one, LONG)
        assert [type(answer.end) for answer in answers] == [Failed, Failed]
        assert len((await ask(scene.runtime, asking("after", max_tokens=2))).text) == 2
        await scene.baseline.settle()


@pytest.mark.parametrize("fails_at", [0, 2])
async def test_a_stream_that_fails_beside_a_piece_is_alone_in_that(
    autojump_clock: MockClock, fails_at: int
) -> None:
    scripts = {"fails": Script(fail_at=fails_at)}
    model = ScriptedModel(mixes=True, scripts=scripts)
    async with open_scene(model, settings=Settings(prefill_chunk_tokens=CHUNK)) as scene:
        answers: dict[str, Answer] = {}

        async def one(text: str, tokens: int) -> None:
            answers[text] = await ask(scene.runtime, asking(text, max_tokens=tokens))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "stream", 30)
            await trio.sleep(0.1)
            nursery.start_soon(one, LONG, 3)
            nursery.start_soon(one, "fails", 10)
        assert isinstance(answers["fails"].end, Failed)
        assert len(answers["stream"].text) == 30
        assert len(answers[LONG].text) == 3
