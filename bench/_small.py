"""A small random llama that speaks in another model's tokens, for what depends on no weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models import llama
from mlx_lm.utils import save_model

# Some million weights, most of them of the words.
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
WORDS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")


def random_llama(like: Path, folder: Path, seed: int, shape: Mapping[str, int] = SMALL) -> Path:
    """A new `folder` with the model of the folder `like` in another shape: its words, its template
    and its window stay."""
    folder.mkdir()
    config = json.loads((like / "config.json").read_text(encoding="utf-8")) | shape
    mx.random.seed(seed)
    model = llama.Model(llama.ModelArgs.from_dict(config))
    # Wide enough that greedy choices are clear, as they are in a trained model.
    model.update(tree_map(lambda w: w + 0.05 * mx.random.normal(w.shape), model.parameters()))
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in WORDS:
        if (like / name).exists():
            shutil.copy(like / name, folder / name)
    return folder
