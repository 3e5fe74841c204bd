"""A GGUF file or a folder of weights into a folder for mlx-lm, quantized if wanted.

Run as a module it converts one, for as long as its standard input stays open:
`python -m headrace.actors.engine.converting SOURCE FOLDER RECIPE`, the recipe as JSON.
"""

from __future__ import annotations

import fnmatch
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import msgspec
from mlx_lm.utils import quantize_model, save_config, save_model

from headrace.actors.engine.config import read_config
from headrace.actors.engine.gguf import convert_gguf, device_dtype
from headrace.actors.engine.load import lazy_model
from headrace.actors.engine.percent import run_in_percents
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.worker_side import leave_with_parent

DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}
# What belongs to a model beside its weights and its config; code that comes with it does not.
BESIDE = ("*.json", "*.jinja", "*.txt", "*.tiktoken", "tokenizer.model")
NOT_BESIDE = ("config.json", "model*.json", "conversion.json")
WORK = "work"

Progress = Callable[[float], None]


class Wanted(msgspec.Struct):
    bits: int | None = None
    group_size: int = 64
    dtype: str | None = None


def convert(source: Path, folder: Path, wanted: Wanted, progress: Progress) -> None:
    """Write a model folder. `folder` must exist, with a folder `work` in it. Raises `RequestError`.

    `progress` runs from 0 to 1.
    """
    if source.is_file():
        if wanted.bits is None:
            convert_gguf(source, folder, wanted.dtype or device_dtype(), progress)
            return
        expanded = folder / WORK / "expanded"
        expanded.mkdir()
        convert_gguf(source, expanded, wanted.dtype or device_dtype(), lambda f: progress(f / 2))
        source = expanded
    _convert_folder(source, folder, wanted)
    progress(1.0)


def _convert_folder(source: Path, folder: Path, wanted: Wanted) -> None:
    config = read_config(source).model
    if wanted.bits is not None and ("quantization" in config or "quantization_config" in config):
        raise RequestError(Code.LOAD_FAILED, "The model is quantized already.")
    model = lazy_model(source)
    if wanted.dtype is not None:
        model.set_dtype(DTYPES[wanted.dtype])
        config = config | {"torch_dtype": wanted.dtype}
    if wanted.bits is not None:
        model, config = quantize_model(model, config, wanted.group_size, wanted.bits)
    save_model(folder, model, donate_model=True)
    for file in source.iterdir():
        if _matches(file.name, BESIDE) and not _matches(file.name, NOT_BESIDE):
            shutil.copyfile(file, folder / file.name)
    # The config comes last: a folder without it is no model.
    save_config(dict(config), folder / "config.json")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def main(source: str, folder: str, recipe: str) -> int:
    wanted = msgspec.json.decode(recipe, type=Wanted)
    return run_in_percents(lambda progress: convert(Path(source), Path(folder), wanted, progress))


if __name__ == "__main__":
    leave_with_parent()
    sys.exit(main(*sys.argv[1:]))
