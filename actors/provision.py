"""From settings to what a runtime runs on: the models of this machine, and bytes for them.

Nothing here imports MLX: a server must be listening long before its first model is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

import attrs

from headrace.actors.catalogue import Look, Shelf
from headrace.actors.engine.device import cuda_card_bytes, has_cuda, metal_working_set_bytes
from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.headers import Numerics
from headrace.actors.engine.lazy import engine_loader
from headrace.actors.library import (
    Library,
    ModelFolder,
    Report,
    library_at,
    named,
    no_report,
)
from headrace.actors.machine import ram_bytes
from headrace.actors.patience import Patience
from headrace.actors.remote import ENGINE_LOADER
from headrace.actors.spec import ModelSpec, Role
from headrace.runtime.errors import RequestError
from headrace.runtime.ports import Loader
from headrace.runtime.settings import Settings

# Of RAM, which other programs use too.
RAM_SHARE = 0.75
# Of a card's own memory, where the driver's context and a desktop take a little.
CARD_SHARE = 0.9


@attrs.frozen
class Provision:
    """What `open_runtime` needs beside settings. The first model is the current one."""

    models: tuple[ModelSpec, ...]
    loader: Loader
    # That resident models may take: never more than there are for all uses.
    budget_bytes: int
    # Where a worker process finds its loader; see `wire.Begin`.
    worker_loader: str = ENGINE_LOADER
    # How many of the models, from the first on, are loaded at the start.
    preload: int = 1
    # Ids by where the models are, and by what else they were called at the start.
    places: Mapping[str, str] = attrs.field(factory=dict)
    # With the silence of worker processes.
    patience: Patience = attrs.field(factory=Patience)
    # Finds what has come onto the machine since; None: nothing does.
    look: Look | None = None
    # For models, their rows and kept prefixes together; None: as much as they like.
    memory_bytes: int | None = None


def provide(
    settings: Settings,
    environment: Mapping[str, str] = os.environ,
    report: Report = no_report,
) -> Provision:
    """Find the models, fetching the named ones that are not here. Blocks, perhaps for minutes.

    Raises `RequestError`: model_not_found, load-failed.
    """
    library = library_at(settings.home, environment)
    sources = named(settings)
    wanted = [library.resolve(source, report) for source in sources]
    folders = _each_once(wanted, library)
    numerics = expected_numerics(sys.platform, _installed())
    # Asked once: a driver may take its time.
    most_bytes = memory_bytes(settings)
    return Provision(
        tuple(spec for folder in folders if (spec := _spec(folder, numerics))),
        engine_loader(settings.blas_threads),
        min(settings.model_budget_bytes or most_bytes, most_bytes),
        preload=len({folder.path for folder in wanted}),
        places=_places(folders)
        | {name: folder.id for name, folder in zip(sources, wanted, strict=True)},
        look=partial(_look, library, numerics),
        memory_bytes=most_bytes,
    )


def memory_bytes(settings: Settings) -> int:
    """Bytes that models, their rows and kept prefixes may take together."""
    return settings.memory_budget_bytes or usable_bytes(sys.platform, _installed())


def usable_bytes(platform: str, packages: Iterable[str]) -> int:
    """Bytes that all models, their rows and kept prefixes may take, if nobody says otherwise.

    `packages` are names of installed distributions. Blocks for some milliseconds.
    """
    of_ram = int(ram_bytes() * RAM_SHARE)
    if platform == "darwin":
        return min(of_ram, metal_working_set_bytes() or of_ram)
    if has_cuda(packages) and (card_bytes := cuda_card_bytes()):
        return int(card_bytes * CARD_SHARE)
    return of_ram


def expected_numerics(platform: str, packages: Iterable[str]) -> Numerics:
    """How an engine on this machine will hold weights: as float32 where it has only a CPU."""
    return "stored" if platform == "darwin" or has_cuda(packages) else "float32"


def _installed() -> Iterable[str]:
    """Folders of what is installed for a device, by name alone: a server is to listen soon, and
    reading what each package says of itself takes longer than all else here."""
    folders = (Path(entry) for entry in sys.path)
    return (found.name for folder in folders for found in folder.glob("mlx_cuda*.dist-info"))


def _each_once(wanted: Iterable[ModelFolder], library: Library) -> Collection[ModelFolder]:
    folders = {folder.path: folder for folder in wanted}
    for folder in library.scan():
        folders.setdefault(folder.path, folder)
    return folders.values()


def _places(folders: Iterable[ModelFolder]) -> dict[str, str]:
    return {str(folder.path): folder.id for folder in folders}


def _look(library: Library, numerics: Numerics, known: Collection[str]) -> Shelf:
    folders = [folder for folder in library.scan() if folder.id not in known]
    specs = tuple(spec for folder in folders if (spec := _spec(folder, numerics)))
    return Shelf(specs, _places(folders))


def _spec(folder: ModelFolder, numerics: Numerics) -> ModelSpec | None:
    """None for a folder that is listed but cannot be read as a model."""
    try:
        expected = estimate(folder.path, numerics)
    except RequestError:
        return None
    expected = attrs.evolve(expected, id=folder.id)
    role: Role = "primary" if expected.embedding is None else "companion"
    return ModelSpec(folder.id, str(folder.path), expected.weights_bytes, expected, role)
