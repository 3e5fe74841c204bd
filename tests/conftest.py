"""What holds for every test: no network, no leftovers, and runs that can be repeated."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

# The cache is expensive to fill; every other variable would change what the tests see.
KEPT_VARIABLES = {"HEADRACE_HOME"}
# The folder whose tests share two servers, which every process would start else, and those of its
# files that take long and have one of their own, or need one only.
SHARING = "tests/sdk/"
APART = ("test_failing_servers.py", "test_node.py")
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


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        if name not in KEPT_VARIABLES:
            del os.environ[name]
    # Nor may a config file of whoever runs them.
    os.environ["HEADRACE_CONFIG"] = ""
    # Many tests start processes of ours; none of them is to compile all modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A test that would reach for a model hub fails at once, and in the same way everywhere.
    os.environ["HF_HUB_OFFLINE"] = "1"
    # A gate must not fail by chance: it draws the same examples each time. With EXPLORE=1, as in
    # `make stories`, new ones are drawn, and more of them.
    exploring = bool(os.environ.get("EXPLORE"))
    hypothesis.settings.register_profile(
        "headrace",
        deadline=None,
        # Nor may it depend on how busy the machine is.
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
        derandomize=not exploring,
        max_examples=200 if exploring else 50,
    )
    hypothesis.settings.load_profile("headrace")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Of what is imported nearly nothing is garbage.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # What shares a server takes longest, so it comes first.
    items.sort(key=lambda item: group_of(item.nodeid) != SHARING)
    marked = [item for item in items if item.get_closest_marker("device")]
    if marked and not _has_accelerator():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no accelerator on this machine"))


def pytest_collection_finish() -> None:
    # All that was imported stays: no collection has to look at it, and some tests ask for many.
    gc.collect()
    gc.freeze()


def group_of(nodeid: str) -> str:
    """What one process runs as a whole: a file, or the files that share a server."""
    file = nodeid.partition("::")[0]
    return SHARING if file.startswith(SHARING) and not file.endswith(APART) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


@pytest.fixture(autouse=True)
def nothing_is_left_behind(no_leftovers: None) -> None:
    """Fails a test that leaves a thread or a child process behind."""


@pytest.fixture(scope="session")
def default_model() -> Path:
    """Its folder. Prepared by the first test run on a machine, found by the ones after it."""
    from headrace.actors.library import DEFAULT_MODEL, library_at
    from headrace.runtime.settings import home_folder

    home = Path(os.environ.get("HEADRACE_HOME") or home_folder())
    return library_at(home, os.environ).resolve(DEFAULT_MODEL).path


@pytest.fixture(scope="session")
def small_model(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path | None:
    """A random llama of some million weights that speaks in the default model's tokens; None for
    that model itself, where all are to be tried with it."""
    if os.environ.get(REAL):
        return None
    words = request.getfixturevalue("default_model")
    folder = tmp_path_factory.mktemp("small") / "small"
    folder.mkdir()
    for name in WORDS:
        shutil.copy(words / name, folder / name)
    config = json.loads((words / "config.json").read_text(encoding="utf-8")) | SHAPE
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_weights(folder / "model.safetensors", config)
    return folder


@pytest.fixture(scope="session")
def weightless_model(small_model: Path | None, request: pytest.FixtureRequest) -> Path:
    """The folder of the model for what depends on its words and not on its weights: the small one,
    or the default one where all are to be tried with that."""
    folder: Path = small_model or request.getfixturevalue("default_model")
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


def _has_accelerator() -> bool:
    import mlx.core as mx

    return mx.default_device() == mx.Device(mx.gpu)
