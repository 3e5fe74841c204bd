"""The models of a soak: two small random llamas with the default model's words, and that model."""

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

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
KEPT = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")


def default_folder() -> Path:
    """The default model's folder; fetched first if it is not there."""
    return library_at(Settings().home, {}).resolve(DEFAULT_MODEL).path


def small_folder(words: Path, folder: Path, seed: int) -> Path:
    """A llama of a few million random weights, with the tokenizer of the model in `words`."""
    folder.mkdir()
    config = json.loads((words / "config.json").read_text()) | SMALL
    mx.random.seed(seed)
    model = llama.Model(llama.ModelArgs.from_dict(config))
    # Wide enough that greedy choices are clear, as they are in a trained model.
    model.update(tree_map(lambda w: w + 0.05 * mx.random.normal(w.shape), model.parameters()))
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    for name in KEPT:
        if (words / name).exists():
            shutil.copy(words / name, folder / name)
    return folder
