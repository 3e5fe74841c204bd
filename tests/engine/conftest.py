"""Tiny random models, mlx-lm's own answers to compare with, and a hand to drive an engine."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import mlx.core as mx
import pytest
from mlx.nn.layers.base import Module
from mlx_lm.generate import generate_step
from mlx_lm.models import gemma3_text, llama

from headrace.actors.engine import batch, probe
from headrace.actors.engine.batch import BatchEngine
from headrace.actors.engine.probe import Sharing
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec, StepResult

VOCAB = 97
WINDOW = 8


@pytest.fixture(autouse=True)
def computing_on_the_cpu() -> Iterable[None]:
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


@pytest.fixture(scope="session")
def tiny_llama() -> Any:
    args = llama.ModelArgs(
        model_type="llama",
        hidden_size=48,
        num_hidden_layers=2,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=VOCAB,
        tie_word_embeddings=False,
    )
    return evaluated(llama.Model, args, seed=1)


@pytest.fixture(scope="session")
def tiny_gemma() -> Any:
    """Two of three layers see a sliding window of 8 tokens only."""
    args = gemma3_text.ModelArgs(
        model_type="gemma3_text",
        hidden_size=48,
        num_hidden_layers=3,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        query_pre_attn_scalar=16,
        vocab_size=VOCAB,
        sliding_window=WINDOW,
        sliding_window_pattern=3,
    )
    return evaluated(gemma3_text.Model, args, seed=2)


def evaluated(model_type: Any, args: Any, seed: int) -> Any:
    mx.set_default_device(mx.cpu)
    mx.random.seed(seed)
    model = model_type(args)
    mx.eval(model.parameters())
    return model


@pytest.fixture(params=["llama", "gemma"])
def model(request: pytest.FixtureRequest) -> Any:
    """Each of the tiny models."""
    return request.getfixturevalue(f"tiny_{request.param}")


@pytest.fixture(params=[False, True], ids=["no lookahead", "lookahead"])
def lookahead(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


Alone: TypeAlias = Callable[[Any, Sequence[int], int], list[int]]


@pytest.fixture(scope="session")
def alone() -> Alone:
    """mlx-lm's greedy tokens for a prompt, one sequence by itself."""
    # The models are kept, so that no other can have the number of one that is gone.
    known: dict[tuple[int, tuple[int, ...]], tuple[list[int], Any]] = {}

    def tokens(model: Any, prompt: Sequence[int], count: int) -> list[int]:
        key = (id(model), tuple(prompt))
        if key not in known or len(known[key][0]) < count:
            steps = generate_step(mx.array(list(prompt)), model, max_tokens=count)
            known[key] = ([int(token) for token, _ in steps], model)
        return known[key][0][:count]

    return tokens


class Hand:
    """Does to an engine what the model actor does, and keeps what each row was given."""

    def __init__(self, engine: BatchEngine) -> None:
        self.engine = engine
        self.given: dict[int, list[int]] = {}
        self.failed: dict[int, str] = {}

    def add(self, row: int, prompt: Sequence[int], max_tokens: int = 12, **sampling: Any) -> None:
        settings = Sampling(**{"seed": row, "temperature": 0.0, **sampling})
        self.engine.add(RowSpec(row, tuple(prompt), settings, max_tokens))
        self.given[row] = []

    def prefill(self, row: int, count: int | None = None) -> None:
        """The row's next tokens, all that are left by default; nothing if none are."""
        left = self.engine.remaining(row)
        if left:
            self._note(self.engine.prefill([(row, min(count or left, left))]))

    def prefill_together(self, *rows: int) -> None:
        self._note(self.engine.prefill([(row, self.engine.remaining(row)) for row in rows]))

    def enter(self, row: int, prompt: Sequence[int], chunk: int | None = None, **more: Any) -> None:
        """Add a row and compute its whole prompt, `chunk` tokens at a time."""
        self.add(row, prompt, **more)
        while self.engine.remaining(row):
            self.prefill(row, chunk)

    def decode(self, steps: int = 1) -> StepResult:
        for _ in range(steps):
            self._note(result := self.engine.decode())
        return result

    def _note(self, result: StepResult) -> None:
        for token in result.tokens:
            self.given[token.row].append(token.token)
        self.failed |= {failure.row: failure.reason for failure in result.failed}


Take: TypeAlias = Callable[..., Hand]


@pytest.fixture(scope="session")
def take_with() -> Take:
    """Takes a model in hand: an engine with these settings. An engine changes its model, so it
    gets one that shares no more than the weights with the one that mlx-lm computes. What rows of a
    model may share is found out once: there are hundreds of engines."""
    found: dict[int, tuple[Sharing, Any]] = {}

    def made(model: Any, **settings: Any) -> Hand:
        own = copy.deepcopy(model) if isinstance(model, Module) else model

        def known(_: Any, vocab_size: int) -> Sharing:
            # The models are kept, so that no other can have the number of one that is gone.
            if id(model) not in found:
                found[id(model)] = probe.sharing(own, vocab_size), model
            return found[id(model)][0]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch, "sharing", known)
            return Hand(BatchEngine(own, **{"end_tokens": [0], "vocab_size": VOCAB, **settings}))

    return made


@pytest.fixture
def take(take_with: Take, lookahead: bool) -> Take:
    """The same, once in each mode."""
    return functools.partial(take_with, lookahead=lookahead)
