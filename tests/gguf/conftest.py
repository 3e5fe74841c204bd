"""Small GGUF files, laid out the way llama.cpp's converter writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Edit: TypeAlias = Callable[[gguf.GGUFWriter], None]
Write: TypeAlias = Callable[..., Path]

CORPUS = ["the cat sat on the mat, and the dog ate the bone.", "naïve café 日本語", "10 10 10"]


def add_tokens(
    writer: gguf.GGUFWriter, tokens: list[str], merges: list[str], own: Collection[str] = ()
) -> None:
    """`own` are the tokens that a user added: found in a text before it is split."""
    kinds = {
        **dict.fromkeys(tokens, gguf.TokenType.NORMAL),
        **dict.fromkeys(own, gguf.TokenType.USER_DEFINED),
        **{token: gguf.TokenType.CONTROL for token in tokens if token.startswith("<|")},
    }
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([kinds[token] for token in tokens])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages[0].content }}")


def add_shape(writer: gguf.GGUFWriter) -> None:
    """Two layers of 64 channels, four heads over two heads of keys and values."""
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)


@pytest.fixture(scope="session")
def byte_tokenizer() -> Tokenizer:
    """Byte-level, with digits apart as SmolLM's, marks of turns and two tokens of a user's own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
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


@pytest.fixture
def write(tmp_path: Path, byte_tokenizer: Tokenizer) -> Write:
    """Writes a file; `edit` may add to it, `kind` is the type of its matrices."""
    content = json.loads(byte_tokenizer.to_str())
    merges = [" ".join(merge) for merge in content["model"]["merges"]]
    own = [token["content"] for token in content["added_tokens"]]
    vocabulary: dict[str, int] = byte_tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])

    def write_file(
        weights: dict[str, Array],
        kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
        edit: Edit = lambda _: None,
        architecture: str = "llama",
    ) -> Path:
        path = tmp_path / "tiny.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        add_shape(writer)
        add_tokens(writer, tokens, merges, own)
        edit(writer)
        for name, value in weights.items():
            stored = kind if value.ndim == 2 else gguf.GGMLQuantizationType.F32
            writer.add_tensor(name, gguf.quantize(value, stored), raw_dtype=stored)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write_file


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "converted"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "file.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    add_shape(writer)
    add_tokens(writer, ["<|end|>", "a", "b", "ab"], ["a b"])
    writer.add_tensor("token_embd.weight", np.ones((4, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()
