"""The engine's loader for those who must not import MLX yet."""

from __future__ import annotations

from collections.abc import Callable

from headrace.runtime.imports import kept_for_good
from headrace.runtime.ports import LoadedModel, Loader


def engine_loader(blas_threads: int) -> Loader:
    """A `Loader` whose first call imports MLX, on the engine's thread."""

    def load(source: str, progress: Callable[[float], None]) -> LoadedModel:
        from headrace.actors.engine.start import EngineLoader

        return EngineLoader(blas_threads)(source, progress)

    return load


def worker_loader(blas_threads: int) -> Loader:
    """The same for a process that has nothing else to do."""
    loader = engine_loader(blas_threads)

    def load(source: str, progress: Callable[[float], None]) -> LoadedModel:
        with kept_for_good():
            from headrace.actors.engine.one_look import import_models

            import_models()
            import headrace.actors.engine.start  # noqa: F401 - what the loader imports

        return loader(source, progress)

    return load
