"""A second model for measurements with two: one by name, or a small random one with the default
model's words."""

from __future__ import annotations

from pathlib import Path

from _small import random_llama

from headrace.actors.library import DEFAULT_MODEL, library_at
from headrace.runtime.settings import Settings

LAYERS = 2
SEED = 7


def default_folder() -> Path:
    """The default model's folder; fetched first if it is not there."""
    return folder_of(DEFAULT_MODEL)


def folder_of(source: str) -> Path:
    """The folder of anything that a server can be told to serve. A registry model, such as
    gemma-3-270m, is fetched and converted the first time, which may take minutes."""
    return library_at(Settings().home, {}).resolve(source).path


def second_folder(first: Path, parent: Path) -> Path:
    """A llama like `first` with two layers of random weights, and its tokenizer, in `parent`."""
    shape = {"num_hidden_layers": LAYERS}
    return random_llama(first, parent / "second-model", SEED, shape)
