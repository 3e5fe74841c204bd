"""Weight files are judged by their headers: sizes in memory, and whether they are whole."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.headers import (
    fingerprint,
    read_weight_files,
    stored_dtype,
    weights_bytes,
)
from headrace.runtime.errors import Code, RequestError

SIZES = {"F32": 4, "BF16": 2, "U32": 4, "U8": 1, "I32": 4, "F8_E4M3": 1}


def write(folder: Path, tensors: dict[str, tuple[str, list[int]]], name: str = "model") -> Path:
    """A safetensors file of zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    place = 0
    for tensor, (dtype, shape) in tensors.items():
        nbytes = SIZES[dtype]
        for side in shape:
            nbytes *= side
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + nbytes]}
        place += nbytes
    text = json.dumps(header).encode()
    file = folder / f"{name}.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(place))
    return file


def unpacked(folder: Path, config: dict[str, Any] | None = None) -> int:
    return weights_bytes(read_weight_files(folder), config or {}, "float32")


# ---- sizes --------------------------------------------------------------------------------


def test_stored_weights_take_what_the_files_hold(tmp_path: Path) -> None:
    write(tmp_path, {"a": ("BF16", [3, 5])}, "model-00001-of-00002")
    write(tmp_path, {"b": ("F32", [7]), "c": ("U32", [2, 2])}, "model-00002-of-00002")
    write(tmp_path, {"d": ("F32", [1000])}, "adapter")
    assert weights_bytes(read_weight_files(tmp_path), {}, "stored") == 30 + 28 + 16


def test_float_weights_grow_to_four_bytes(tmp_path: Path) -> None:
    write(tmp_path, {"a": ("BF16", [3, 5]), "b": ("F32", [7]), "c": ("F8_E4M3", [2])})
    assert unpacked(tmp_path) == (15 + 7 + 2) * 4


def test_packed_weights_grow_by_their_groups_whatever_their_bits(tmp_path: Path) -> None:
    packed = {
        "x.weight": ("U32", [8, 12]),
        "x.scales": ("BF16", [8, 2]),
        "x.biases": ("BF16", [8, 2]),
        "x.bias": ("BF16", [8]),
        "y.weight": ("U32", [8, 16]),
        "y.scales": ("U8", [8, 4]),
    }
    write(tmp_path, packed)
    config = {"quantization": {"group_size": 64, "bits": 3, "y": {"group_size": 32, "bits": 4}}}
    assert unpacked(tmp_path, config) == (8 * 128 + 8 + 8 * 128) * 4


def test_packed_weights_of_other_makers_grow_by_their_bits(tmp_path: Path) -> None:
    write(tmp_path, {"x.qweight": ("I32", [4, 8]), "e.w_blocks": ("U8", [16])})
    assert unpacked(tmp_path, {"quantization_config": {"bits": 4}}) == (4 * 8 * 8 + 32) * 4


def test_the_type_of_most_values_is_the_models(tmp_path: Path) -> None:
    write(tmp_path, {"a": ("BF16", [30]), "b": ("F32", [7]), "c": ("U32", [500])})
    assert stored_dtype(read_weight_files(tmp_path)) == "bfloat16"


# ---- fingerprints -------------------------------------------------------------------------


def test_a_fingerprint_sees_names_content_and_what_is_added(tmp_path: Path) -> None:
    file = write(tmp_path, {"a": ("F32", [100_000])})
    seen = {fingerprint(read_weight_files(tmp_path)), fingerprint(read_weight_files(tmp_path), "x")}
    changed = bytearray(file.read_bytes())
    changed[-100_000:] = b"\x01" * 100_000
    file.write_bytes(changed)
    seen.add(fingerprint(read_weight_files(tmp_path)))
    file.rename(tmp_path / "model-2.safetensors")
    seen.add(fingerprint(read_weight_files(tmp_path)))
    assert len(seen) == 4


# ---- broken files -------------------------------------------------------------------------


@given(data=st.data())
def test_a_file_cut_anywhere_is_found_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    file = write(folder, {"a": ("F32", [4, 4]), "b": ("BF16", [3])})
    whole = file.read_bytes()
    file.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(RequestError) as caught:
        read_weight_files(folder)
    assert caught.value.code is Code.LOAD_FAILED


@given(content=st.binary(max_size=60), believable=st.booleans())
def test_a_file_of_anything_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, believable: bool
) -> None:
    folder = tmp_path_factory.mktemp("junk")
    length = struct.pack("<Q", len(content)) if believable else b""
    (folder / "model.safetensors").write_bytes(length + content)
    try:
        files = read_weight_files(folder)
    except RequestError:
        return
    assert weights_bytes(files, {}, "stored") == 0


def test_a_refusal_names_the_file_but_not_the_folder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(RequestError, match="is no safetensors file") as caught:
        read_weight_files(tmp_path)
    assert str(tmp_path) not in caught.value.info.message


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {"dtype": "F32"},
        {"dtype": "F32", "shape": ["4"], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0]},
    ],
    ids=str,
)
def test_a_header_that_is_no_header_is_refused(tmp_path: Path, entry: Any) -> None:
    text = json.dumps({"a": entry}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    with pytest.raises(RequestError, match="has a header that cannot be read"):
        read_weight_files(tmp_path)


# ---- a process without MLX ----------------------------------------------------------------


def test_an_estimate_needs_no_mlx(tmp_path: Path) -> None:
    write(tmp_path, {"a": ("BF16", [3, 5])})
    (tmp_path / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 9}')
    code = (
        "import sys; from pathlib import Path;"
        "from headrace.actors.engine.estimate import estimate;"
        f"print(estimate(Path({str(tmp_path)!r}), 'float32').weights_bytes);"
        "print(sorted({'mlx', 'mlx_lm', 'transformers', 'tokenizers', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:2] == ["60", "[]"]
    info = estimate(tmp_path, "stored")
    assert (info.context_window, info.weights_bytes, info.dtype) == (9, 30, "bfloat16")
    assert not info.has_chat_template
