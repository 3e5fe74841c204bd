"""A converted tokenizer gives the ids of the original."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm import tokenizer_utils
from tokenizers import Tokenizer

from headrace.actors.engine.gguf import convert_gguf
from headrace.actors.engine.gguf_tokenizer import tokenizer_json

Write: TypeAlias = Callable[..., Path]


def test_the_tokenizer_gives_the_same_ids(
    write: Write, target: Path, byte_tokenizer: Tokenizer
) -> None:
    convert_gguf(write({"token_embd.weight": np.zeros((8, 64))}), target, "float32")
    tokenizer = tokenizer_utils.load(target)
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
