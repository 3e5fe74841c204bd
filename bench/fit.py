#!/usr/bin/env python3
"""What the default model is predicted to take, against what it takes: at 1k, 4k and 8k tokens.

    python bench/fit.py [FOLDER] --chunk 512        # five minutes on one CPU core

For each length: the weights, the caches of one row, and what the row's last prefill chunk takes
for a while besides them, each as predicted from the model's files and caches before anything was
loaded, and as MLX's allocator counted it. Ends with ok, or with exit code 1 where the sum of a
length is off by more than 5 %, or where the prediction is too small by more than 1 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mlx.core as mx
from _second import default_folder

from headrace.actors.engine import forward, kv
from headrace.actors.engine.blas import use_fast_blas
from headrace.actors.engine.load import MlxLoader, foreseen
from headrace.actors.fit import fit

LENGTHS = (1024, 4096, 8192)
MOST_ERROR, MOST_SHORT = 0.05, 0.01


def taken(model: Any, length: int, chunk: int) -> tuple[int, int]:
    """Bytes of a row's caches, and the most that computing its last chunk took besides."""
    cache = kv.fresh(model)
    for _ in range(length // chunk - 1):
        forward.advance(model, cache, [1] * chunk)
    mx.clear_cache()
    before = mx.get_active_memory() - kv.nbytes(cache)
    mx.reset_peak_memory()
    forward.advance(model, cache, [1] * chunk)
    return kv.nbytes(cache), mx.get_peak_memory() - before - kv.nbytes(cache)


def show(name: str, predicted: int, measured: int) -> None:
    error = 100 * (predicted - measured) / max(measured, 1)
    print(f"  {name:10} {predicted / 1e6:10.1f} {measured / 1e6:10.1f} {error:+8.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=None)
    parser.add_argument("--chunk", type=int, default=512)
    options = parser.parse_args()
    folder = options.folder or default_folder()
    use_fast_blas()
    info = foreseen(folder)
    loaded = MlxLoader()(str(folder), lambda done: None)
    model = loaded.engine._model  # type: ignore[attr-defined]
    mx.clear_cache()
    weights = mx.get_active_memory()
    good = True
    for length in (n for n in LENGTHS if n <= info.context_window):
        found = fit(info, length, 1 << 60, options.chunk)
        kv_bytes, transient = taken(model, length, options.chunk)
        measured = weights + kv_bytes + transient
        error = (found.total_bytes - measured) / measured
        good = good and -MOST_SHORT <= error <= MOST_ERROR
        print(f"{length} tokens (MB)  predicted   measured    error")
        show("weights", found.weights_bytes, weights)
        show("KV", found.kv_bytes, kv_bytes)
        show("prefill", found.transient_bytes, transient)
        show("sum", found.total_bytes, measured)
    print("ok" if good else "off")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
