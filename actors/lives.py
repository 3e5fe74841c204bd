"""The models that run now: each one life, from the start of its load to the end of its memory.

How a life ends is told to the registry as a message, exactly once for each start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import attrs
import outcome
import trio

from headrace.actors.books import Treasury
from headrace.actors.host import Host
from headrace.actors.life import Readied, gone
from headrace.actors.spec import ModelSpec
from headrace.actors.troubles import described
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.supervisor import contained, leaves
from headrace.runtime.trace import Trace

CLOSING = ErrorInfo(Code.CLOSED, "The server is closing.", retry_after_seconds=5.0)


class Runner(Protocol):
    """Runs one life of a model, in this process or in a worker."""

    async def __call__(self, spec: ModelSpec, host: Host, ready: Readied, /) -> ErrorInfo | None:
        """Answers why the model could not be loaded; otherwise runs until cancelled."""


@attrs.frozen
class Loaded:
    """The model is ready. `seconds` is what its load took."""

    model_id: str
    info: ModelInfo
    seconds: float


@attrs.frozen
class LoadFailed:
    """The life ended without a model; the next request tries again."""

    model_id: str
    error: ErrorInfo


@attrs.frozen
class Unloaded:
    """The life was stopped, and its memory is free."""

    model_id: str


@attrs.frozen
class Died:
    """The life ended by itself: everything in it is gone."""

    model_id: str


LifeNews: TypeAlias = Loaded | LoadFailed | Unloaded | Died


class Lives:
    """At most one life for each model. `tell` takes the news; `hosts`, by id, outlive the lives."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        run_model: Runner,
        tell: Callable[[LifeNews], None],
        books: Treasury,
        trace: Trace,
    ) -> None:
        self._hosts = hosts
        self._run_model = run_model
        self._tell = tell
        self._books = books
        self._trace = trace
        self._stops: dict[str, trio.CancelScope] = {}

    def start(self, spec: ModelSpec, nursery: trio.Nursery, delay_seconds: float) -> None:
        """Begin a life after a delay. The one before must have ended."""
        assert spec.id not in self._stops, f"{spec.id} lives already"
        self._trace.emit("model.loading", model=spec.id, delay=delay_seconds)
        stop = self._stops[spec.id] = trio.CancelScope()
        nursery.start_soon(self._live, spec, stop, delay_seconds, name=f"model {spec.id}")

    def stop(self, model_id: str) -> None:
        """End a life, in whatever phase it is. `Unloaded` follows, or how it ended first."""
        if model_id in self._stops:
            self._stops[model_id].cancel()

    async def _live(self, spec: ModelSpec, stop: trio.CancelScope, delay_seconds: float) -> None:
        host = self._hosts[spec.id]
        began = trio.current_time()

        def ready(info: ModelInfo) -> None:
            self._tell(Loaded(spec.id, info, trio.current_time() - began))

        news: LifeNews = Unloaded(spec.id)
        parting = CLOSING
        try:
            with stop:
                await trio.sleep(delay_seconds)
                result = await contained(lambda: self._run_booked(spec, host, ready))
                news = self._news(spec.id, result)
                parting = gone(spec.id)
            if stop.cancelled_caught:
                parting = _unloaded(spec.id)
        finally:
            # Also when all is cancelled from outside: nobody may wait for this model any more.
            host.close(parting)
            del self._stops[spec.id]
        self._tell(news)

    async def _run_booked(self, spec: ModelSpec, host: Host, ready: Readied) -> ErrorInfo | None:
        """The life itself, once there is room for the model's weights, which are then its own."""
        try:
            async with self._books.weights(spec.id, spec.estimate_bytes):
                return await self._run_model(spec, host, ready)
        except RequestError as error:
            return error.info

    def _news(self, model_id: str, result: outcome.Outcome[ErrorInfo | None]) -> LifeNews:
        if isinstance(result, outcome.Error):
            causes = ", ".join(described(leaf) for leaf in leaves(result.error))
            self._trace.emit("model.crashed", model=model_id, reason=causes)
            return Died(model_id)
        error = result.unwrap()
        return Died(model_id) if error is None else LoadFailed(model_id, error)

    def __repr__(self) -> str:
        return f"<Lives {', '.join(self._stops) or 'none'}>"


def _unloaded(model_id: str) -> ErrorInfo:
    """For those whose lease is so new that they had no seat yet when the leases were ended."""
    return ErrorInfo(Code.MODEL_UNLOADED, f"The model {model_id!r} was unloaded.")
