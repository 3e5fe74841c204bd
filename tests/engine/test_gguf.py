"""A GGUF file becomes an mlx-lm folder that computes and tokenizes as the original."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.models import llama
from tokenizers import Tokenizer

from headrace.actors.engine import gguf as converter
from headrace.actors.engine.gguf import convert_gguf
from headrace.actors.engine.gguf_header import read_header
from headrace.actors.engine.gguf_tokenizer import tokenizer_json
from headrace.runtime.errors import Code, RequestError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Edit: TypeAlias = Callable[[gguf.GGUFWriter], None]

HEADS, KV_HEADS, HIDDEN = 4, 2, 64
# The names in the file, by those of mlx-lm's model.
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in GGUF_NAMES:
        return f"{GGUF_NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[part]}.{kind}"


def interleaved(rows: Array, heads: int) -> Array:
    """The row order of llama.cpp's files: within a head 0, d/2, 1, d/2+1, and so on."""
    size = len(rows) // heads
    order = [
        head * size + half * size // 2 + pair
        for head in range(heads)
        for pair in range(size // 2)
        for half in (0, 1)
    ]
    return rows[order]


def parameters(model: llama.Model) -> list[tuple[str, mx.array]]:
    flat: Any = tree_flatten(model.parameters())
    return list(flat)


def weights_for_gguf(model: llama.Model) -> dict[str, Array]:
    found = {}
    for name, value in parameters(model):
        rows = np.array(value)
        if "q_proj" in name:
            rows = interleaved(rows, HEADS)
        elif "k_proj" in name:
            rows = interleaved(rows, KV_HEADS)
        found[gguf_name(name)] = rows
    return found


def tiny_llama(vocabulary: int, **changes: Any) -> llama.Model:
    mx.random.seed(7)
    config = {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        **changes,
    }
    model = llama.Model(llama.ModelArgs.from_dict(config))
    # Norm weights are ones at first, which would hide a mix-up.
    lengths = ((name, value) for name, value in parameters(model) if value.ndim == 1)
    model.load_weights([(n, 1 + 0.1 * mx.random.normal(v.shape)) for n, v in lengths], strict=False)
    mx.eval(model.parameters())
    return model


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
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(96)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)


@pytest.fixture
def byte_tokenizer(tokenizer_kinds: dict[str, Path]) -> Tokenizer:
    return Tokenizer.from_file(str(tokenizer_kinds["byte level"] / "tokenizer.json"))


@pytest.fixture
def write(tmp_path: Path, byte_tokenizer: Tokenizer) -> Callable[..., Path]:
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


def logits(model: Any) -> Array:
    return np.array(model(mx.array([[5, 9, 2, 40, 77, 8]])))


# ---- computing ------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own head"])
def test_the_model_computes_as_before(
    write: Callable[..., Path], target: Path, byte_tokenizer: Tokenizer, tied: bool
) -> None:
    original = tiny_llama(byte_tokenizer.get_vocab_size(), tie_word_embeddings=tied)
    convert_gguf(write(weights_for_gguf(original)), target, "float32")
    model, _ = load(str(target))[:2]
    assert np.allclose(logits(model), logits(original), atol=1e-5)


