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
    "library_at",
    "no_amount",
    "no_report",
    "shown_progress",
]


def library_at(home: Path, environment: Mapping[str, str]) -> Library:
    """The library of this user: our own folder and the hub's cache as its variables name it."""
    return Library(home, cache_folder(environment))
