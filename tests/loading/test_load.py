"""A folder becomes an engine and a tokenizer, and all that is said of them is measured."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model

from headrace.actors.engine.estimate import estimate
from headrace.actors.engine.headers import Numerics
from headrace.actors.engine.load import MlxLoader
from headrace.runtime.contracts import Prompt, Sampling
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.ports import LoadedModel, RowSpec

QUANTIZATIONS = [
    {"group_size": 64, "bits": 4},
    {"group_size": 32, "bits": 8},
    {"group_size": 32, "bits": 3},
    {"group_size": None, "bits": None, "mode": "mxfp4"},
    {"group_size": None, "bits": None, "mode": "mxfp8"},
    {"group_size": None, "bits": None, "mode": "nvfp4"},
]


def load(folder: Path, numerics: Numerics | None = None) -> LoadedModel:
    return MlxLoader(numerics=numerics)(str(folder), lambda share: None)


def failure(folder: Path) -> RequestError:
    with pytest.raises(RequestError) as caught:
        load(folder)
    assert caught.value.code is Code.LOAD_FAILED
    return caught.value


def greedy(loaded: LoadedModel, tokens: tuple[int, ...], count: int = 8) -> list[int]:
    sampling = Sampling(seed=0, temperature=0.0, ignore_eos=True)
    loaded.engine.add(RowSpec(1, tokens, sampling, max_tokens=count))
    loaded.engine.prefill([(1, loaded.engine.remaining(1))])
    drawn = [token.token for _ in range(count) for token in loaded.engine.decode().tokens]
    loaded.engine.remove(1)
    return drawn


def expected_greedy(folder: Path, tokens: tuple[int, ...], count: int = 8) -> list[int]:
    """Without a cache, in float32, on the stored weights: nothing of what is tested."""
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    drawn: list[int] = []
    for _ in range(count):
        logits = model(mx.array([[*tokens, *drawn]]))
        drawn.append(int(np.argmax(np.array(logits[0, -1]))))
    return drawn


# ---- what is loaded -----------------------------------------------------------------------


def test_the_model_computes_what_its_weights_say(model_folder: Any) -> None:
    folder = model_folder()
    loaded = load(folder)
    tokens = loaded.tokenizer.build(Prompt(text="the cat sat"))
    assert greedy(loaded, tokens) == expected_greedy(folder, tokens)


def test_a_packed_model_computes_unpacked_what_its_weights_say(model_folder: Any) -> None:
    folder = model_folder(quantize=QUANTIZATIONS[0], dtype=mx.bfloat16)
    loaded = load(folder)
    tokens = loaded.tokenizer.build(Prompt(text="the cat sat"))
    assert loaded.info.dtype == "float32"
    assert greedy(loaded, tokens) == expected_greedy(folder, tokens)


def test_what_is_known_of_a_model(model_folder: Any) -> None:
    folder = model_folder()
    (folder / "generation_config.json").write_text(
        json.dumps({"temperature": 0.7, "top_k": 20, "eos_token_id": [2, 0]})
    )
    loaded = load(folder)
    info = loaded.info
    assert (info.id, info.model_type, info.dtype) == ("tiny", "llama", "float32")
    assert (info.context_window, info.vocab_size) == (512, 384)
    # 2 layers, keys and values, 2 heads of 16 float32 numbers.
    assert info.kv_bytes_per_token == 2 * 2 * 2 * 16 * 4
    assert info.defaults == {"temperature": 0.7, "top_k": 20}
    assert info.has_chat_template
    assert loaded.tokenizer.end_tokens == {0, 2}


@pytest.mark.parametrize("numerics", ["stored", "float32"])
@pytest.mark.parametrize("quantize", [None, *QUANTIZATIONS], ids=str)
def test_bytes_are_as_estimated_from_the_headers(
    model_folder: Any, numerics: Numerics, quantize: dict[str, Any] | None
) -> None:
    folder = model_folder(dtype=mx.bfloat16, quantize=quantize)
    expected = estimate(folder, numerics)
    gc.collect()
    before = mx.get_active_memory()
    loaded = load(folder, numerics)
    assert loaded.info.weights_bytes == expected.weights_bytes
    assert loaded.info.kv_bytes_per_token == expected.kv_bytes_per_token
    assert loaded.info.dtype == expected.dtype
    gc.collect()
    held = mx.get_active_memory() - before
    # Buffers are rounded up to whole pages, there are a few dozen of them, and now and then a
    # buffer that nobody needs any more is let go a moment later.
    assert held == pytest.approx(loaded.info.weights_bytes, rel=0.05, abs=1 << 15)


@pytest.mark.parametrize(("family", "per_token"), [("gemma", 3 * 2 * 32 * 4), ("mamba", 0)])
def test_caches_of_other_kinds_are_measured(model_folder: Any, family: str, per_token: int) -> None:
    """A sliding window grows until it is full; a state of fixed size never does."""
    assert load(model_folder(family)).info.kv_bytes_per_token == per_token


def test_progress_runs_from_0_to_1(model_folder: Any) -> None:
    shares: list[float] = []
    MlxLoader()(str(model_folder()), shares.append)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert len({share for share in shares if 0 < share < 1}) > 3


def test_a_source_is_located(model_folder: Any) -> None:
    folder = model_folder()
    loader = MlxLoader({"org/tiny": folder}.__getitem__)
    assert loader("org/tiny", lambda share: None).info.weights_bytes > 0


# ---- fingerprints -------------------------------------------------------------------------


def test_a_fingerprint_is_equal_for_runs_that_can_be_compared(model_folder: Any) -> None:
    first = load(model_folder(name="a")).info.fingerprint
    assert load(model_folder(name="b")).info.fingerprint == first
    assert len(first) == len("fp_") + 12


@pytest.mark.parametrize(
    "other", [{"seed": 2}, {"rope_theta": 7.0}, {"dtype": mx.bfloat16}], ids=str
)
def test_other_weights_or_settings_have_another(model_folder: Any, other: dict[str, Any]) -> None:
    """Also where shapes and names are the same."""
    first = load(model_folder(name="a")).info.fingerprint
    assert load(model_folder(name="b", **other)).info.fingerprint != first


def test_other_numerics_have_another(model_folder: Any) -> None:
    folder = model_folder()
    assert load(folder, "stored").info.fingerprint != load(folder, "float32").info.fingerprint


# ---- failures -----------------------------------------------------------------------------


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")


def changed(**settings: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))

    return change


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (no_folder, "it has no config.json that can be read"),
        (no_config, "it has no config.json that can be read"),
        (no_weights, "it has no weight files (model*.safetensors)"),
        (cut_weights, "model.safetensors was cut short"),
        (no_tokenizer, "its tokenizer cannot be read"),
        (broken_tokenizer, "its tokenizer cannot be read"),
        (changed(model_type="nosuch"), 'models of the type "nosuch" are not supported'),
        (changed(hidden_size=128), "its weights do not fit its configuration"),
        (changed(num_hidden_layers=3), "its weights do not fit its configuration"),
        (changed(model_file="own.py"), "it comes with code of its own, which is not run"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_model_that_cannot_be_loaded_says_why(
    model_folder: Any, damage: Callable[[Path], None], reason: str
) -> None:
    folder = model_folder()
    damage(folder)
    error = failure(folder)
    assert error.info.message == f"The model cannot be loaded: {reason}."
    assert str(folder) not in error.info.message


def test_a_failed_load_leaves_no_memory_behind(model_folder: Any) -> None:
    folder = model_folder()

    def give_up(share: float) -> None:
        if share > 0.5:
            raise OSError("the disk is gone")

    before = mx.get_active_memory()
    with pytest.raises(RequestError, match="its weights cannot be read into memory") as caught:
        MlxLoader()(str(folder), give_up)
    # The exception is still here, and with it every frame it came through.
    assert mx.get_active_memory() - before < 4096
    assert isinstance(caught.value.__cause__, OSError)
