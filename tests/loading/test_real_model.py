"""The default model through our loader and tokenizer: the same tokens and the same text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.utils import load_tokenizer

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.start import EngineLoader
from headrace.runtime.contracts import Message, Prompt, Sampling
from headrace.runtime.ports import LoadedModel, RowSpec

QUESTION = Message("user", "What is the capital of France?")
TEXT = " ďábel 👩‍👩‍👧 日本, a , b .\n\tdef f(x): return x != 'naïve'  \n"


@pytest.fixture(scope="module")
def loaded(default_model: Path) -> Iterator[LoadedModel]:
    mx.set_default_device(mx.cpu)
    yield EngineLoader(1)(str(default_model), lambda share: None)
    mx.synchronize()


def answer(loaded: LoadedModel, prompt: Prompt, count: int) -> str:
    """Greedy text until an end token, as a stream would show it."""
    engine, tokenizer = loaded.engine, loaded.tokenizer
    greedy = Sampling(seed=0, temperature=0.0)
    engine.add(RowSpec(1, tokenizer.build(prompt), greedy, max_tokens=count))
    engine.prefill([(1, engine.remaining(1))])
    drawn: list[int] = []
    while len(drawn) < count and not tokenizer.end_tokens & set(drawn):
        drawn += [token.token for token in engine.decode().tokens]
    engine.remove(1)
    decoder = tokenizer.decoder()
    said = [decoder.add(token) for token in drawn if token not in tokenizer.end_tokens]
    return "".join(said) + decoder.flush()


def test_it_is_as_large_as_its_files_told(default_model: Path, loaded: LoadedModel) -> None:
    expected = estimate(default_model, "float32")
    assert loaded.info.weights_bytes == expected.weights_bytes
    assert loaded.info.kv_bytes_per_token == expected.kv_bytes_per_token == 46080
    assert (loaded.info.context_window, loaded.info.vocab_size) == (8192, 49152)


def test_a_prompt_is_what_mlx_lm_makes_of_it(default_model: Path, loaded: LoadedModel) -> None:
    asked = [{"role": "user", "content": QUESTION.content}]
    expected = load_tokenizer(default_model).apply_chat_template(asked, add_generation_prompt=True)
    assert list(loaded.tokenizer.build(Prompt(messages=(QUESTION,)))) == expected


def test_it_answers(loaded: LoadedModel) -> None:
    text = answer(loaded, Prompt(messages=(QUESTION,)), 24)
    assert text == "The capital of France is Paris."


def test_an_open_answer_goes_on_where_it_stopped(loaded: LoadedModel) -> None:
    counting = Message("user", "List the numbers from 1 to 300, each on its own line.")
    begun = Message("assistant", "1\n2\n3\n")
    text = answer(loaded, Prompt(messages=(counting, begun), continue_final=True), 6)
    assert text.startswith("4\n5\n")


def test_text_goes_through_the_prompt_and_back_j7(loaded: LoadedModel) -> None:
    tokenizer = loaded.tokenizer
    decoder = tokenizer.decoder()
    parts = [decoder.add(token) for token in tokenizer.build(Prompt(text=TEXT))]
    assert "".join(parts) + decoder.flush() == TEXT
    assert all("\ufffd" not in part for part in parts)
