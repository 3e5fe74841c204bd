"""Small scenarios of a whole runtime, each a few milliseconds long, for very many schedules.

What happens, and when, is drawn by the choices. Each ends with nothing left and with every ticket's
messages in an order that the machine of `lifecycle.py` allows; it returns its trace.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import trio
import trio.testing

from headrace.actors.admission import Admission
from headrace.actors.lives import CLOSING
from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Delta, Event, Failed, Finished, Usage
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.sink import StreamSink
from headrace.runtime.testing.choices import Choices
from headrace.runtime.testing.conformance import Wiretap
from headrace.runtime.testing.hooks import Hook, killing, raising
from headrace.runtime.testing.loader import ScriptedLoader, ScriptedModel
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted
from headrace.runtime.testing.schedule import Scenario
from headrace.runtime.testing.script import Script, ScriptedFault
from headrace.runtime.trace import Trace, TraceEvent

# A few steps long: a client may leave before, in, and after each of them.
SPAN_SECONDS = 0.06
LOAD_SECONDS = 0.01
TOKENS = 2
# Made once: to check a setting takes as long as a step.
SETTINGS = Settings(max_rows=1, queue_limit=1, step_timeout_s=1.0)
WIDER = Settings(max_rows=2, queue_limit=1, step_timeout_s=1.0)


def small_model(id: str = "scripted") -> ScriptedModel:
    scripts = {"": Script("abcdefgh")}
    return ScriptedModel(
        id=id,
        load_seconds=LOAD_SECONDS,
        scripts=scripts,
        weights_bytes=1000,
        kv_bytes_per_token=1,
    )


@asynccontextmanager
async def _house(
    *models: ScriptedModel,
    loaded: bool = True,
    max_rows: int = 1,
    budget_bytes: int | None = None,
) -> AsyncIterator[tuple[Runtime, ScriptedLoader]]:
    """A runtime whose messages are listened to; at the end nothing of its requests is left."""
    loader = ScriptedLoader(*models)
    chosen = SETTINGS if max_rows == 1 else WIDER
    async with open_scripted(loader, chosen, budget_bytes=budget_bytes) as runtime:
        tap = Wiretap.on(runtime)
        if loaded:
            await runtime.load(models[0].id)
        yield runtime, loader
        await trio.testing.wait_all_tasks_blocked()
        state = runtime.statistics()
        held = (state.requests_in_flight, state.queue_depth, state.leases, state.rows_running)
        assert held == (0, 0, 0, 0), f"requests, queue, leases, rows: {held}"
        for model in loader.models.values():
            assert not [misuse for engine in model.engines for misuse in engine.misuses]
            # A hung engine is given up with its rows; the one after it has none of them.
            assert not model.engines or not model.engine.rows, f"rows are left in {model.engine!r}"
        tap.check()


async def _client(
    runtime: Runtime, choices: Choices, name: str, answers: dict[str, Answer], **asked: Any
) -> None:
    """Comes at some time and stays."""
    await trio.sleep(choices.seconds(SPAN_SECONDS / 2, steps=20))
    answers[name] = await ask(runtime, asking(name, max_tokens=TOKENS, **asked))


async def _leaver(runtime: Runtime, choices: Choices, name: str, **asked: Any) -> None:
    """Comes at some time and leaves at some time: by hanging up, by its id, or without a word."""
    await trio.sleep(choices.seconds(SPAN_SECONDS / 2, steps=20))
    leaves_after = choices.seconds(SPAN_SECONDS, steps=40)
    request = asking(name, max_tokens=TOKENS, **asked)
    match choices.below(3):
        case 0:
            with trio.move_on_after(leaves_after):
                await ask(runtime, request)
        case 1:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, runtime, request)
                await trio.sleep(leaves_after)
                runtime.cancel(name)
        case 2:
            async with runtime.request(request):
                await trio.sleep(leaves_after)


def _check(answer: Answer, *codes: Code) -> None:
    """Whole, or ended by one of these errors; never anything in between."""
    if answer.code is None:
        assert answer.text == "ab"[:TOKENS], answer.text
    else:
        assert answer.code in codes, answer.code


async def one_of_two_leaves(choices: Choices) -> list[TraceEvent]:
    """Two clients want the only row."""
    answers: dict[str, Answer] = {}
    async with _house(small_model()) as (runtime, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leaver, runtime, choices, "leaves")
            nursery.start_soon(_client, runtime, choices, "stays", answers)
        _check(answers["stays"])
        return _trace(runtime)


async def a_third_is_one_too_many(choices: Choices) -> list[TraceEvent]:
    """Three clients for one row and one place in the queue."""
    answers: dict[str, Answer] = {}
    async with _house(small_model()) as (runtime, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leaver, runtime, choices, "leaves")
            for name in ("first", "second"):
                nursery.start_soon(_client, runtime, choices, name, answers)
        for answer in answers.values():
            _check(answer, Code.QUEUE_FULL)
        return _trace(runtime)


async def the_model_fails(choices: Choices) -> list[TraceEvent]:
    """In some step it raises, dies or hangs; it serves whoever comes afterwards."""
    answers: dict[str, Answer] = {}
    model = small_model()
    async with _house(model, max_rows=2) as (runtime, loader):
        faults: tuple[Hook, ...] = (raising(ScriptedFault()), killing(), loader.device.hang)
        model.at_step(choices.between(1, 6), choices.pick(faults))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leaver, runtime, choices, "leaves")
            nursery.start_soon(_client, runtime, choices, "stays", answers)
        _check(answers["stays"], Code.GENERATION_FAILED, Code.ENGINE_UNAVAILABLE)
        if model.hooks.pending == 0:
            _check(await ask(runtime, asking("afterwards", max_tokens=TOKENS)))
        return _trace(runtime)


async def the_first_load(choices: Choices) -> list[TraceEvent]:
    """Two clients come to a cold model, whose load may fail."""
    answers: dict[str, Answer] = {}
    model = small_model()
    if choices.chance():
        model.load_failures.append(RequestError(Code.LOAD_FAILED, "no weights"))
    async with _house(model, loaded=False) as (runtime, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leaver, runtime, choices, "leaves")
            nursery.start_soon(_client, runtime, choices, "stays", answers)
        _check(answers["stays"], Code.LOAD_FAILED)
        return _trace(runtime)


async def an_unload_meets_requests(choices: Choices) -> list[TraceEvent]:
    """Somebody unloads the model, by force or not, while it is asked for."""
    answers: dict[str, Answer] = {}
    model = small_model()

    async def unload(runtime: Runtime) -> None:
        await trio.sleep(choices.seconds(SPAN_SECONDS, steps=40))
        with refused_with(Code.IN_USE):
            await runtime.unload(model.id, force=choices.chance())

    async with _house(model, max_rows=2) as (runtime, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(unload, runtime)
            nursery.start_soon(_leaver, runtime, choices, "leaves")
            nursery.start_soon(_client, runtime, choices, "stays", answers)
        _check(answers["stays"], Code.MODEL_UNLOADED)
        return _trace(runtime)


async def two_models_take_turns(choices: Choices) -> list[TraceEvent]:
    """There is room for one of the two that are asked for."""
    answers: dict[str, Answer] = {}
    models = small_model("one"), small_model("other")
    house = _house(*models, budget_bytes=models[0].weights_bytes * 3 // 2)
    async with house as (runtime, loader):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(_leaver, runtime, choices, "leaves", model="other"))
            nursery.start_soon(partial(_client, runtime, choices, "stays", answers, model="one"))
            nursery.start_soon(partial(_client, runtime, choices, "too", answers, model="other"))
        for answer in answers.values():
            _check(answer)
        assert loader.device.peak_bytes < 2 * models[0].weights_bytes, "both were there at once"
        return _trace(runtime)


async def the_house_is_closed(choices: Choices) -> list[TraceEvent]:
    """The runtime is left while requests are anywhere."""
    answers: dict[str, Answer] = {}
    loader = ScriptedLoader(small_model())
    async with trio.open_nursery() as clients, open_scripted(loader, SETTINGS) as runtime:
        # The runtime is left under them: that is the story.
        clients.start_soon(_leaver, runtime, choices, "leaves")  # noqa: ASYNC111
        clients.start_soon(_client, runtime, choices, "stays", answers)  # noqa: ASYNC111
        await trio.sleep(choices.seconds(SPAN_SECONDS, steps=40))
    _check(answers["stays"], Code.CLOSED, Code.DRAINING)
    assert all(engine.closed for engine in loader.engines())
    assert loader.device.active_bytes == 0
    return _trace(runtime)


async def places_are_taken_and_left(choices: Choices) -> list[TraceEvent]:
    """The admission stage alone: five requests, two rows, two more places."""
    trace, running = Trace(), 0
    admission = Admission(2, 2, trace)
    info = small_model().info()

    async def hold(ticket: str) -> None:
        nonlocal running
        await trio.sleep(choices.below(4))
        with trio.move_on_after(choices.pick((3600, 1, 2, 0))):
            with refused_with(Code.QUEUE_FULL):
                async with admission.place(ticket, "m") as place:
                    rows = choices.between(1, 2)
                    (await place.admit(info, 10, 10, rows)).take()
                    running += rows
                    try:
                        trace.emit("running", ticket, rows=running)
                        await trio.sleep(choices.below(3))
                    finally:
                        running -= rows

    async with trio.open_nursery() as stage:
        stage.start_soon(admission.serve)
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(hold, f"t{number}")
        assert (admission.tickets, admission.queue_depth()) == (0, 0)
        stage.cancel_scope.cancel()
    assert all(event.fields["rows"] <= 2 for event in trace.events("running"))
    return trace.events()


async def a_reader_takes_its_time(choices: Choices) -> str:
    """A sink alone: its events are put as they come, and read by one who is cut short again and
    again. Nothing is lost, doubled, or out of order, and the first end is the end."""
    sink, heard = StreamSink(), list[Event]()

    async def write() -> None:
        for letter in "abcd":
            sink.put(Delta(letter, 1))
            await trio.sleep(choices.below(3))
        sink.put(Finished("stop", Usage(1, 4)))
        sink.put(Failed(CLOSING))

    async def read() -> None:
        while True:
            await trio.sleep(choices.below(3))
            with trio.move_on_after(choices.below(3)):
                heard.append(await sink.receive())
                if sink.end is heard[-1]:
                    return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(write)
    text = "".join(event.text for event in heard if isinstance(event, Delta))
    assert text == "abcd", text
    assert [type(event) for event in heard if not isinstance(event, Delta)] == [Finished]
    return repr(heard)


@contextmanager
def refused_with(code: Code) -> Iterator[None]:
    """What is inside may be refused, but with this code only."""
    try:
        yield
    except RequestError as error:
        if error.code is not code:
            raise


def _trace(runtime: Runtime) -> list[TraceEvent]:
    return runtime.trace.events()


# A few times as fast, so that the more schedules of them are run.
PARTS: tuple[Scenario, ...] = (places_are_taken_and_left, a_reader_takes_its_time)
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        *PARTS,
        one_of_two_leaves,
        a_third_is_one_too_many,
        the_model_fails,
        the_first_load,
        an_unload_meets_requests,
        two_models_take_turns,
        the_house_is_closed,
    )
}