@pytest.mark.parametrize("name", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_quantized_matrices_are_expanded_exactly(
    write: Callable[..., Path], target: Path, byte_tokenizer: Tokenizer, name: str
) -> None:
    kind = gguf.GGMLQuantizationType[name]
    weights = weights_for_gguf(tiny_llama(byte_tokenizer.get_vocab_size()))
    convert_gguf(write(weights, kind), target, "float32")
    stored: Any = mx.load(str(target / "model.safetensors"))
    expected = gguf.dequantize(gguf.quantize(weights["blk.0.ffn_up.weight"], kind), kind)
    found = np.array(stored["model.layers.0.mlp.up_proj.weight"])
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


def test_the_dtype_is_the_one_asked_for(
    write: Callable[..., Path], target: Path, byte_tokenizer: Tokenizer
) -> None:
    weights = weights_for_gguf(tiny_llama(byte_tokenizer.get_vocab_size()))
    convert_gguf(write(weights), target, "bfloat16")
    stored: Any = mx.load(str(target / "model.safetensors"))
    assert {value.dtype for value in stored.values()} == {mx.bfloat16}
    assert json.loads((target / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_a_large_model_is_cut_into_files_that_load_together(
    write: Callable[..., Path],
    target: Path,
    byte_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(converter, "_SHARD_BYTES", 100_000)
    original = tiny_llama(byte_tokenizer.get_vocab_size())
    convert_gguf(write(weights_for_gguf(original)), target, "float32")
    files = sorted(file.name for file in target.glob("model*.safetensors"))
    count = len(files)
    assert count > 1
    assert files == [f"model-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(files)
    assert index["metadata"]["total_size"] == sum(value.nbytes for _, value in parameters(original))
    model, _ = load(str(target))[:2]
    assert np.allclose(logits(model), logits(original), atol=1e-5)


def test_llama_3_scaling_is_recognised_by_its_factors(
    write: Callable[..., Path], target: Path, byte_tokenizer: Tokenizer
) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    changes = {"rope_scaling": scaling, "rope_theta": 500000.0, "max_position_embeddings": 131072}
    original = tiny_llama(byte_tokenizer.get_vocab_size(), **changes)
    plain = 500000.0 ** (np.arange(0, 16, 2) / 16)
    # mlx-lm keeps the scaled wavelengths; the file has their ratio to the plain ones.
    factors = np.array(original.model.layers[0].self_attn.rope._freqs) / plain
    assert factors.max() == pytest.approx(32.0)
    weights = {**weights_for_gguf(original), "rope_freqs.weight": factors.astype(np.float32)}
    convert_gguf(write(weights, edit=lambda w: w.add_rope_freq_base(500000.0)), target, "float32")
    assert json.loads((target / "config.json").read_text())["rope_scaling"] == scaling
    model, _ = load(str(target))[:2]
    assert np.allclose(logits(model), logits(original), atol=1e-5)


# ---- tokenizing -----------------------------------------------------------------------------


def test_the_tokenizer_gives_the_same_ids(
    write: Callable[..., Path], target: Path, byte_tokenizer: Tokenizer
) -> None:
    weights = weights_for_gguf(tiny_llama(byte_tokenizer.get_vocab_size()))
    convert_gguf(write(weights), target, "float32")
    _, tokenizer = load(str(target))[:2]
    for text in ("the cat sat", "naïve  café\n\t日本語 👩‍👩‍👧", "<|im_start|>user\nhi<|im_end|>"):
        assert tokenizer.encode(text) == byte_tokenizer.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    # Digits stand alone with this pre-tokenizer, whatever the merges say.
    assert tokenizer.encode("10") == tokenizer.encode("1") + tokenizer.encode("0")
    assert tokenizer.eos_token_ids == {0}
    said = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(said, tokenize=False) == "hi"


PIECES = {"a": -9.0, "b": -9.0, "c": -9.0, "▁": -9.0}
PIECES |= {"ab": -2.0, "bc": -1.0, "abc": -3.0, "▁a": -4.0, "cc": -5.0, "▁ab": -1.5, "ca": -6.0}


def sentence_piece(text: str) -> list[str]:
    """SentencePiece's own way: join the neighbours whose union scores best, leftmost first."""
    pieces = list("▁" + text.replace(" ", "▁"))
    while True:
        joins = [
            (-PIECES[pieces[at] + pieces[at + 1]], at)
            for at in range(len(pieces) - 1)
            if pieces[at] + pieces[at + 1] in PIECES
        ]
        if not joins:
            return pieces
        _, at = min(joins)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


@given(st.text(alphabet="abc ", min_size=1, max_size=12))
def test_merges_from_scores_split_as_sentence_piece_does(text: str) -> None:
    content = tokenizer_json(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": list(PIECES),
            "tokenizer.ggml.scores": list(PIECES.values()),
            "tokenizer.ggml.token_type": [1] * len(PIECES),
        }
    )
    tokenizer = Tokenizer.from_str(json.dumps(content))
    assert tokenizer.encode(text).tokens == sentence_piece(text)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


# ---- what is refused ------------------------------------------------------------------------


def refusal(source: Path, target: Path) -> str:
    with pytest.raises(RequestError) as caught:
        convert_gguf(source, target, "float32")
    assert caught.value.code == Code.LOAD_FAILED
    assert list(target.iterdir()) == []
    return str(caught.value)


def test_an_unknown_architecture_is_named(write: Callable[..., Path], target: Path) -> None:
    assert "'mamba'" in refusal(write({}, architecture="mamba"), target)


def test_an_unknown_pre_tokenizer_is_named(write: Callable[..., Path], target: Path) -> None:
    source = write({"token_embd.weight": np.zeros((8, 64), np.float32)}, edit=other_split)
    assert "'deepseek-llm'" in refusal(source, target)


def other_split(writer: gguf.GGUFWriter) -> None:
    writer.kv_data[0].pop("tokenizer.ggml.pre")
    writer.add_tokenizer_pre("deepseek-llm")


def test_a_type_that_needs_the_gguf_package_is_named(
    write: Callable[..., Path],
    target: Path,
    byte_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = weights_for_gguf(tiny_llama(byte_tokenizer.get_vocab_size()))
    source = write(weights, gguf.GGMLQuantizationType.Q5_0)
    monkeypatch.setitem(sys.modules, "gguf", None)
    message = refusal(source, target)
    assert "Q5_0" in message
    assert "headrace[gguf]" in message


def test_a_disk_that_is_too_small_is_seen_before_the_work(
    write: Callable[..., Path], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write({"token_embd.weight": np.zeros((8, 64), np.float32)})
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert "takes 0.0 GB" in refusal(source, target)


@settings(max_examples=60)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_cut_off_file_is_refused(whole_file: bytes, scratch: Path, cut: float) -> None:
    scratch.write_bytes(whole_file[: int(cut * len(whole_file))])
    with pytest.raises(RequestError):
        read_header(scratch)


@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_head_is_read_or_refused_but_never_crashes(
    whole_file: bytes, scratch: Path, data: st.DataObject
) -> None:
    damaged = bytearray(whole_file)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, 400))] = data.draw(st.integers(0, 255))
    scratch.write_bytes(damaged)
    # Any other exception fails the test.
    with contextlib.suppress(RequestError):
        header = read_header(scratch)
        # Every tensor lies in the file; the densest type has three elements in a byte.
        assert sum(tensor.elements for tensor in header.tensors) <= 4 * len(damaged)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "file.gguf"


@pytest.fixture(scope="module")
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
