"""Decisions in the default model's own words: what is read is what mlx-lm's own logits say. Its
weights matter to none of it: `make slow` tries it with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model

from headrace.actors.deciding import Deciding, softmax
from headrace.actors.engine.start import EngineLoader
from headrace.actors.reading import Passage
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import LoadedModel, RowRead, RowSpec
from headrace.runtime.readings import DecisionRequest, Question

STATE = (
    "Order 1123, paid on Monday, has not been sent. The customer has written three times and "
    "asks for the money back. Our terms promise delivery within five days."
)
QUESTIONS = (
    Question("questions.late", "Is the order late?", ("true", "false")),
    Question(
        "questions.tone",
        "How does the customer write?",
        ("calm", "annoyed: asks again and again", "threatening"),
        temperature=2.0,
    ),
    Question("questions.risk", "How likely is a complaint?", tuple("0123456789")),
)


@pytest.fixture(scope="module")
def loaded(weightless_model: Path) -> Iterator[LoadedModel]:
    mx.set_default_device(mx.cpu)
    model = EngineLoader(1)(str(weightless_model), lambda share: None)
    yield model
    model.engine.close()


def passage(loaded: LoadedModel, state: str = STATE) -> Passage:
    request = DecisionRequest("d", None, state, QUESTIONS)
    (only,) = Deciding(loaded.tokenizer).build(request).passages
    return only


def read(loaded: LoadedModel, row: int, asked: Passage, chunk: int = 512) -> Any:
    spec = RowSpec(row, asked.tokens, Sampling(seed=0), 0, continuations=asked.continuations)
    loaded.engine.add(spec)
    found: list[RowRead] = []
    while left := loaded.engine.remaining(row):
        found += loaded.engine.prefill([(row, min(chunk, left))]).read
    loaded.engine.remove(row)
    return found[0].logits


def test_probabilities_are_those_of_mlx_lms_logits(
    weightless_model: Path, loaded: LoadedModel
) -> None:
    asked = passage(loaded)
    model, _ = load_model(weightless_model)
    found = read(loaded, 1, asked, chunk=48)
    for question, more, logits in zip(QUESTIONS, asked.continuations, found, strict=True):
        tokens = mx.array([[*asked.tokens, *more.tokens]])
        full = np.asarray(model(tokens)[0, -1].astype(mx.float32), dtype=np.float64)
        over = np.exp((full - full.max()) / question.temperature)
        labels = over[list(more.labels)]
        expected = labels / labels.sum()
        probabilities = softmax(logits, question.temperature)
        assert abs(sum(probabilities) - 1) < 1e-12
        assert np.abs(np.array(probabilities) - expected).max() < 1e-4


def test_the_prompt_is_what_the_tokenizer_makes_of_the_whole_text(loaded: LoadedModel) -> None:
    asked, tokenizer = passage(loaded), loaded.tokenizer
    for more in asked.continuations:
        whole = (*asked.tokens, *more.tokens)
        assert tokenizer.encode(shown(loaded, whole)) == whole
    text = shown(loaded, (*asked.tokens, *asked.continuations[1].tokens))
    assert STATE in text
    assert "B. annoyed: asks again and again\n" in text
    assert text.endswith("assistant\nAnswer:")


def test_labels_are_the_letters_behind_a_space(loaded: LoadedModel) -> None:
    labels = passage(loaded).continuations[1].labels
    assert [shown(loaded, [label]) for label in labels] == [" A", " B", " C"]


def test_a_second_decision_about_the_same_state_takes_it_from_the_cache(
    loaded: LoadedModel,
) -> None:
    asked = passage(loaded, STATE * 2)
    loaded.engine.limit_cache(1 << 30)
    cold = read(loaded, 11, asked)
    before = loaded.engine.cache_use().tokens_reused
    warm = read(loaded, 12, asked)
    assert loaded.engine.cache_use().tokens_reused - before > len(asked.tokens) / 2
    for one, other in zip(cold, warm, strict=True):
        assert np.allclose(one, other, atol=1e-3)
    loaded.engine.limit_cache(0)


def shown(loaded: LoadedModel, tokens: Sequence[int]) -> str:
    """The text of tokens, special ones by their names."""
    special = {number: name for name, number in loaded.tokenizer.special_tokens.items()}
    pieces = [
        special[token].encode() if token in special else loaded.tokenizer.token_bytes(token)
        for token in tokens
    ]
    return b"".join(pieces).decode()
