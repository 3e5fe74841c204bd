"""Small tokenizers and models of each kind, made here; nothing is fetched."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import mlx.core as mx
import pytest
from mlx_lm.models import gemma3_text, llama, mamba
from mlx_lm.utils import quantize_model, save_model
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

TokenizerWriter: TypeAlias = Callable[..., Path]
ModelWriter: TypeAlias = Callable[..., Path]

CORPUS = [
    "the cat sat on the mat, and the dog ate the bone.",
    "ďábel 日本語 👩‍👩‍👧 naïve café",
    "1 2 3 4 5 6 7 8 9 10\n" * 3,
]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_level() -> Tokenizer:
    """As GPT-2 and most models since: a token may hold any part of a character."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(["<tool>", "日本"])
    return tokenizer


def byte_fallback(*, strip: bool) -> Tokenizer:
    """As Llama 2 (`strip`) and Gemma: pieces of text, and a token per byte for all else."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "é", "日"]
    pieces += [*map(chr, range(33, 127)), "th", "the", "▁the", "▁▁"]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "▁")]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    space = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend("▁"), space]) if strip else space
    )
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return tokenizer


def metaspace() -> Tokenizer:
    """One whose decoder treats the first token in a way of its own, so no table can hold it."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁", -2.0), ("▁the", -1.0)], 0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, unk_token="<unk>", special_tokens=["<unk>", "<s>"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


KINDS: dict[str, tuple[Callable[[], Tokenizer], dict[str, Any]]] = {
    "byte level": (
        byte_level,
        {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"},
    ),
    "byte fallback": (
        lambda: byte_fallback(strip=False),
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    ),
    "byte fallback, stripped": (
        lambda: byte_fallback(strip=True),
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    ),
    "metaspace": (metaspace, {"bos_token": "<s>", "unk_token": "<unk>"}),
}


def write_tokenizer(folder: Path, kind: str = "byte level", **config: Any) -> Path:
    """Put a tokenizer's files into a folder; `config` goes into its tokenizer_config.json."""
    make, tokens = KINDS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    make().save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="session")
def tokenizer_kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with a tokenizer of each kind, the same for all tests."""
    home = tmp_path_factory.mktemp("tokenizers")
    return {
        kind: write_tokenizer(home / str(number), kind, chat_template=CHATML)
        for number, kind in enumerate(KINDS)
    }


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> TokenizerWriter:
    """Call it with a kind and settings for a folder with that tokenizer."""
    return lambda kind="byte level", **config: write_tokenizer(tmp_path / "model", kind, **config)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 384,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}
GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 384,
    "sliding_window": 8,
    "sliding_window_pattern": 3,
    "max_position_embeddings": 1024,
}
MAMBA = {
    "model_type": "mamba",
    "vocab_size": 384,
    "hidden_size": 64,
    "intermediate_size": 128,
    "state_size": 8,
    "num_hidden_layers": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_rank": 8,
}
FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (llama, LLAMA),
    "gemma": (gemma3_text, GEMMA),
    "mamba": (mamba, MAMBA),
}


def write_model(
    folder: Path,
    family: str = "llama",
    *,
    dtype: mx.Dtype = mx.float32,
    quantize: dict[str, Any] | None = None,
    seed: int = 1,
    **config: Any,
) -> Path:
    """A random model with a tokenizer, as mlx-lm saves them; `config` adds to its config."""
    module, settings = FAMILIES[family]
    settings = {**settings, **config}
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(settings))
    model.set_dtype(dtype)
    if quantize is not None:
        with contextlib.redirect_stdout(io.StringIO()):
            model, settings = quantize_model(model, settings, **quantize)
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(settings))
    return write_tokenizer(folder, chat_template=CHATML)


@pytest.fixture
def model_folder(tmp_path: Path) -> ModelWriter:
    """Call it with a family, a dtype, a quantization and settings for a folder with that model."""
    mx.set_default_device(mx.cpu)
    return lambda *family, name="tiny", **options: write_model(tmp_path / name, *family, **options)
