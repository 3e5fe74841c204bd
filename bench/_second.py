"""A second model for measurements with two: one by name, or a small random one with the default
model's words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models import llama
from mlx_lm.utils import save_model

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
    folder = parent / "second-model"
    folder.mkdir()
    config = json.loads((first / "config.json").read_text()) | {"num_hidden_layers": LAYERS}
    accepted = llama.ModelArgs.from_dict(config)
    mx.random.seed(SEED)
    model = llama.Model(accepted)
    # Wide enough that greedy choices are clear, as they are in a trained model.
    model.update(tree_map(lambda w: w + 0.05 * mx.random.normal(w.shape), model.parameters()))
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        if (first / name).exists():
            shutil.copy(first / name, folder / name)
    return folder
