"""Weights of any form into a folder of the wanted form, and the job that does it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model
from tokenizers import Tokenizer

from headrace.actors.engine.converting import WORK, Wanted, convert
from headrace.actors.jobs import Job
from headrace.actors.provision import Provision
from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.errors import RequestError
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Write: TypeAlias = Callable[..., Path]
HIDDEN, KV_HIDDEN, INNER = 64, 32, 96


@pytest.fixture
def source(write: Write, byte_tokenizer: Tokenizer) -> Path:
    """A GGUF file of random weights."""
    draw = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (byte_tokenizer.get_vocab_size(), HIDDEN)}
    for layer in range(2):
        part = f"blk.{layer}."
        shapes |= {
            f"{part}attn_q": (HIDDEN, HIDDEN),
            f"{part}attn_k": (KV_HIDDEN, HIDDEN),
            f"{part}attn_v": (KV_HIDDEN, HIDDEN),
            f"{part}attn_output": (HIDDEN, HIDDEN),
            f"{part}ffn_gate": (INNER, HIDDEN),
            f"{part}ffn_up": (INNER, HIDDEN),
            f"{part}ffn_down": (HIDDEN, INNER),
            f"{part}attn_norm": (HIDDEN,),
            f"{part}ffn_norm": (HIDDEN,),
        }
    shapes["output_norm"] = (HIDDEN,)
    weights = {
        f"{name}.weight": draw.normal(0, 0.2, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    return write(weights)


def made(source: Path, folder: Path, **wanted: Any) -> Path:
    (folder / WORK).mkdir(parents=True)
    convert(source, folder, Wanted(**wanted), lambda _: None)
    return folder


def logits(folder: Path) -> Array:
    model, _ = load_model(folder)
    return np.array(model(mx.array([[5, 6, 7, 8]])).astype(mx.float32))


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def test_a_gguf_file_is_quantized_on_the_way(source: Path, tmp_path: Path) -> None:
    plain = made(source, tmp_path / "plain", dtype="float32")
    eight = made(source, tmp_path / "eight", bits=8, group_size=32)
    four = made(source, tmp_path / "four", bits=4, group_size=32)
    assert config(four)["quantization"] == {"bits": 4, "group_size": 32, "mode": "affine"}
    assert "quantization" not in config(plain)
    near = np.abs(logits(eight) - logits(plain)).max()
    far = np.abs(logits(four) - logits(plain)).max()
    assert near < far < np.abs(logits(plain)).max()
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (plain, eight, four)]
    assert sizes == sorted(sizes, reverse=True)


def test_a_folder_keeps_what_is_beside_its_weights_but_no_code(
    source: Path, tmp_path: Path
) -> None:
    first = made(source, tmp_path / "first", dtype="float32")
    (first / "modeling_custom.py").write_text("raise SystemExit")
    (first / "chat_template.jinja").write_text("{{ messages }}")
    half = made(first, tmp_path / "half", dtype="float16")
    names = {file.name for file in half.iterdir()}
    assert {"tokenizer.json", "chat_template.jinja", "config.json"} <= names
    assert "modeling_custom.py" not in names
    weights: Any = mx.load(str(half / "model.safetensors"))
    assert {weight.dtype for weight in weights.values()} == {mx.float16}
    assert config(half)["torch_dtype"] == "float16"


def test_what_is_quantized_is_not_quantized_again(source: Path, tmp_path: Path) -> None:
    four = made(source, tmp_path / "four", bits=4, group_size=32)
    with pytest.raises(RequestError, match="quantized already"):
        made(four, tmp_path / "again", bits=4)


@asynccontextmanager
async def open_home(home: Path) -> AsyncIterator[Runtime]:
    """A runtime without models, whose jobs work in a folder."""
    provision = Provision((), ScriptedLoader(), 0)
    async with open_runtime(Settings(home=home), provision=provision) as runtime:
        yield runtime


async def ended(runtime: Runtime, **config: Any) -> Job:
    job = await runtime.jobs.submit("convert", config)
    found = await runtime.jobs.wait(job.id)
    assert found is not None
    return found


async def test_a_job_converts_once_and_refuses_a_name_that_is_taken(
    source: Path, tmp_path: Path
) -> None:
    asked = {"source": str(source), "bits": 4, "group_size": 32, "name": "tiny-4bit"}
    async with open_home(tmp_path / "home") as runtime:
        first = await ended(runtime, **asked)
        assert first.status == "done", first.error
        assert first.summary is not None
        folder = Path(first.summary["path"])
        assert folder == tmp_path / "home" / "models" / "tiny-4bit"
        assert first.summary | {"bytes": 0} == {
            "model": "tiny-4bit",
            "path": str(folder),
            "bytes": 0,
            "made": True,
        }
        assert np.isfinite(logits(folder)).all()
        assert not (folder / WORK).exists()
        again = await ended(runtime, **asked)
        assert again.summary is not None
        assert again.summary == first.summary | {"made": False}
        other = await ended(runtime, **asked | {"bits": 8})
        assert other.status == "failed"
        assert "another model 'tiny-4bit'" in str(other.error)


async def test_a_job_whose_file_is_broken_fails_with_the_reason_and_leaves_nothing(
    tmp_path: Path, whole_file: bytes
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(whole_file[: len(whole_file) // 2])
    async with open_home(tmp_path / "home") as runtime:
        job = await ended(runtime, source=str(broken))
        assert job.status == "failed"
        assert "broken" in str(job.error)
    left = [file.name for file in (tmp_path / "home" / "models").iterdir()]
    assert [name for name in left if not name.endswith(".lock")] == []


async def test_what_nobody_knows_is_told_so(tmp_path: Path) -> None:
    async with open_home(tmp_path / "home") as runtime:
        job = await runtime.jobs.submit("pull", {"model": "no-such-model"})
        found = await runtime.jobs.wait(job.id)
        assert found is not None
        assert found.status == "failed"
        assert "'no-such-model' is no model folder" in str(found.error)
