"""The weight files of a model folder, as far as their headers tell. No MLX, no weights read.

A safetensors file begins with the length of a JSON header (8 bytes, little endian) that gives
each tensor's type, shape and place: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import functools
import hashlib
import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
import msgspec

from headrace.actors.engine.config import quantization
from headrace.runtime.errors import Code, RequestError

# How weights are held: as they are in the files, or all as float32, which is what a CPU is fast at.
Numerics: TypeAlias = Literal["stored", "float32"]

# The files that mlx-lm loads.
WEIGHTS = "model*.safetensors"
# The format's own limit.
HEADER_BYTES = 100_000_000
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
FLOAT32_BYTES = 4
# Of each file, this many pieces of this size go into its fingerprint.
SAMPLES, SAMPLE_BYTES = 32, 4096


class Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.data_offsets[1] - self.data_offsets[0]


@attrs.frozen
class WeightFile:
    path: Path
    size_bytes: int
    header: bytes
    tensors: Mapping[str, Tensor]


def read_weight_files(folder: Path) -> tuple[WeightFile, ...]:
    """Raises `RequestError` (load-failed) where there are none, or one is cut short or broken."""
    files = tuple(_read(path) for path in sorted(folder.glob(WEIGHTS)))
    if not files:
        raise _broken("it has no weight files (model*.safetensors)")
    return files


def weights_bytes(
    files: Sequence[WeightFile], config: Mapping[str, Any], numerics: Numerics
) -> int:
    """What the weights will take in memory. An upper bound: a model may leave tensors out."""
    tensors = {name: tensor for file in files for name, tensor in file.tensors.items()}
    if numerics == "stored":
        return sum(tensor.nbytes for tensor in tensors.values())
    return sum(_float32_bytes(name, tensors, config) for name in tensors)


def stored_dtype(files: Sequence[WeightFile]) -> str:
    """The type that most of the floating values have; keys and values come out in it too."""
    counts: Counter[str] = Counter()
    for file in files:
        for tensor in file.tensors.values():
            counts[FLOATS.get(tensor.dtype, "")] += tensor.elements
    del counts[""]
    return counts.most_common(1)[0][0] if counts else "float32"


def fingerprint(files: Sequence[WeightFile], *more: str) -> str:
    """`fp_` and 12 hex digits over names, sizes, headers and samples of the weight files, and
    over `more`. The whole content is not read: that would take as long as a load."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.path.name} {file.size_bytes}\n".encode() + file.header)
        _sample(file, digest.update)
    digest.update("\n".join(more).encode())
    return f"fp_{digest.hexdigest()[:12]}"


def _read(path: Path) -> WeightFile:
    size = path.stat().st_size
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
        if length > min(HEADER_BYTES, size - 8):
            raise _broken(f"{path.name} is no safetensors file, or was cut short")
        header = file.read(length)
    tensors = _tensors(path.name, header)
    end = max((tensor.data_offsets[1] for tensor in tensors.values()), default=0)
    if 8 + length + end > size:
        raise _broken(f"{path.name} was cut short")
    return WeightFile(path, size, header, tensors)


def _tensors(name: str, header: bytes) -> dict[str, Tensor]:
    try:
        entries = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        entries.pop("__metadata__", None)
        return {key: msgspec.json.decode(entry, type=Tensor) for key, entry in entries.items()}
    except msgspec.MsgspecError as error:
        raise _broken(f"{name} has a header that cannot be read") from error


def _float32_bytes(name: str, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> int:
    """Bytes of one tensor after dequantization; what only served to quantize another has none."""
    tensor = tensors[name]
    module, _, part = name.rpartition(".")
    # In MLX's own layout `scales` holds one number for each group of weights.
    scales = tensors.get(f"{module}.scales")
    if scales is not None and f"{module}.weight" in tensors and part != "bias":
        group_size = quantization(config, module).group_size
        return scales.elements * group_size * FLOAT32_BYTES if part == "weight" else 0
    if part in ("qweight", "weight_packed"):  # AWQ, GPTQ and compressed tensors, in int32
        return tensor.elements * 32 // quantization(config, module).bits * FLOAT32_BYTES
    if part.endswith("_blocks"):  # OpenAI's MXFP4: two values in a byte
        return tensor.elements * 2 * FLOAT32_BYTES
    floating = tensor.dtype in FLOATS or tensor.dtype.startswith("F8")
    return tensor.elements * FLOAT32_BYTES if floating else tensor.nbytes


def _sample(file: WeightFile, update: Any) -> None:
    step = max(file.size_bytes // SAMPLES, SAMPLE_BYTES)
    with file.path.open("rb") as opened:
        read = functools.partial(opened.read, SAMPLE_BYTES)
        for place in range(8 + len(file.header), file.size_bytes, step):
            opened.seek(place)
            update(read())


def _broken(reason: str) -> RequestError:
    return RequestError(Code.LOAD_FAILED, f"The model cannot be loaded: {reason}.")
