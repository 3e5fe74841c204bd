#!/usr/bin/env python3
"""What a load costs in processor seconds, by its phases. Takes about half a minute.

    python bench/loads.py [FOLDER] --loads 5

Each load is one of a process of its own, as in a worker: what a worker imports, what computes with
it, the tokenizer, the weights, the trial of what rows may share, and the vocabulary for grammars,
which is made beside the first requests. Seconds are those of all threads, user and system, and the
median of the loads; other work on the machine changes them far less than it changes the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path


class Phases:
    """Processor seconds since the last phase ended, the interpreter's start among the first's."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._spent = 0.0

    def ended(self, name: str) -> None:
        now = time.process_time()
        self.seconds[name] = now - self._spent
        self._spent = now


def one_load(folder: Path) -> dict[str, float]:
    phases = Phases()
    import headrace.actors.worker  # noqa: F401 - what a worker has imported when it is told to load

    phases.ended("the worker's imports")
    from headrace.runtime.imports import kept_for_good

    with kept_for_good():
        from headrace.actors.engine.one_look import import_models

        import_models()
        import mlx.core as mx

        from headrace.actors.engine import load
        from headrace.actors.engine.batch import BatchEngine
        from headrace.actors.engine.blas import use_fast_blas
        from headrace.actors.engine.config import read_config
        from headrace.actors.engine.estimate import described
        from headrace.actors.engine.headers import Numerics, read_weight_files

    phases.ended("the engine's imports")
    use_fast_blas(1)
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    numerics: Numerics = "float32" if on_cpu else "stored"
    config, files = read_config(folder), read_weight_files(folder)
    expected = described(folder, config, files, numerics)
    phases.ended("what files tell, and BLAS")
    tokenizer = load._tokenizer(folder, config, expected)
    phases.ended("tokenizer and template")
    model = load._model(folder, config)
    load._read_weights(model, numerics, lambda share: None)
    phases.ended("weights")
    info = load._measured(model, expected)
    tokenizer.logits = info.vocab_size
    ends = tokenizer.end_tokens
    BatchEngine(model, end_tokens=ends, vocab_size=info.vocab_size, lookahead=not on_cpu)
    phases.ended("what rows may share")
    tokenizer.warm()
    phases.ended("vocabulary for grammars")
    return phases.seconds


def load_once(folder: Path) -> dict[str, float]:
    """The phases of a load in a fresh process."""
    argv = [sys.executable, __file__, str(folder), "--one"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    seconds: dict[str, float] = json.loads(told.splitlines()[-1])
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of a model that generates text")
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_load(options.folder)))
        return
    from _second import default_folder  # imports what is to be measured

    folder = options.folder or default_folder()
    load_once(folder)  # so that files come from memory
    loads = [load_once(folder) for _ in range(options.loads)]
    print(f"{'processor seconds':28} {'median':>7} {'best':>7} {'worst':>7}")
    rows = [(name, [load[name] for load in loads]) for name in loads[0]]
    for name, seconds in [*rows, ("all", [sum(load.values()) for load in loads])]:
        figures = (statistics.median(seconds), min(seconds), max(seconds))
        print(f"{name:28} " + " ".join(f"{figure:7.2f}" for figure in figures))


if __name__ == "__main__":
    main()
