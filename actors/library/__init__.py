"""Models on disk: finding, fetching and converting them, without loading any."""

from collections.abc import Mapping
from pathlib import Path

from headrace.actors.library.folder import ModelFolder
from headrace.actors.library.hub import cache_folder
from headrace.actors.library.library import Amount, Library, Report, no_amount, no_report
from headrace.actors.library.progress import shown_progress
from headrace.actors.library.table import (
    DEFAULT_MODEL,
    EMBEDDING_MODEL,
    REGISTRY_MODELS,
    RegistryModel,
    Wheel,
)
from headrace.runtime.settings import Settings

__all__ = [
    "DEFAULT_MODEL",
    "EMBEDDING_MODEL",
    "REGISTRY_MODELS",
    "Amount",
    "Library",
    "ModelFolder",
    "RegistryModel",
    "Report",
    "Wheel",
    "are_here",
    "library_at",
    "named",
    "no_amount",
    "no_report",
    "shown_progress",
]


def library_at(home: Path, environment: Mapping[str, str]) -> Library:
    """The library of this user: our own folder and the hub's cache as its variables name it."""
    return Library(home, cache_folder(environment))


def named(settings: Settings) -> tuple[str, ...]:
    """The models that are to be loaded at the start; the first is the current one."""
    return (settings.model or DEFAULT_MODEL, *settings.models)


def are_here(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Whether all that are named are on this machine. Raises `RequestError` as `Library.find`."""
    library = library_at(settings.home, environment)
    return all(library.find(source) is not None for source in named(settings))
