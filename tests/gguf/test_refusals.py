"""Files that cannot be converted are refused with a reason, and never end the process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.actors.engine.gguf import convert_gguf
from headrace.actors.engine.gguf_header import read_header
from headrace.runtime.errors import Code, RequestError

Write: TypeAlias = Callable[..., Path]

EMBEDDING = {"token_embd.weight": np.zeros((8, 64), np.float32)}


def refusal(source: Path, target: Path) -> str:
    with pytest.raises(RequestError) as caught:
        convert_gguf(source, target, "float32")
    assert caught.value.code == Code.LOAD_FAILED
    assert list(target.iterdir()) == []
    return str(caught.value)


def test_an_unknown_architecture_is_named(write: Write, target: Path) -> None:
    assert "'mamba'" in refusal(write({}, architecture="mamba"), target)


def test_an_unknown_pre_tokenizer_is_named(write: Write, target: Path) -> None:
    source = write(EMBEDDING, edit=other_split)
    assert "'deepseek-llm'" in refusal(source, target)


def other_split(writer: gguf.GGUFWriter) -> None:
    writer.kv_data[0].pop("tokenizer.ggml.pre")
    writer.add_tokenizer_pre("deepseek-llm")


def test_a_type_that_needs_the_gguf_package_is_named(
    write: Write,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = write(EMBEDDING, gguf.GGMLQuantizationType.Q5_0)
    monkeypatch.setitem(sys.modules, "gguf", None)
    message = refusal(source, target)
    assert "Q5_0" in message
    assert "headrace[gguf]" in message


def test_a_disk_that_is_too_small_is_seen_before_the_work(
    write: Write, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(EMBEDDING)
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert "takes 0.0 GB" in refusal(source, target)


@settings(max_examples=60)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_cut_off_file_is_refused(whole_file: bytes, scratch: Path, cut: float) -> None:
    scratch.write_bytes(whole_file[: int(cut * len(whole_file))])
    with pytest.raises(RequestError):
        read_header(scratch)


@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_head_is_read_or_refused_but_never_crashes(
    whole_file: bytes, scratch: Path, data: st.DataObject
) -> None:
    damaged = bytearray(whole_file)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, 400))] = data.draw(st.integers(0, 255))
    scratch.write_bytes(damaged)
    # Any other exception fails the test.
    with contextlib.suppress(RequestError):
        header = read_header(scratch)
        # Every tensor lies in the file; the densest type has three elements in a byte.
        assert sum(tensor.elements for tensor in header.tensors) <= 4 * len(damaged)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "file.gguf"
