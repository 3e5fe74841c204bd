"""Requests that read a model: they share its batch, hold what they need, and leave nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from headrace.actors.deciding import softmax
from headrace.runtime.contracts import Failed, Finished, Request, Usage
from headrace.runtime.errors import Code
from headrace.runtime.readings import (
    Decided,
    DecisionRequest,
    Embedded,
    EmbeddingRequest,
    EmbeddingTraits,
    Question,
)
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader, ScriptedModel, raising, sweep
from headrace.runtime.testing.read import vector_of
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted, read_all
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.sweep import StepsOf

EVERY = pytest.mark.parametrize("of", ["task", "run"])
TRAITS = EmbeddingTraits(width=4, pooling="mean")
QUESTIONS = (
    Question("questions.a", "Is it?", ("true", "false")),
    Question("questions.b", "Which?", ("red", "green", "blue"), temperature=2.0),
)


def embedder(**settings: object) -> ScriptedModel:
    return ScriptedModel(embedding=TRAITS, **settings)  # type: ignore[arg-type]


def embedding(*inputs: str | tuple[int, ...], **fields: object) -> EmbeddingRequest:
    settings: dict[str, object] = {"id": "e", "model": "scripted", "inputs": inputs} | fields
    return EmbeddingRequest(**settings)  # type: ignore[arg-type]


def decision(state: str = "the state", questions: Sequence[Question] = QUESTIONS) -> Request:
    return DecisionRequest("d", "scripted", state, tuple(questions))


def vectors(answer: Answer) -> list[bytes]:
    assert isinstance(answer.end, Finished), answer.end
    found = {event.index: event.vector for event in answer.events if isinstance(event, Embedded)}
    return [found[index] for index in range(len(found))]


def decided(answer: Answer) -> list[tuple[float, ...]]:
    assert isinstance(answer.end, Finished), answer.end
    return [event.probabilities for event in answer.events if isinstance(event, Decided)]


class TestEmbeddings:
    async def test_each_input_has_its_vector_and_usage_counts_them_all(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene(embedder()) as scene:
            answer = await ask(scene.runtime, embedding("some", "text", (1, 2, 3)))
            expected = [vector_of(b"some"), vector_of(b"text"), vector_of((1, 2, 3))]
            assert vectors(answer) == expected
            assert answer.end == Finished("stop", Usage(11, 0))
            await scene.baseline.settle()

    async def test_texts_of_several_requests_share_passes_by_their_length(
        self, autojump_clock: MockClock
    ) -> None:
        short, long = ["a", "bb", "cc", "d"], ["x" * 200, "y" * 220]
        settings = Settings(prefill_chunk_tokens=512, prefill_chunk_s=0)
        async with open_scene(embedder(), settings) as scene:
            answers: dict[str, list[bytes]] = {}

            async def embed(name: str, inputs: list[str]) -> None:
                answers[name] = vectors(await ask(scene.runtime, embedding(*inputs, id=name)))

            async with trio.open_nursery() as nursery:
                # A pass of half a second, at whose end all that has come meanwhile is there.
                nursery.start_soon(embed, "before", ["z" * 500])
                await trio.sleep(0.1)
                for name, inputs in [("first", [*short, long[0]]), ("second", [long[1], *short])]:
                    nursery.start_soon(embed, name, inputs)
            passes = [len(call.rows) for call in scene.engine.calls if call.kind == "prefill"]
            assert passes == [1, 8, 2]
            assert answers["first"] == [vector_of(text.encode()) for text in [*short, long[0]]]
            assert answers["second"] == [vector_of(text.encode()) for text in [long[1], *short]]

    async def test_sixty_four_texts_keep_their_order(self, autojump_clock: MockClock) -> None:
        texts = [chr(97 + n % 26) * (1 + 37 * n % 200) for n in range(64)]
        async with open_scene(embedder(), Settings(prefill_chunk_tokens=256)) as scene:
            found = vectors(await ask(scene.runtime, embedding(*texts)))
            assert found == [vector_of(text.encode()) for text in texts]
            passes = [call for call in scene.engine.calls if call.kind == "prefill"]
            assert 1 < len(passes) < len(texts)

    async def test_one_that_leaves_ends_with_the_pass_that_runs(
        self, autojump_clock: MockClock
    ) -> None:
        settings = Settings(prefill_chunk_tokens=100, prefill_chunk_s=0)
        async with open_scene(embedder(), settings) as scene:
            async with scene.runtime.request(embedding(*["x" * 100] * 10)) as generation:
                while not isinstance(await generation.receive(), Embedded):
                    pass
                steps = scene.engine.steps
            assert scene.engine.steps <= steps + 1
            scene.baseline.check()

    @EVERY
    async def test_leaving_at_any_point_leaves_nothing(
        self, autojump_clock: MockClock, of: StepsOf
    ) -> None:
        async with open_scene(embedder(), Settings(prefill_chunk_tokens=16)) as scene:

            async def request() -> None:
                assert len(vectors(await ask(scene.runtime, embedding("a", "b" * 40, "c")))) == 3

            async def check() -> None:
                scene.baseline.check()
                after = await ask(scene.runtime, embedding("after"))
                assert vectors(after) == [vector_of(b"after")]
                await scene.baseline.settle()

            assert await sweep(request, check, of=of) > 5

    async def test_what_fails_in_a_pass_is_told_to_those_in_it(
        self, autojump_clock: MockClock
    ) -> None:
        model = embedder()
        async with open_scene(model) as scene:
            model.at_step(1, raising(RuntimeError("the device")))
            assert (await ask(scene.runtime, embedding("a", "b"))).code is Code.GENERATION_FAILED
            assert len(vectors(await ask(scene.runtime, embedding("a", "b")))) == 2
            await scene.baseline.settle()

    @pytest.mark.parametrize(
        ("inputs", "code", "param"),
        [
            (["fine", "x" * 65], Code.CONTEXT_LENGTH_EXCEEDED, "input[1]"),
            (["x" * 65], Code.CONTEXT_LENGTH_EXCEEDED, "input"),
            (["fine", (1, 9999)], Code.INVALID_TOKEN_ID, "input[1]"),
        ],
    )
    async def test_an_input_that_cannot_be_read_is_named_p2(
        self, autojump_clock: MockClock, inputs: list[str], code: Code, param: str
    ) -> None:
        async with open_scene(embedder(context_window=64)) as scene:
            assert len(vectors(await ask(scene.runtime, embedding("x" * 64)))) == 1
            answer = await ask(scene.runtime, embedding(*inputs))
            assert isinstance(answer.end, Failed)
            assert (answer.end.error.code, answer.end.error.param) == (code, param)
            await scene.baseline.settle()


class TestKinds:
    async def refusal(self, model: ScriptedModel, request: Request) -> tuple[Code, str | None]:
        """How a model refuses; it must not be loaded again for that."""
        async with open_scene(model) as scene:
            answer = await ask(scene.runtime, request)
            assert isinstance(answer.end, Failed)
            assert answer.events == (answer.end,)
            assert scene.engine.calls == []
            return answer.end.error.code, answer.end.error.param

    async def test_a_model_for_text_makes_no_embeddings_unless_it_is_let(
        self, autojump_clock: MockClock
    ) -> None:
        text = ScriptedModel()
        refused = await self.refusal(text, embedding("a"))
        assert refused == (Code.UNSUPPORTED_CAPABILITY, "model")
        async with open_scene(ScriptedModel()) as scene:
            answer = await ask(scene.runtime, embedding("a", pooling="mean"))
            assert vectors(answer) == [vector_of(b"a")]

    async def test_an_embedder_neither_chats_nor_decides(self, autojump_clock: MockClock) -> None:
        for request in (asking("Hi", model="scripted"), decision()):
            refused = await self.refusal(embedder(), request)
            assert refused == (Code.UNSUPPORTED_CAPABILITY, "model")

    async def test_an_embedder_is_a_companion_and_never_the_current_model(
        self, autojump_clock: MockClock
    ) -> None:
        loader = ScriptedLoader(embedder(id="vectors"), ScriptedModel(id="words"))
        async with open_scripted(loader) as runtime:
            assert runtime.statistics().current == "words"
            assert (await ask(runtime, asking("Hi", max_tokens=1))).accepted.model == "words"
            found = await ask(runtime, embedding("a", model="vectors"))
            assert found.accepted.model == "vectors"
            unnamed = await ask(runtime, embedding("a", model=None))
            assert unnamed.code is Code.UNSUPPORTED_CAPABILITY

    async def test_the_only_embedder_needs_no_name_where_no_model_is_current(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scripted(ScriptedLoader(embedder(id="vectors"))) as runtime:
            assert runtime.statistics().current is None
            unnamed = await ask(runtime, embedding("a", model=None))
            assert unnamed.accepted.model == "vectors"
            written = await ask(runtime, asking("Hi", max_tokens=1))
            assert written.code is Code.NO_CURRENT_MODEL

    async def test_of_two_embedders_one_has_to_be_named(self, autojump_clock: MockClock) -> None:
        loader = ScriptedLoader(embedder(id="small"), embedder(id="large"))
        async with open_scripted(loader) as runtime:
            unnamed = await ask(runtime, embedding("a", model=None))
            assert unnamed.code is Code.NO_CURRENT_MODEL

    @pytest.mark.parametrize(
        ("traits", "fields", "code"),
        [
            ({}, {"dimensions": 2}, Code.UNSUPPORTED_PARAMETER),
            ({"cuts": True}, {"dimensions": 5}, Code.INVALID_VALUE),
            ({}, {"instruction": "find"}, Code.UNSUPPORTED_PARAMETER),
        ],
    )
    async def test_what_its_files_do_not_declare_is_refused(
        self,
        autojump_clock: MockClock,
        traits: dict[str, Any],
        fields: dict[str, object],
        code: Code,
    ) -> None:
        model = ScriptedModel(embedding=EmbeddingTraits(4, "mean", **traits))
        refused = await self.refusal(model, embedding("a", **fields))
        assert refused == (code, next(iter(fields)))

    async def test_an_instruction_goes_before_each_text_in_the_models_own_form(
        self, autojump_clock: MockClock
    ) -> None:
        traits = EmbeddingTraits(4, "mean", instruction=("Instruct: ", "\nQuery:"))
        async with open_scene(ScriptedModel(embedding=traits)) as scene:
            answer = await ask(scene.runtime, embedding("a", instruction="find"))
            assert vectors(answer) == [vector_of(b"Instruct: find\nQuery:a")]


class TestDecisions:
    async def test_every_question_has_probabilities_that_sum_to_one(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene() as scene:
            answer = await ask(scene.runtime, decision())
            found = decided(answer)
            assert [len(probabilities) for probabilities in found] == [2, 3]
            assert all(abs(sum(probabilities) - 1) < 1e-12 for probabilities in found)
            assert isinstance(answer.end, Finished)
            assert answer.end.usage.completion_tokens == 2
            await scene.baseline.settle()

    async def test_it_is_one_row_whose_state_is_computed_once(
        self, autojump_clock: MockClock
    ) -> None:
        state = "a state that is much longer than any question " * 20
        async with open_scene() as scene:
            one = await ask(scene.runtime, decision(state, QUESTIONS[:1]))
            twenty = await ask(scene.runtime, decision(state, QUESTIONS[:1] * 20))
            assert len(scene.engine.known_rows) == 2
            suffix = twenty.accepted.prompt_tokens - one.accepted.prompt_tokens
            assert suffix % 19 == 0
            assert one.accepted.prompt_tokens - suffix // 19 > len(state)
            assert len(set(decided(twenty))) == 1, "equal questions have equal answers"

    async def test_it_runs_beside_streams_and_changes_nothing_for_them(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_scene() as scene:
            alone = (await ask(scene.runtime, asking("stream", max_tokens=40))).text
        settings = Settings(prefill_chunk_tokens=64)
        async with open_scene(settings=settings) as scene, trio.open_nursery() as nursery:
            nursery.start_soon(self.decide_again_and_again, scene)
            answer = await ask(scene.runtime, asking("stream", max_tokens=40))
            assert answer.text == alone
            kinds = [call.kind for call in scene.engine.calls if call.kind in ("prefill", "decode")]
            _, *between, _ = "".join(kind[0] for kind in kinds).split("d")
            assert max(map(len, between)) == 1, "a stream waits for a chunk at most"
            nursery.cancel_scope.cancel()

    @staticmethod
    async def decide_again_and_again(scene: Scene) -> None:
        while True:
            await ask(scene.runtime, decision("long " * 100))

    @EVERY
    async def test_leaving_at_any_point_leaves_nothing(
        self, autojump_clock: MockClock, of: StepsOf
    ) -> None:
        async with open_scene(settings=Settings(prefill_chunk_tokens=64)) as scene:
            expected = decided(await ask(scene.runtime, decision()))

            async def request() -> None:
                assert decided(await ask(scene.runtime, decision())) == expected

            async def check() -> None:
                scene.baseline.check()
                assert len((await ask(scene.runtime, asking("after", max_tokens=1))).text) == 1
                await scene.baseline.settle()

            assert await sweep(request, check, of=of) > 5

    async def test_more_options_than_labels_are_refused(self, autojump_clock: MockClock) -> None:
        # Letters are tokens of their own here, and nothing longer is.
        many = Question("questions.many", "Which?", tuple(map(str, range(27))))
        async with open_scene() as scene:
            answer = await ask(scene.runtime, decision(questions=[many]))
            assert isinstance(answer.end, Failed)
            error = answer.end.error
            assert (error.code, error.param) == (Code.TOO_MANY_OPTIONS, "questions.many")
            fewer = Question("q", "Which?", many.options[:26])
            assert len(decided(await ask(scene.runtime, decision(questions=[fewer])))[0]) == 26

    async def test_a_state_that_does_not_fit_is_refused(self, autojump_clock: MockClock) -> None:
        async with open_scene(ScriptedModel(context_window=600)) as scene:
            assert len(decided(await ask(scene.runtime, decision("short")))) == 2
            answer = await ask(scene.runtime, decision("x" * 400))
            assert answer.code is Code.CONTEXT_LENGTH_EXCEEDED
            await scene.baseline.settle()

    async def test_the_load_and_the_queue_are_those_of_all_requests(
        self, autojump_clock: MockClock
    ) -> None:
        settings = Settings(max_rows=1, queue_limit=1)
        async with (
            open_scene(settings=settings) as scene,
            scene.runtime.request(asking("first", max_tokens=500)) as first,
        ):
            await first.receive()
            async with scene.runtime.request(decision()) as waits:
                await trio.testing.wait_all_tasks_blocked()
                full = await ask(scene.runtime, embedding("a", pooling="last"))
                assert full.code is Code.QUEUE_FULL
                first.cancel()
                assert len(decided(await read_all(waits))) == 2


def test_softmax_divides_by_the_temperature_and_never_overflows() -> None:
    assert softmax([1000.0, 1000.0]) == (0.5, 0.5)
    cold, hot = softmax([2.0, 0.0], 0.5), softmax([2.0, 0.0], 4.0)
    assert cold[0] == pytest.approx(1 / (1 + 2.718281828459045**-4))
    assert hot[0] == pytest.approx(1 / (1 + 2.718281828459045**-0.5))
    assert softmax([3.0]) == (1.0,)
