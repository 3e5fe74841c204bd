"""Two real servers for the tests of this folder that ask for them: the command line, a worker
process, and sockets. One has the default model; the other has a model whose steps cost next to
nothing, for what depends on no weights."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openai
import pytest

from headrace.actors.library import DEFAULT_MODEL, library_at
from headrace.runtime.settings import home_folder
from headrace.runtime.testing.serving import Serving, serving

# The first test waits for the model too, and machines may be busy with other things.
PATIENCE_SECONDS = 600
# With this in the environment all are tried with the default model: `make slow` does it.
REAL = "REAL_MODEL"
# The default model's shape in small: its words, its template and its window stay.
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
WORDS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = getattr(item, "fixturenames", ())
        asks = "served" in names or "served_small" in names
        if asks and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


@pytest.fixture(scope="session")
def notes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that server may write notes."""
    return tmp_path_factory.mktemp("notes")


def started(
    folder: Path, notes: Path, model: Path | None = None
) -> AbstractContextManager[Serving]:
    # Beside others on this machine, so it keeps its responses to itself.
    options = ("--responses-file", str(folder / "responses.db"), "--memory-folders", str(notes))
    return serving(*options, "--debug-trace", model=None if model is None else str(model))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, notes_folder: Path) -> Iterator[Serving]:
    """With the default model. Started for the first test that asks, and stopped after all tests."""
    with started(tmp_path_factory.mktemp("served"), notes_folder) as server:
        yield server


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A random llama of some million weights that speaks in the default model's tokens; None for
    that model itself, where all are to be tried with it."""
    if os.environ.get(REAL):
        return None
    home = Path(os.environ.get("HEADRACE_HOME") or home_folder())
    words = library_at(home, os.environ).resolve(DEFAULT_MODEL).path
    folder = tmp_path_factory.mktemp("small") / "small"
    folder.mkdir()
    for name in WORDS:
        shutil.copy(words / name, folder / name)
    config = json.loads((words / "config.json").read_text(encoding="utf-8")) | SHAPE
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_weights(folder / "model.safetensors", config)
    return folder


def write_weights(file: Path, config: dict[str, Any]) -> None:
    import mlx.core as mx

    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (config["vocab_size"], width)}
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        shapes |= {
            f"{layer}.self_attn.q_proj": (queries, width),
            f"{layer}.self_attn.k_proj": (keys, width),
            f"{layer}.self_attn.v_proj": (keys, width),
            f"{layer}.self_attn.o_proj": (width, queries),
            f"{layer}.mlp.gate_proj": (inner, width),
            f"{layer}.mlp.up_proj": (inner, width),
            f"{layer}.mlp.down_proj": (width, inner),
            f"{layer}.input_layernorm": (width,),
            f"{layer}.post_attention_layernorm": (width,),
        }
    shapes["model.norm"] = (width,)
    chances = mx.random.split(mx.random.key(1), len(shapes))
    # Wide enough that greedy choices are clear, as they are in a trained model.
    weights = {
        f"{name}.weight": mx.ones(shape)
        if len(shape) == 1
        else 0.1 * mx.random.normal(shape, key=key)
        for (name, shape), key in zip(shapes.items(), chances, strict=True)
    }
    mx.save_safetensors(str(file), weights, metadata={"format": "mlx"})


@pytest.fixture(scope="session")
def served_small(
    tmp_path_factory: pytest.TempPathFactory, notes_folder: Path, small_model: Path | None
) -> Iterator[Serving]:
    """With the small model. A file that names it its own `served` is tried on it throughout."""
    with started(tmp_path_factory.mktemp("served small"), notes_folder, small_model) as server:
        yield server


@pytest.fixture(scope="module")
def client(served: Serving) -> Iterator[openai.OpenAI]:
    """The official client, as its users make it. It tries nothing twice: no fault is hidden."""
    with client_of(served) as client:
        yield client


@pytest.fixture(scope="module")
def quick(served_small: Serving) -> Iterator[openai.OpenAI]:
    """The same for the small model."""
    with client_of(served_small) as client:
        yield client


def client_of(server: Serving) -> openai.OpenAI:
    base_url = f"{server.base_url}/v1"
    return openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=240)


@pytest.fixture
def nothing_left(served: Serving) -> Iterator[Serving]:
    """After the test every gauge is back where it is with nobody connected."""
    yield from at_rest(served)


@pytest.fixture
def nothing_left_small(served_small: Serving) -> Iterator[Serving]:
    """The same for the small model's server."""
    yield from at_rest(served_small)


def at_rest(server: Serving) -> Iterator[Serving]:
    yield server
    server.until(lambda: not _busy(server))


def _busy(server: Serving) -> list[str]:
    gauges = ["requests_in_flight", "queue_depth", "rows_running", "leases"]
    return [gauge for gauge in gauges if server.metric(f"headrace_{gauge}") != 0]
