#!/usr/bin/env python3
"""What it costs to hold rows to a grammar: compiling, each mask, and a decode step of a batch.

    python bench/grammar.py MODEL_FOLDER --batches 1,8,16 --steps 40

Times of masks are medians over random walks through a small schema. A step is measured with all
rows free and with all rows held to a text without end, so that both decode alike; processor time
stands beside the clock's, as it minds other work on the machine less.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from headrace.actors.engine.blas import use_fast_blas
from headrace.actors.engine.constrain import GrammarCompiler, RowMatcher
from headrace.actors.engine.load import MlxLoader
from headrace.actors.engine.masks import MaskBuffer
from headrace.actors.grammar.answer import answer_form
from headrace.runtime.constraints import Constraint, Grammar
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import LoadedModel, RowSpec

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "tags"],
}
WALKS, REPEATS = 12, 30


def grammar(compiler: GrammarCompiler, constraint: Constraint) -> Grammar:
    form = answer_form(constraint, None, None, "after", compiler.special)
    assert form is not None
    return form.grammar


def timed(work: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    result = work(*args)
    return result, time.perf_counter() - began


def compiler_of(folder: Path, loaded: LoadedModel) -> GrammarCompiler:
    size = loaded.info.vocab_size
    return GrammarCompiler(
        (folder / "tokenizer.json").read_text(encoding="utf-8"),
        table=[loaded.tokenizer.token_bytes(token) for token in range(size)],
        end_tokens=loaded.tokenizer.end_tokens,
        vocab_size=size,
    )


def mask_seconds(start: RowMatcher, ends: frozenset[int]) -> Iterator[tuple[float, float]]:
    """Of each mask and each token along random walks."""
    chance = random.Random(1)
    mask = np.zeros(start.words, dtype=np.int32)
    for _ in range(WALKS):
        row = start.fork()
        for _ in range(200):
            _, filling = timed(row.fill, mask)
            flags = np.unpackbits(mask.view(np.uint8), bitorder="little")
            token = chance.choice(np.flatnonzero(flags).tolist())
            if token in ends:
                break
            _, consuming = timed(row.consume, token)
            yield filling, consuming


def show_masks(compiler: GrammarCompiler, loaded: LoadedModel) -> None:
    _, making = timed(compiler.special, "x")
    asked, reading = timed(grammar, compiler, Constraint("json_schema", PERSON))
    start, cold = timed(compiler.compile, asked)
    _, kept = timed(compiler.compile, asked)
    fills, consumes = zip(*mask_seconds(start, loaded.tokenizer.end_tokens), strict=True)
    print(f"vocabulary of {loaded.info.vocab_size} tokens {making:.2f} s, once")
    print(f"schema: check {reading * 1e3:.2f} ms, compile {cold * 1e3:.2f} ms, ", end="")
    print(f"kept {kept * 1e3:.2f} ms")
    for name, seconds in (("mask", fills), ("token", consumes)):
        ordered = sorted(seconds)
        median, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        print(f"{name}: median {median * 1e6:.0f} us, 99 % {high * 1e6:.0f} us, of {len(ordered)}")
    for rows in (1, 8, 32):
        buffer = MaskBuffer([start.fork() for _ in range(rows)], loaded.info.vocab_size)
        logits = np.zeros((rows, loaded.info.vocab_size), dtype=np.float32)
        pairs = [
            (timed(buffer.fill)[1], timed(buffer.apply, np, logits)[1]) for _ in range(REPEATS)
        ]
        filled, applied = (statistics.median(part) * 1e3 for part in zip(*pairs, strict=True))
        print(f"{rows} rows: fill {filled:.2f} ms, apply {applied:.2f} ms")


def step_seconds(
    loaded: LoadedModel, masks: list[RowMatcher | None], steps: int
) -> tuple[float, float]:
    """Median clock time and mean processor time of a step with these rows."""
    for row, mask in enumerate(masks):
        sampling = Sampling(seed=row, temperature=1.0, ignore_eos=True)
        loaded.engine.add(RowSpec(row, (1, 2, 3, 4), sampling, 4 * steps, mask=mask))
        loaded.engine.prefill([(row, 3)])
    for _ in range(5):
        loaded.engine.decode()
    began = time.process_time()
    clock = statistics.median(loaded.engine.decode().seconds for _ in range(steps))
    used = (time.process_time() - began) / steps
    for row in range(len(masks)):
        loaded.engine.remove(row)
    return clock, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", default="1,8,16")
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    use_fast_blas()
    mx.set_default_device(mx.cpu)
    loaded = MlxLoader()(str(args.folder), lambda share: None)
    compiler = compiler_of(args.folder, loaded)
    show_masks(compiler, loaded)
    endless = compiler.compile(grammar(compiler, Constraint("regex", r'[^"\\]*')))
    for rows in map(int, args.batches.split(",")):
        for kind, masks in (
            ("free", [None] * rows),
            ("held", [endless.fork() for _ in range(rows)]),
        ):
            clock, used = step_seconds(loaded, list(masks), args.steps)
            print(
                f"{rows} rows, {kind}: {clock * 1e3:.1f} ms a step, {used * 1e3:.1f} ms processor"
            )


if __name__ == "__main__":
    main()
