"""The engine's front door: what a process that computes does before its first load."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from headrace.actors.engine.blas import use_fast_blas
from headrace.actors.engine.load import MlxLoader
from headrace.runtime.ports import LoadedModel


class EngineLoader:
    """The `Loader` of folders, computing with the fastest BLAS that this machine has."""

    def __init__(self, blas_threads: int) -> None:
        self._blas_threads = blas_threads
        self._load = MlxLoader()

    def __call__(self, source: str, progress: Callable[[float], None]) -> LoadedModel:
        """Raises `RequestError` (load-failed)."""
        blas = use_fast_blas(self._blas_threads)
        loaded = self._load(source, progress)
        return attrs.evolve(loaded, info=attrs.evolve(loaded.info, blas=str(blas)))
