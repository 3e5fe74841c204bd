#!/usr/bin/env python3
"""Greedy tokens of the batch against mlx-lm's own `stream_generate`, on a real model.

    python bench/agree.py MODEL_FOLDER --max-tokens 64

Sixteen prompts are answered three times: by `stream_generate`, by the engine one at a time, and by
the engine eight at a time while other rows join and leave around them. Where an answer differs,
the logits at the first difference are computed again: two tokens whose logits are closer than
rounding are no disagreement about the model, one with a gap is.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import mlx.core as mx
from mlx_lm import load, stream_generate

from headrace.actors.engine.batch import BatchEngine
from headrace.actors.engine.blas import use_fast_blas
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec

QUESTIONS = [
    "What is the capital of France?",
    "Write a haiku about a mill wheel.",
    "List the numbers from 1 to 30, each on its own line.",
    "Explain in one sentence what a cancel scope is.",
    "Translate 'good morning' into German, Spanish and Italian.",
    "Write a Python function that reverses a string.",
    "Who wrote Hamlet?",
    "Give me three reasons to learn how to swim.",
    "Summarize: " + "The river rose for three days and then it fell again. " * 8,
    "What is 17 times 23?",
    "Tell me a short story about a fox who could not sleep.",
    "Name five trees that grow in Europe.",
    "What is the difference between a process and a thread?",
    "Continue: once upon a time, in a village by the sea,",
    "Which planet is the largest? " + "Think about it. " * 20,
    "Write a polite refusal to an invitation.",
]
WIDTH = 8

Tokens: TypeAlias = list[int]


def prompts(tokenizer: Any) -> list[Tokens]:
    return [
        list(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": question}], add_generation_prompt=True
            )
        )
        for question in QUESTIONS
    ]


def by_mlx_lm(model: Any, tokenizer: Any, prompt: Tokens, max_tokens: int) -> Tokens:
    answers = stream_generate(model, tokenizer, prompt, max_tokens=max_tokens)
    return [int(answer.token) for answer in answers]


class Answers:
    """Answers of an engine; rows end by an end token or by length."""

    def __init__(self, model: Any, ends: set[int], max_tokens: int, lookahead: bool) -> None:
        self.engine = BatchEngine(
            model, end_tokens=ends, vocab_size=model.args.vocab_size, lookahead=lookahead
        )
        self._ends = ends
        self._max_tokens = max_tokens
        self.given: dict[int, Tokens] = {}
        self.running: set[int] = set()

    def enter(self, row: int, prompt: Tokens) -> None:
        sampling = Sampling(seed=row, temperature=0)
        self.engine.add(RowSpec(row, tuple(prompt), sampling, self._max_tokens))
        while left := self.engine.remaining(row):
            self.engine.prefill([(row, min(128, left))])
        self.given[row] = []
        self.running.add(row)

    def step(self) -> None:
        for token in self.engine.decode().tokens:
            answer = self.given[token.row]
            answer.append(token.token)
            if token.token in self._ends or len(answer) == self._max_tokens:
                self.leave(token.row)

    def leave(self, row: int) -> None:
        self.engine.remove(row)
        self.running.discard(row)


def one_by_one(answers: Answers, asked: Sequence[Tokens]) -> list[Tokens]:
    for row, prompt in enumerate(asked):
        answers.enter(row, prompt)
        while answers.running:
            answers.step()
    return [answers.given[row] for row in range(len(asked))]


def in_company(answers: Answers, asked: Sequence[Tokens]) -> list[Tokens]:
    """At most WIDTH rows at a time; every few steps a passer-by joins, and leaves again."""
    draw = random.Random(0)
    todo, passing, step = list(enumerate(asked)), set[int](), 0
    while todo or answers.running - passing:
        while todo and len(answers.running) < WIDTH - 1:
            answers.enter(*todo.pop(0))
        if step % 5 == 0 and len(answers.running) < WIDTH:
            passer = 1000 + step
            passing.add(passer)
            answers.enter(passer, draw.choice(asked))
        if step % 7 == 6 and passing & answers.running:
            answers.leave(draw.choice(sorted(passing & answers.running)))
        answers.step()
        step += 1
    for passer in passing & answers.running:
        answers.leave(passer)
    return [answers.given[row] for row in range(len(asked))]


@attrs.frozen
class Difference:
    """The first place where two answers part, and the logits of the two tokens there."""

    prompt: int
    position: int
    expected: int
    got: int
    gap: float


def first_difference(
    model: Any, number: int, prompt: Tokens, expected: Tokens, got: Tokens
) -> Difference | None:
    pairs = zip([*expected, -1], [*got, -1], strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if place is None:
        return None
    logits = model(mx.array([prompt + expected[:place]]))[0, -1].astype(mx.float32)
    pair = [answer[place] if place < len(answer) else 0 for answer in (expected, got)]
    gap = (logits[pair[0]] - logits[pair[1]]).item()
    return Difference(number, place, pair[0], pair[1], float(gap))


def report(
    name: str, model: Any, asked: list[Tokens], expected: list[Tokens], got: list[Tokens]
) -> None:
    total = sum(map(len, expected))
    found = [
        difference
        for number, (prompt, a, b) in enumerate(zip(asked, expected, got, strict=True))
        if (difference := first_difference(model, number, prompt, a, b))
    ]
    lost = sum(len(expected[part.prompt]) - part.position for part in found)
    print(f"{name}: {total - lost} of {total} tokens equal, {len(asked) - len(found)} of", end=" ")
    print(f"{len(asked)} answers equal throughout", flush=True)
    for part in found:
        print(f"  prompt {part.prompt}, token {part.position}: {part.expected} there,", end=" ")
        print(f"{part.got} here, logit gap {part.gap:.2e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="an mlx-lm model folder")
    parser.add_argument("--max-tokens", type=int, default=64)
    options = parser.parse_args()
    print(f"BLAS: {use_fast_blas()}")
    model, tokenizer, *_ = load(options.model)
    asked = prompts(tokenizer)
    ends = set(tokenizer.eos_token_ids)
    expected = [by_mlx_lm(model, tokenizer, prompt, options.max_tokens) for prompt in asked]
    for lookahead in (False, True):
        mode = "lookahead" if lookahead else "no lookahead"
        for way, answered in (("alone", one_by_one), ("in company", in_company)):
            answers = Answers(model, ends, options.max_tokens, lookahead)
            report(f"{mode}, {way}", model, asked, expected, answered(answers, asked))
            answers.engine.close()


if __name__ == "__main__":
    main()
