"""From settings to what a runtime runs on: the models of this machine, and bytes for them.

Nothing here imports MLX: a server must be listening long before its first model is loaded.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterable, Mapping

import attrs

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.headers import Numerics
from headrace.actors.engine.lazy import engine_loader
from headrace.actors.library import (
    DEFAULT_MODEL,
    Library,
    ModelFolder,
    Report,
    library_at,
    no_report,
)
from headrace.actors.remote import ENGINE_LOADER
from headrace.actors.spec import ModelSpec
from headrace.runtime.errors import RequestError
from headrace.runtime.ports import Loader
from headrace.runtime.settings import Settings

MEMORY_SHARE = 0.75


@attrs.frozen
class Provision:
    """What `open_runtime` needs beside settings. The first model is the current one."""

    models: tuple[ModelSpec, ...]
    loader: Loader
    budget_bytes: int
    # Where a worker process finds its loader; see `wire.Begin`.
    worker_loader: str = ENGINE_LOADER
    # How many of the models, from the first on, are loaded at the start.
    preload: int = 1


def provide(
    settings: Settings,
    environment: Mapping[str, str] = os.environ,
    report: Report = no_report,
) -> Provision:
    """Find the models, fetching the named ones that are not here. Blocks, perhaps for minutes.

    Raises `RequestError`: model_not_found, load-failed.
    """
    library = library_at(settings.home, environment)
    named = (settings.model or DEFAULT_MODEL, *settings.models)
    wanted = [library.resolve(source, report) for source in named]
    numerics = expected_numerics(sys.platform, _installed())
    models = [spec for folder in _each_once(wanted, library) if (spec := _spec(folder, numerics))]
    return Provision(
        tuple(models),
        engine_loader(settings.blas_threads),
        budget_bytes(settings),
        preload=len({folder.path for folder in wanted}),
    )


def budget_bytes(settings: Settings) -> int:
    """Bytes that resident models may take."""
    if settings.model_budget_bytes is not None:
        return settings.model_budget_bytes
    if settings.memory_budget_bytes is not None:
        return settings.memory_budget_bytes
    return int(ram_bytes() * MEMORY_SHARE)


def ram_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def expected_numerics(platform: str, packages: Iterable[str]) -> Numerics:
    """How an engine on this machine will hold weights: as float32 where it has only a CPU."""
    on_gpu = platform == "darwin" or any(name.startswith("mlx-cuda") for name in packages)
    return "stored" if on_gpu else "float32"


def _installed() -> Iterable[str]:
    return (distribution.name for distribution in importlib.metadata.distributions())


def _each_once(wanted: Iterable[ModelFolder], library: Library) -> Iterable[ModelFolder]:
    folders = {folder.path: folder for folder in wanted}
    for folder in library.scan():
        folders.setdefault(folder.path, folder)
    return folders.values()


def _spec(folder: ModelFolder, numerics: Numerics) -> ModelSpec | None:
    """None for a folder that is listed but cannot be read as a model."""
    try:
        expected = estimate(folder.path, numerics)
    except RequestError:
        return None
    expected = attrs.evolve(expected, id=folder.id)
    return ModelSpec(folder.id, str(folder.path), expected.weights_bytes, expected)
