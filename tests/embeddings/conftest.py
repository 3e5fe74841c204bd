"""Models that embed: tiny random ones made here, the real one, and a reference in numpy."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import qwen3
from mlx_lm.utils import save_model
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from headrace.actors.library import EMBEDDING_MODEL, library_at
from headrace.runtime.settings import home_folder

Vector: TypeAlias = NDArray[np.float64]
# Token ids of texts to their vectors.
Reference: TypeAlias = Callable[[Sequence[Sequence[int]]], list[Vector]]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz", "##a", "##b"]
TINY = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 36,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
QWEN = {
    "model_type": "qwen3",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-6,
    "vocab_size": 40,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


@pytest.fixture(autouse=True)
def computing_on_the_cpu() -> Iterator[None]:
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def write_files(
    folder: Path, config: Mapping[str, Any], *, pooling: str | None, around: str = "[CLS] $A [SEP]"
) -> None:
    """All but the weights. `around` is how the tokenizer wraps a text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single=around, special_tokens=names)
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    # As they are shipped: with limits that would cut a text in silence.
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told | {"pad_token": "[PAD]"}))
    if pooling is not None:
        modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
        listed = [
            {"path": path, "type": f"sentence_transformers.models.{t}"} for path, t in modules
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({pooling: True}))


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes an encoder with random weights, of a type and with settings of its own."""

    def write(model_type: str = "bert", pooling: str | None = None, **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp("encoder") / "tiny"
        config = TINY | {"model_type": model_type} | settings
        write_files(folder, config, pooling=pooling)
        mx.save_safetensors(str(folder / "model.safetensors"), random_weights(config))
        return folder

    return write


def random_weights(config: Mapping[str, Any]) -> dict[str, mx.array]:
    width, wide = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], width),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
        "pooler.dense.weight": (width, width),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        square = ["self.query", "self.key", "self.value", "output.dense"]
        sizes = {f"{name}.attention.{part}": (width, width) for part in square}
        sizes |= {
            f"{name}.intermediate.dense": (wide, width),
            f"{name}.output.dense": (width, wide),
        }
        for part, size in sizes.items():
            shapes |= {f"{part}.weight": size, f"{part}.bias": size[:1]}
    for norm in norms:
        shapes |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    mx.random.seed(7)
    return {name: mx.random.normal(shape) * 0.5 for name, shape in shapes.items()}


@pytest.fixture(scope="session")
def decoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 that embeds, as such models are shipped: weights of the backbone alone, a text
    ends with a token of its own, and the state of the last token is the vector."""
    folder = tmp_path_factory.mktemp("decoder") / "tiny"
    write_files(folder, QWEN, pooling="pooling_mode_lasttoken", around="$A [SEP]")
    mx.random.seed(3)
    mx.set_default_device(mx.cpu)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(QWEN))
    save_model(folder, model, donate_model=False)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    weights: Any = mx.load(str(folder / "model.safetensors"))
    bare = {name.removeprefix("model."): weight for name, weight in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), bare)
    prompts = {"query": "Instruct: find what fits\nQuery:", "document": ""}
    told = json.dumps({"prompts": prompts, "truncate_dim": 32})
    (folder / "config_sentence_transformers.json").write_text(told)
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The real model, fetched at its first use by the way that users have."""
    home = Path(os.environ.get("HEADRACE_HOME") or home_folder())
    return library_at(home, os.environ).resolve(EMBEDDING_MODEL).path


@pytest.fixture(scope="session")
def reference() -> Callable[[Path], Reference]:
    """An encoder of a folder in float64, from the papers: the mean over its tokens, length 1."""
    return numpy_encoder


def numpy_encoder(folder: Path) -> Reference:
    """The texts lie behind each other, and only attention looks where one ends."""
    config = json.loads((folder / "config.json").read_bytes())
    loaded: Any = mx.load(str(folder / "model.safetensors"))
    weights = {name: np.asarray(weight, dtype=np.float64) for name, weight in loaded.items()}
    heads = config["num_attention_heads"]

    def linear(name: str, x: Vector) -> Vector:
        found: Vector = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return found

    def norm(name: str, x: Vector) -> Vector:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        found: Vector = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return found

    def attend(name: str, x: Vector, borders: Sequence[int]) -> Vector:
        parts = [linear(f"{name}.attention.self.{kind}", x) for kind in ("query", "key", "value")]
        texts = zip(*(np.split(part, borders) for part in parts), strict=True)
        looked = [np.concatenate(_heads(q, k, v, heads), axis=-1) for q, k, v in texts]
        return linear(f"{name}.attention.output.dense", np.concatenate(looked))

    def embed(texts: Sequence[Sequence[int]]) -> list[Vector]:
        begin = 0 if config["model_type"] == "bert" else config["pad_token_id"] + 1
        places = [begin + at for text in texts for at in range(len(text))]
        borders = np.cumsum([len(text) for text in texts])[:-1].tolist()
        x = norm(
            "embeddings.LayerNorm",
            weights["embeddings.word_embeddings.weight"][[t for text in texts for t in text]]
            + weights["embeddings.position_embeddings.weight"][places]
            + weights["embeddings.token_type_embeddings.weight"][0],
        )
        for layer in range(config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            x = norm(f"{name}.attention.output.LayerNorm", x + attend(name, x, borders))
            wide = _gelu(linear(f"{name}.intermediate.dense", x))
            x = norm(f"{name}.output.LayerNorm", x + linear(f"{name}.output.dense", wide))
        means = [states.mean(axis=0) for states in np.split(x, borders)]
        return [mean / np.linalg.norm(mean) for mean in means]

    return embed


def _heads(query: Vector, key: Vector, value: Vector, heads: int) -> list[Vector]:
    """What each head makes of one text."""
    looked = []
    splits = (np.split(part, heads, axis=-1) for part in (query, key, value))
    for q, k, v in zip(*splits, strict=True):
        scores = np.exp(q @ k.T / math.sqrt(q.shape[-1]))
        looked.append(scores / scores.sum(axis=-1, keepdims=True) @ v)
    return looked


# Abramowitz and Stegun, 7.1.26: erf with an error of at most 1.5e-7.
ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
ERF_T = 0.3275911


def _gelu(x: Vector) -> Vector:
    z = np.abs(x) / math.sqrt(2)
    t = 1 / (1 + ERF_T * z)
    erf = 1 - np.exp(-z * z) * sum(a * t**power for power, a in enumerate(ERF, start=1))
    found: Vector = 0.5 * x * (1 + np.sign(x) * erf)
    return found
