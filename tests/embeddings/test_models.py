"""Folders of models that embed: read as their makers say, and computed as a reference computes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import qwen3

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.load import MlxLoader
from headrace.runtime.contracts import Prompt, Sampling
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import LoadedModel, Pooling, RowRead, RowSpec
from headrace.runtime.readings import EmbeddingTraits

NO_DRAWS = Sampling(seed=0, temperature=0.0)
TEXTS = [
    "a",
    "the cat sat on the mat and said nothing at all",
    "b c d",
    "x y z a b c d e f g h i j",
]


def load(folder: Path) -> LoadedModel:
    return MlxLoader()(str(folder), lambda share: None)


def vectors(loaded: LoadedModel, texts: Sequence[Sequence[int]], pooling: Pooling) -> list[Any]:
    """In one pass, which pads all but the longest."""
    for row, tokens in enumerate(texts):
        spec = RowSpec(row, tuple(tokens), NO_DRAWS, 0, pooling=pooling)
        loaded.engine.add(spec)
    chunks = [(row, loaded.engine.remaining(row)) for row in range(len(texts))]
    read = loaded.engine.prefill(chunks).read
    for row in range(len(texts)):
        assert loaded.engine.remaining(row) == 0
        loaded.engine.remove(row)
    return [np.frombuffer(found.vector, "<f4") for found in read]


class TestEncoders:
    @pytest.mark.parametrize("model_type", ["bert", "roberta", "xlm-roberta"])
    def test_texts_of_all_lengths_in_one_pass_are_what_a_reference_makes_of_each(
        self, encoder_folder: Callable[..., Path], reference: Any, model_type: str
    ) -> None:
        folder = encoder_folder(model_type, pad_token_id=1)
        loaded, embed = load(folder), reference(folder)
        tokens = [loaded.tokenizer.build(Prompt(text=text)) for text in TEXTS]
        found = vectors(loaded, tokens, Pooling("mean"))
        for vector, expected in zip(found, embed(tokens), strict=True):
            assert np.abs(vector - expected).max() < 1e-5

    def test_what_is_told_before_a_load_is_what_a_load_finds(
        self, encoder_folder: Callable[..., Path]
    ) -> None:
        folder = encoder_folder(pooling="pooling_mode_cls_token")
        expected, loaded = estimate(folder, "float32"), load(folder).info
        assert loaded.embedding == expected.embedding == EmbeddingTraits(24, "first")
        assert loaded.weights_bytes <= expected.weights_bytes
        assert (loaded.kv_bytes_per_token, loaded.context_window) == (0, 64)
        assert not loaded.has_chat_template

    def test_its_makers_may_limit_texts_further_than_its_positions(
        self, encoder_folder: Callable[..., Path]
    ) -> None:
        folder = encoder_folder(pooling="pooling_mode_mean_tokens")
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
        assert estimate(folder, "float32").context_window == 20
        shifted = encoder_folder("roberta", pad_token_id=1)
        assert estimate(shifted, "float32").context_window == 62

    def test_the_tokenizer_cuts_nothing_p2(self, encoder_folder: Callable[..., Path]) -> None:
        tokens = load(encoder_folder()).tokenizer.build(Prompt(text="a " * 50))
        assert len(tokens) == 52
        assert (tokens[0], tokens[-1]) == (2, 3)

    def test_rows_that_want_something_else_are_refused(
        self, encoder_folder: Callable[..., Path]
    ) -> None:
        engine = load(encoder_folder()).engine
        with pytest.raises(ValueError, match="no text"):
            engine.add(RowSpec(1, (1, 2), NO_DRAWS, 4))
        with pytest.raises(ValueError, match="outside the vocabulary"):
            engine.add(RowSpec(1, (40,), NO_DRAWS, 0, pooling=Pooling("mean")))

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"position_embedding_type": "relative_key"}, "do not fit"),
            ({"hidden_act": "relu"}, "do not fit"),
            ({"num_hidden_layers": 3}, "cannot compute"),
        ],
    )
    def test_what_is_not_known_here_is_refused_at_the_load(
        self, encoder_folder: Callable[..., Path], change: dict[str, Any], reason: str
    ) -> None:
        folder = encoder_folder()
        config = json.loads((folder / "config.json").read_bytes()) | change
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(RequestError, match=reason) as caught:
            load(folder)
        assert caught.value.code is Code.LOAD_FAILED


@pytest.mark.parametrize(
    ("modules", "pooling"),
    [
        (["Transformer", "Pooling", "Dense"], {"pooling_mode_mean_tokens": True}),
        (["CLIPModel"], {}),
        (
            ["Transformer", "Pooling"],
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        ),
        (["Transformer", "Pooling"], {"pooling_mode_max_tokens": True}),
    ],
)
def test_ways_to_embed_that_are_not_known_here_are_refused(
    encoder_folder: Callable[..., Path], modules: list[str], pooling: dict[str, bool]
) -> None:
    folder = encoder_folder(pooling="pooling_mode_mean_tokens")
    listed = [{"path": "1_Pooling", "type": f"sentence_transformers.models.{m}"} for m in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(RequestError, match="not known here") as caught:
        estimate(folder, "float32")
    assert caught.value.code is Code.LOAD_FAILED


class TestDecoders:
    def test_the_last_tokens_state_is_the_vector(self, decoder_folder: Path) -> None:
        loaded = load(decoder_folder)
        traits = loaded.info.embedding
        assert traits == EmbeddingTraits(32, "last", True, True, ("Instruct: ", "\nQuery:"))
        tokens = [loaded.tokenizer.build(Prompt(text=text)) for text in TEXTS]
        assert {ids[-1] for ids in tokens} == {3}, "the token that ends a text"
        found = vectors(loaded, tokens, Pooling("last"))
        for vector, ids in zip(found, tokens, strict=True):
            assert np.allclose(vector, hidden(decoder_folder, ids), atol=1e-5)

    def test_a_long_text_may_be_computed_in_parts(self, decoder_folder: Path) -> None:
        loaded = load(decoder_folder)
        tokens = loaded.tokenizer.build(Prompt(text=" ".join("abcdefghij" * 5)))
        loaded.engine.add(RowSpec(1, tokens, NO_DRAWS, 0, pooling=Pooling("last")))
        read: list[RowRead] = []
        while left := loaded.engine.remaining(1):
            read += loaded.engine.prefill([(1, min(7, left))]).read
        vector = np.frombuffer(read[0].vector, "<f4")
        assert np.allclose(vector, hidden(decoder_folder, tokens), atol=1e-5)
        loaded.engine.remove(1)
        assert loaded.engine.kv_bytes() == 0


def hidden(folder: Path, tokens: Sequence[int]) -> Any:
    """mlx-lm's own states of the last token."""
    model = qwen3.Model(
        qwen3.ModelArgs.from_dict(json.loads((folder / "config.json").read_bytes()))
    )
    weights: Any = mx.load(str(folder / "model.safetensors"))
    model.model.load_weights(list(weights.items()))
    states = np.asarray(model.model(mx.array([list(tokens)]))[0, -1])
    return states / np.linalg.norm(states)
