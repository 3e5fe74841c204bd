#!/usr/bin/env python3
"""What numpy's exponentials save on a CPU, in prompts and in decode steps.

    python bench/exponentials.py                             about 4 minutes

The default model twice: as mlx-lm made it, and as the engine lets it compute. Prompts are computed
in chunks; a step is one of so many rows that stand behind the same context. All in processor time:
medians for prompts, the least of three for steps.
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx
from _second import default_folder
from mlx_lm.utils import load_model

from headrace.actors.engine import forward, kv
from headrace.actors.engine.blas import use_fast_blas
from headrace.actors.engine.cpu import compute_on_cpu

CHUNK_TOKENS = 128
STEPS = 6


def loaded() -> Any:
    model = load_model(default_folder())[0]
    mx.eval(model.parameters())
    return model


def prompt(model: Any, tokens: list[int]) -> Any:
    cache = kv.fresh(model)
    for begin in range(0, len(tokens), CHUNK_TOKENS):
        forward.advance(model, cache, tokens[begin : begin + CHUNK_TOKENS])
    return cache


def steps(model: Any, context: Any, rows: int) -> None:
    caches = [copy.deepcopy(context) for _ in range(rows)]
    cache = kv.joined(caches) if rows > 1 else caches[0]
    for _ in range(STEPS):
        mx.eval(forward.next_logits(model, cache, mx.array([7] * rows)))


def worked(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def compared(models: tuple[Any, Any], work: Callable[[Any], object]) -> list[list[float]]:
    """Of each model the seconds of three rounds, in turn."""
    rounds = [[worked(partial(work, model)) for model in models] for _ in range(3)]
    return [list(side) for side in zip(*rounds, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prompts", default="128,1024,2048")
    parser.add_argument("--contexts", default="64,256,1024")
    parser.add_argument("--rows", default="1,8,16")
    given = parser.parse_args()
    print(use_fast_blas())
    models = (loaded(), loaded())
    compute_on_cpu(models[1])
    draw = random.Random(1)
    for length in map(int, given.prompts.split(",")):
        tokens = [draw.randrange(5, 40_000) for _ in range(length)]
        sides = compared(models, partial(prompt, tokens=tokens))
        before, now = map(statistics.median, sides)
        print(
            f"prompt of {length:5}: {before:6.2f} s, {now:6.2f} s, {now / before:.2f}", flush=True
        )
    for length in map(int, given.contexts.split(",")):
        context = prompt(models[1], [draw.randrange(5, 40_000) for _ in range(length)])
        for rows in map(int, given.rows.split(",")):
            sides = compared(models, partial(steps, context=context, rows=rows))
            before, now = (1000 * min(side) / STEPS for side in sides)
            what = f"{rows:2} rows behind {length:5}"
            print(f"{what}: {before:6.1f} ms, {now:6.1f} ms, {now / before:.2f}", flush=True)


if __name__ == "__main__":
    main()
