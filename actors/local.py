"""A model in this process: its threads, its engine, its Model actor, from load to close."""

from __future__ import annotations

import hashlib
import os

import attrs

from headrace.actors.dialect import Dialect
from headrace.actors.life import EngineHung, EngineLimits, Outlet, Readied, gone
from headrace.actors.model import Model
from headrace.actors.pace import Pace
from headrace.actors.preparing import Threads
from headrace.actors.rations import Rations
from headrace.actors.spec import ModelSpec
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.errors import ErrorInfo, RequestError
from headrace.runtime.ports import LoadedModel, Loader
from headrace.runtime.thread import ThreadFactory
from headrace.runtime.trace import Trace


@attrs.frozen
class LocalRunner:
    """Runs models on threads of this process."""

    loader: Loader
    open_thread: ThreadFactory
    limits: EngineLimits
    trace: Trace
    # Whether the device's memory is this model's alone, so that measuring it says something.
    measures: bool = False

    async def __call__(self, spec: ModelSpec, outlet: Outlet, ready: Readied) -> ErrorInfo | None:
        """One life of a model. Answers why it could not be loaded; otherwise runs until it is
        cancelled, and raises what the engine could not contain."""
        async with (
            self.open_thread(f"engine {spec.id}") as engine_thread,
            self.open_thread(f"text {spec.id}") as text_thread,
            self.open_thread(f"grammar {spec.id}") as spare_thread,
        ):
            threads = Threads(engine_thread, text_thread, spare_thread)
            engine = _Loading(self.loader, self.limits)
            try:
                loaded = await engine_thread.run(engine.load, spec)
                if engine.trouble is not None:
                    self.trace.emit("cache.trouble", trouble=engine.trouble)
                await self._serve(loaded, outlet, ready, threads)
            except RequestError as error:
                return error.info
            except BaseExceptionGroup as group:
                engine.hung = group.subgroup(EngineHung) is not None
                # Before anything is waited for: its requests need not wait as well.
                outlet.close(gone(spec.id))
                raise
            finally:
                if not engine.hung:  # a hung thread would never come to it
                    with bounded_cleanup(self.limits.close_seconds):
                        await engine_thread.run(engine.close)
        return None

    async def _serve(
        self, loaded: LoadedModel, outlet: Outlet, ready: Readied, threads: Threads
    ) -> None:
        limits = self.limits
        model = Model(
            loaded,
            threads,
            outlet.deliver,
            pace=Pace(limits.chunk_tokens, limits.chunk_seconds),
            rations=Rations(
                loaded.info.footprint,
                limits.chunk_tokens,
                limits.cache_bytes,
                rationed=limits.rationed,
            ),
            step_seconds=limits.step_seconds,
            measures=self.measures,
            trace=self.trace,
        )
        outlet.open(loaded.info, model.ref.tell)
        ready(loaded.info)
        await model.serve()


class _Loading:
    """A load and the close that belongs to it, on the engine's thread.

    A load cannot be interrupted. One whose waiter has gone meanwhile is closed by the very next
    call, so its memory is not lost.
    """

    def __init__(self, loader: Loader, limits: EngineLimits) -> None:
        self._loader = loader
        self._limits = limits
        # Why nothing is kept on disk, in words for the log.
        self.trouble: str | None = None
        self._loaded: LoadedModel | None = None
        self.hung = False

    def load(self, spec: ModelSpec) -> LoadedModel:
        loaded = self._loader(spec.source, _unwatched)
        # Whoever loaded it knows weights and tokens; how it answers is told from its template.
        reasons = Dialect.of(loaded.tokenizer).plain is not None
        info = attrs.evolve(loaded.info, id=spec.id, reasons=reasons)
        self._loaded = attrs.evolve(loaded, info=info)
        loaded.engine.limit_cache(self._limits.cache_bytes)
        if self._limits.disk_bytes:
            self._keep_on_disk(self._loaded)
        return self._loaded

    def _keep_on_disk(self, loaded: LoadedModel) -> None:
        fingerprint = _fingerprint(loaded)
        folder = os.path.join(self._limits.disk_folder, fingerprint)
        try:
            loaded.engine.keep_on_disk(folder, fingerprint, self._limits.disk_bytes)
        except OSError as error:
            self.trouble = f"no prefixes are kept on disk: {error}"

    def close(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.engine.close()


def _fingerprint(loaded: LoadedModel) -> str:
    """Of all that tokens and their KV depend on: weights and numbers, tokenizer and template."""
    info, tokenizer = loaded.info, loaded.tokenizer
    parts = (
        info.fingerprint,
        info.dtype,
        info.vocab_size,
        tokenizer.template,
        sorted(tokenizer.special_tokens.items()),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def _unwatched(share: float) -> None:
    """Progress of a load that nobody watches."""
