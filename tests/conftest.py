"""What holds for every test: no network, no leftovers, and runs that can be repeated."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
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


def _has_accelerator() -> bool:
    import mlx.core as mx

    return mx.default_device() == mx.Device(mx.gpu)
