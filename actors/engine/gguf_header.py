"""The head of a GGUF file: its metadata and the list of its tensors, checked against the file.

MLX's own reader maps the file and trusts every length in it, so a cut-off or damaged file ends
the process. All bounds are therefore checked here, before MLX sees the file. Versions 2 and 3,
little-endian, as in the format's published description (ggml, docs/gguf.md).
"""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path
from typing import Any

import attrs

from headrace.runtime.errors import Code, RequestError

# Value type number -> struct code. 8 is a string and 9 an array.
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4

# Tensor type number -> (name, elements per block, bytes per block).
_TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    20: ("IQ4_NL", 32, 18),
    23: ("IQ4_XS", 256, 136),
    30: ("BF16", 1, 2),
}


@attrs.frozen
class TensorHead:
    """`shape` is in row-major order, outermost dimension first (GGUF stores the reverse)."""

    name: str
    shape: tuple[int, ...]
    type_name: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@attrs.frozen
class Header:
    metadata: dict[str, Any]
    tensors: tuple[TensorHead, ...]

    def type_names(self) -> frozenset[str]:
        return frozenset(tensor.type_name for tensor in self.tensors)


def unreadable(path: Path, reason: str) -> RequestError:
    return RequestError(Code.LOAD_FAILED, f"{path.name} cannot be read as GGUF: {reason}")


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.position = 0

    def take(self, size_bytes: int) -> bytes:
        end = self.position + size_bytes
        if end > len(self._data):
            raise ValueError("the file ends in the middle of its head")
        piece = self._data[self.position : end]
        self.position = end
        return piece

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise ValueError(f"unknown metadata type {kind}")
        return self.number(_SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, count = self.number("I"), self.number("Q")
        if kind in _SCALARS:
            code = _SCALARS[kind]
            raw = self.take(count * struct.calcsize("<" + code))
            return [item for (item,) in struct.iter_unpack("<" + code, raw)]
        if kind == _ARRAY:
            raise ValueError("nested metadata arrays are not supported")
        return [self.value(kind) for _ in range(count)]


def read_header(path: Path) -> Header:
    """Read and check the head of a GGUF file. Raises `RequestError` (load-failed)."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Cursor(data), len(data))
    except (OSError, ValueError) as error:
        raise unreadable(path, str(error)) from error


def _parse(cursor: _Cursor, file_bytes: int) -> Header:
    if cursor.take(4) != b"GGUF":
        raise ValueError("it does not begin with the GGUF mark")
    version = cursor.number("I")
    if version not in (2, 3):
        raise ValueError(f"format version {version} is not supported")
    tensor_count, pair_count = cursor.number("Q"), cursor.number("Q")
    metadata = {}
    for _ in range(pair_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("I"))
    found = [_tensor(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ValueError("general.alignment is not a positive number")
    start = -(-cursor.position // alignment) * alignment
    for head, offset, size_bytes in found:
        if start + offset + size_bytes > file_bytes:
            raise ValueError(f"the file ends before the end of tensor {head.name}")
    return Header(metadata, tuple(head for head, _, _ in found))


def _tensor(cursor: _Cursor) -> tuple[TensorHead, int, int]:
    name, rank = cursor.text(), cursor.number("I")
    if not 1 <= rank <= _MAX_DIMENSIONS:
        raise ValueError(f"tensor {name} has {rank} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(rank))[::-1]
    kind, offset = cursor.number("I"), cursor.number("Q")
    if kind not in _TENSOR_TYPES:
        raise ValueError(f"tensor {name} has the unknown type number {kind}")
    type_name, block, block_bytes = _TENSOR_TYPES[kind]
    if shape[-1] % block:
        raise ValueError(f"tensor {name} has rows that are no multiple of {block}")
    head = TensorHead(name, shape, type_name)
    return head, offset, head.elements // block * block_bytes
