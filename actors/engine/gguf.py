"""A GGUF file into a folder that mlx-lm loads.

Run as a module it converts one file: `python -m headrace.actors.engine.gguf FILE FOLDER DTYPE`,
for as long as its standard input stays open.
The serving process does it that way, so that a conversion's memory is given back and a reader
that crashes on a damaged file takes only itself along.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from headrace.actors.engine.gguf_architectures import architecture_of, refused
from headrace.actors.engine.gguf_header import Header, TensorHead, read_header, unreadable
from headrace.actors.engine.gguf_tokenizer import (
    generation_config,
    tokenizer_config,
    tokenizer_json,
)
from headrace.actors.engine.percent import run_in_percents
from headrace.runtime.worker_side import leave_with_parent

# What mx.load reads exactly. It also takes BF16, Q2_K, Q4_K and Q6_K, but narrows them to
# float16, and Q4_K comes out wrong (0.32.4).
_READ_BY_MLX = {"F32", "F16", "Q4_0", "Q4_1", "Q8_0"}
_GROUP_SIZE = 32
_DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}
_SHARD_BYTES = 2 << 30

Progress = Callable[[float], None]


def device_dtype() -> str:
    """The dtype that a model is stored in for this machine's default device.

    MLX multiplies float32 by BLAS on a CPU and everything narrower by slow loops of its own.
    """
    return "float32" if mx.default_device().type == mx.DeviceType.cpu else "bfloat16"


def convert_gguf(
    source: Path, folder: Path, dtype: str, progress: Progress = lambda _: None
) -> None:
    """Write an mlx-lm model folder with the content of a GGUF file.

    `dtype` is "float32", "bfloat16" or "float16"; quantized tensors are expanded to it.
    `progress` runs from 0 to 1. `folder` must exist. Raises `RequestError` (load-failed) that
    names the architecture, tokenizer or tensor types when they are not supported.
    """
    header = read_header(source)
    architecture = architecture_of(header)
    tokenizer = tokenizer_json(header.metadata)
    generation = generation_config(header.metadata)
    _check_room(folder, header, dtype)
    placed = (architecture.place(head.name, value) for head, value in _tensors(source, header))
    tensors = (pair for pair in placed if pair is not None)
    _write_weights(folder, tensors, header, _DTYPES[dtype], progress)
    # The config comes last: some tensors turn into a part of it.
    config = architecture.config | generation | {"torch_dtype": dtype}
    window = config["max_position_embeddings"]
    _write_json(folder / "tokenizer.json", tokenizer)
    _write_json(folder / "tokenizer_config.json", tokenizer_config(header.metadata, window))
    _write_json(folder / "generation_config.json", generation)
    _write_json(folder / "config.json", config)


def _check_room(folder: Path, header: Header, dtype: str) -> None:
    needed_bytes = sum(head.elements for head in header.tensors) * _DTYPES[dtype].size
    free_bytes = shutil.disk_usage(folder).free
    if needed_bytes > free_bytes:
        needed, free = f"{needed_bytes / 1e9:.1f} GB", f"{free_bytes / 1e9:.1f}"
        raise refused(f"as {dtype} it takes {needed} and {folder} has {free} free")


def _tensors(source: Path, header: Header) -> Iterator[tuple[TensorHead, mx.array]]:
    if header.type_names() <= _READ_BY_MLX:
        return _mlx_tensors(source, header)
    return _numpy_tensors(source, header)


def _mlx_tensors(source: Path, header: Header) -> Iterator[tuple[TensorHead, mx.array]]:
    loaded: dict[str, mx.array] = mx.load(str(source), format="gguf")  # type: ignore[assignment]
    for head in header.tensors:
        value = loaded.pop(head.name)
        if head.type_name in ("Q4_0", "Q4_1", "Q8_0"):
            stem = head.name.removesuffix(".weight")
            scales, biases = (loaded.pop(f"{stem}.{part}") for part in ("scales", "biases"))
            value = mx.dequantize(
                value,
                scales.astype(mx.float32),
                biases.astype(mx.float32),
                group_size=_GROUP_SIZE,
                bits=8 if head.type_name == "Q8_0" else 4,
            )
        yield head, value


def _numpy_tensors(source: Path, header: Header) -> Iterator[tuple[TensorHead, mx.array]]:
    """The same through the `gguf` package, which expands every type, more slowly."""
    try:
        import gguf
    except ImportError as error:
        types = ", ".join(sorted(header.type_names() - _READ_BY_MLX))
        message = f"tensor types {types} need the gguf package: pip install 'headrace[gguf]'"
        raise unreadable(source, message) from error
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(source).tensors}
    for head in header.tensors:
        tensor = stored[head.name]
        try:
            value = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise unreadable(source, f"tensor type {head.type_name} is not supported") from error
        yield head, mx.array(value.reshape(head.shape))


def _write_weights(
    folder: Path,
    tensors: Iterator[tuple[str, mx.array]],
    header: Header,
    dtype: mx.Dtype,
    progress: Progress,
) -> None:
    """Save in files of about 2 GiB, so that a large model never stands in memory twice.

    The index is written for a single file too: loading in parts across machines needs it.
    """
    shards: list[list[str]] = []
    pending: dict[str, mx.array] = {}
    total_elements = sum(head.elements for head in header.tensors)
    done_elements = written_bytes = 0

    def flush() -> None:
        path = folder / f"model-{len(shards) + 1:05d}.safetensors"
        mx.save_safetensors(str(path), pending, metadata={"format": "mlx"})
        shards.append(list(pending))
        pending.clear()

    for name, value in tensors:
        pending[name] = value.astype(dtype)
        mx.eval(pending[name])
        done_elements += value.size
        written_bytes += pending[name].nbytes
        if sum(array.nbytes for array in pending.values()) >= _SHARD_BYTES:
            flush()
        progress(done_elements / total_elements)
    if pending:
        flush()
    _name_shards(folder, shards, written_bytes)


def _name_shards(folder: Path, shards: list[list[str]], total_bytes: int) -> None:
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        single = len(shards) == 1
        final = "model" if single else f"model-{number:05d}-of-{len(shards):05d}"
        (folder / f"model-{number:05d}.safetensors").rename(folder / f"{final}.safetensors")
        weight_map |= dict.fromkeys(names, f"{final}.safetensors")
    index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
    _write_json(folder / "model.safetensors.index.json", index)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def main(arguments: list[str]) -> int:
    source, folder = Path(arguments[0]), Path(arguments[1])
    dtype = arguments[2] if len(arguments) > 2 else device_dtype()
    return run_in_percents(lambda progress: convert_gguf(source, folder, dtype, progress))


if __name__ == "__main__":
    leave_with_parent()
    sys.exit(main(sys.argv[1:]))
