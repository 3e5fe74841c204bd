"""The life of a model: however it ends, whoever waits for it hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.books import BookNews
from headrace.actors.host import Host
from headrace.actors.life import Readied
from headrace.actors.lives import Lives
from headrace.actors.messages import ToModel
from headrace.actors.spec import ModelSpec
from headrace.runtime.contracts import (
    Event,
    Failed,
    InferenceRequest,
    Message,
    ModelInfo,
    Prompt,
    Sampling,
)
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.trace import Trace

SPEC = ModelSpec("m", "m")
INFO = ModelInfo("m", 100, 10, 0, 0, "fp_000000000000")
REQUEST = InferenceRequest("r", None, Prompt(messages=(Message("user", "hi"),)), Sampling(seed=0))


class Roomy:
    """Books that have room for everything."""

    @asynccontextmanager
    async def weights(self, model_id: str, count_bytes: int) -> AsyncIterator[None]:
        yield

    def note(self, news: BookNews) -> None:
        pass


class Deaf:
    """Runs a model that answers nothing, until it is told to die."""

    def __init__(self) -> None:
        self.death = trio.Event()

    async def __call__(self, spec: ModelSpec, host: Host, ready: Readied) -> ErrorInfo | None:
        host.open(INFO, self._take)
        ready(INFO)
        await self.death.wait()
        return None

    def _take(self, message: ToModel) -> None:
        pass


End: TypeAlias = Callable[[Deaf, Lives, trio.CancelScope], None]
ENDS: dict[str, tuple[End, Code]] = {
    "dies": (lambda model, lives, all_: model.death.set(), Code.ENGINE_UNAVAILABLE),
    "is unloaded": (lambda model, lives, all_: lives.stop("m"), Code.MODEL_UNLOADED),
    "goes with all else": (lambda model, lives, all_: all_.cancel(), Code.CLOSED),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_request_that_waits_for_a_model_is_told_when_it(
    autojump_clock: MockClock, name: str
) -> None:
    """Given a request that waits for its prompt, then it hears of the model's end, once."""
    trace, model = Trace(), Deaf()
    host = Host(SPEC, trace, end_seconds=10, on_measured=lambda model_id, count: None)
    lives = Lives({"m": host}, model, lambda news: None, Roomy(), trace)
    events: list[Event] = []
    refusals: list[Code] = []

    async def waits() -> None:
        async with host.seat("t1", events.append) as seat:
            try:
                await seat.prepare(REQUEST)
            except RequestError as error:
                refusals.append(error.code)

    end, code = ENDS[name]
    with trio.fail_after(60):
        async with trio.open_nursery() as requests, trio.open_nursery() as models:
            lives.start(SPEC, models, 0.0)
            await wait_all_tasks_blocked()
            requests.start_soon(waits)
            await wait_all_tasks_blocked()
            end(model, lives, models.cancel_scope)
    assert refusals == [code]
    assert [type(event) for event in events] == [Failed]
