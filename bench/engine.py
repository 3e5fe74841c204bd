#!/usr/bin/env python3
"""The engine against mlx-lm's BatchGenerator: a closed loop, side by side in one process.

    python bench/engine.py MODEL_FOLDER --batches 1,4,8,16 --rounds 3

Each loop keeps B requests going, the next one entering when one ends; a request is a prompt of
random tokens and a fixed number of greedy tokens. `engine` computes prompts as BatchGenerator
does, up to eight at once and whole; `paced` does it as the model actor does, in chunks between
decode steps. Rounds alternate between the loops and change who goes first.

The table has tokens per second and, less disturbed by other work on the machine, tokens per
second of processor time; both as medians, with the medians of the rounds' ratios to `bare`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import BatchGenerator

from headrace.actors.batch import Batch
from headrace.actors.engine.batch import BatchEngine
from headrace.actors.engine.blas import use_fast_blas
from headrace.actors.pace import Pace
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec, StepResult

PROMPTS_AT_ONCE = 8

Prompts: TypeAlias = Sequence[tuple[int, ...]]
# Model, prompts, requests at a time, tokens of each; answers the seconds it took.
Loop: TypeAlias = Callable[[Any, Prompts, int, int], float]


def bare_loop(model: Any, prompts: Prompts, width: int, max_tokens: int) -> float:
    generator = BatchGenerator(
        model,
        max_tokens=max_tokens,
        completion_batch_size=max(32, width),
        prefill_batch_size=PROMPTS_AT_ONCE,
    )
    todo, live = list(prompts), 0
    began = time.perf_counter()
    while todo or live:
        while todo and live < width:
            generator.insert([list(todo.pop())], [max_tokens])
            live += 1
        live -= sum(answer.finish_reason is not None for answer in generator.next()[1])
    seconds = time.perf_counter() - began
    generator.close()
    return seconds


def engine_loop(model: Any, prompts: Prompts, width: int, max_tokens: int) -> float:
    engine = engine_of(model)
    waiting: list[int] = []
    began = time.perf_counter()
    for joining, note in requests(prompts, width, max_tokens):
        for spec in joining:
            engine.add(spec)
            waiting.append(spec.row)
        if waiting:
            together, waiting = waiting[:PROMPTS_AT_ONCE], waiting[PROMPTS_AT_ONCE:]
            engine.prefill([(row, engine.remaining(row)) for row in together])
        for row in note(engine.decode()):
            engine.remove(row)
    seconds = time.perf_counter() - began
    engine.close()
    return seconds


def paced_loop(model: Any, prompts: Prompts, width: int, max_tokens: int) -> float:
    engine = engine_of(model)
    batch = Batch(engine, Pace(most_tokens=512, chunk_seconds=0.25))
    began = time.perf_counter()
    for joining, note in requests(prompts, width, max_tokens):
        batch.leave(note(batch.step(joining).result))
    seconds = time.perf_counter() - began
    engine.close()
    return seconds


LOOPS: dict[str, Loop] = {"bare": bare_loop, "engine": engine_loop, "paced": paced_loop}

# Rows that enter, and what to tell the result of the step to get the rows that end.
Turn: TypeAlias = tuple[list[RowSpec], Callable[[StepResult], list[int]]]


def requests(prompts: Prompts, width: int, max_tokens: int) -> Iterator[Turn]:
    """The turns of a closed loop of `width` requests."""
    todo, left = list(enumerate(prompts)), dict[int, int]()

    def note(result: StepResult) -> list[int]:
        assert not result.failed, result.failed
        for token in result.tokens:
            left[token.row] -= 1
        ended = [token.row for token in result.tokens if not left[token.row]]
        for row in ended:
            del left[row]
        return ended

    while todo or left:
        joining = []
        while todo and len(left) < width:
            row, tokens = todo.pop()
            joining.append(RowSpec(row, tokens, Sampling(seed=row, temperature=0), max_tokens))
            left[row] = max_tokens
        yield joining, note


def engine_of(model: Any) -> BatchEngine:
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    vocab_size = model.args.vocab_size
    return BatchEngine(model, end_tokens=(), vocab_size=vocab_size, lookahead=not on_cpu)


@attrs.frozen
class Speed:
    """Tokens per second, of the clock's and of the processor's."""

    wall: float
    processor: float

    def over(self, other: Speed) -> Speed:
        return Speed(self.wall / other.wall, self.processor / other.processor)


def timed(loop: Loop, model: Any, prompts: Prompts, width: int, max_tokens: int) -> Speed:
    processor = time.process_time()
    seconds = loop(model, prompts, width, max_tokens)
    mx.synchronize()
    tokens = len(prompts) * max_tokens
    return Speed(tokens / seconds, tokens / (time.process_time() - processor))


def measure(
    models: dict[str, Any], options: argparse.Namespace, width: int
) -> dict[str, list[Speed]]:
    """The speed of each loop in each round."""
    count = max(options.requests, options.turns * width)
    speeds: dict[str, list[Speed]] = {name: [] for name in options.loops}
    for turn in range(options.rounds):
        prompts = random_prompts(models["bare"], count, options.prompt_tokens, turn)
        order = options.loops if turn % 2 == 0 else options.loops[::-1]
        for name in order:
            speeds[name].append(
                timed(LOOPS[name], models[name], prompts, width, options.max_tokens)
            )
    return speeds


def random_prompts(model: Any, count: int, length: int, seed: int) -> Prompts:
    draw = random.Random(seed)
    vocab_size = model.args.vocab_size
    return [tuple(draw.randrange(vocab_size) for _ in range(length)) for _ in range(count)]


def median(speeds: Sequence[Speed]) -> Speed:
    return Speed(
        statistics.median(speed.wall for speed in speeds),
        statistics.median(speed.processor for speed in speeds),
    )


def report(width: int, speeds: dict[str, list[Speed]]) -> None:
    for name, of_loop in speeds.items():
        speed = median(of_loop)
        line = f"{width:2}  {name:7}  {speed.wall:8.1f}  {speed.processor:8.1f}"
        if name != "bare" and "bare" in speeds:
            ratios = [ours.over(bare) for ours, bare in zip(of_loop, speeds["bare"], strict=True)]
            line += f"     {median(ratios).wall:.3f}  {median(ratios).processor:.3f}"
            line += f"     {min(r.processor for r in ratios):.3f}"
            line += f"..{max(r.processor for r in ratios):.3f}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="an mlx-lm model folder")
    parser.add_argument("--batches", default="1,4,8,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2, help="requests of a round, in widths")
    parser.add_argument("--requests", type=int, default=4, help="requests of a round, at least")
    parser.add_argument("--prompt-tokens", type=int, default=160)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--loops", type=lambda names: names.split(","), default=list(LOOPS))
    options = parser.parse_args()
    print(f"BLAS: {use_fast_blas()}")
    # The engine changes its model, so the bare loop has one of its own.
    ours, theirs = load(options.model)[0], load(options.model)[0]
    models = {"bare": theirs, "engine": ours, "paced": ours}
    for name in options.loops:
        LOOPS[name](models[name], random_prompts(ours, 2, 32, 0), 2, 4)
    print(" B  loop      tok/s  tok/cpu s    ratio  of cpu  worst..best")
    for width in map(int, options.batches.split(",")):
        report(width, measure(models, options, width))


if __name__ == "__main__":
    main()
