"""A model in this process: its threads, its engine, its Model actor, from load to close."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from headrace.actors.host import Host
from headrace.actors.model import EngineHung, Model
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.errors import ErrorInfo, RequestError
from headrace.runtime.ports import LoadedModel, Loader
from headrace.runtime.thread import Thread, ThreadFactory
from headrace.runtime.trace import Trace


@attrs.frozen
class ModelSpec:
    """A model that can be asked for: its id, where it is loaded from, and the bytes of weights
    that it is expected to take."""

    id: str
    source: str
    estimate_bytes: int = 0


@attrs.frozen
class EngineLimits:
    """`step_seconds`: watchdog of one step; `close_seconds`: for freeing a model."""

    chunk_tokens: int
    step_seconds: float
    close_seconds: float = 10.0


Ready: TypeAlias = Callable[[ModelInfo], None]


@attrs.frozen
class LocalRunner:
    """Runs models on threads of this process."""

    loader: Loader
    open_thread: ThreadFactory
    limits: EngineLimits
    trace: Trace

    async def __call__(self, spec: ModelSpec, host: Host, ready: Ready) -> ErrorInfo | None:
        """One life of a model. Answers why it could not be loaded; otherwise runs until it is
        cancelled, and raises what the engine could not contain."""
        async with (
            self.open_thread(f"engine {spec.id}") as engine_thread,
            self.open_thread(f"text {spec.id}") as text_thread,
        ):
            try:
                loaded = await engine_thread.run(self.loader, spec.source, _unwatched)
            except RequestError as error:
                return error.info
            loaded = attrs.evolve(loaded, info=attrs.evolve(loaded.info, id=spec.id))
            await self._serve(loaded, host, ready, engine_thread, text_thread)
        return None

    async def _serve(
        self, loaded: LoadedModel, host: Host, ready: Ready, engine: Thread, text: Thread
    ) -> None:
        model = Model(
            loaded,
            engine,
            text,
            host.deliver,
            chunk_tokens=self.limits.chunk_tokens,
            step_seconds=self.limits.step_seconds,
            trace=self.trace,
        )
        host.open(loaded.info, model.ref.tell)
        ready(loaded.info)
        hung = False
        try:
            await model.serve()
        except* EngineHung:
            hung = True
            raise
        finally:
            if not hung:  # a hung thread would never come to it
                with bounded_cleanup(self.limits.close_seconds):
                    await engine.run(loaded.engine.close)


def _unwatched(share: float) -> None:
    """Progress of a load that nobody watches."""
