"""What holds for every test: no network, no leftovers, and runs that can be repeated."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["headrace.runtime.testing.pytest_plugin"]

# The cache is expensive to fill; every other variable would change what the tests see.
KEPT_VARIABLES = {"HEADRACE_HOME"}
# Idle threads of trio's cache, and the one that tqdm keeps for its bars.
CACHED_THREADS = "Trio thread"
LIBRARY_THREADS = {"TMonitor"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds", type=int, default=100, help="schedules that each exploration runs (100)"
    )


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        if name not in KEPT_VARIABLES:
            del os.environ[name]
    # A test that would reach for a model hub fails at once, and in the same way everywhere.
    os.environ["HF_HUB_OFFLINE"] = "1"
    # A gate must not fail by chance: it draws the same examples each time. `make explore` draws
    # new ones.
    hypothesis.settings.register_profile(
        "headrace", deadline=None, derandomize=not os.environ.get("EXPLORE")
    )
    hypothesis.settings.load_profile("headrace")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("device")]
    if marked and not _has_accelerator():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no accelerator on this machine"))


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> range:
    """The seeds that an exploration runs; `--seeds` says how many."""
    return range(pytestconfig.getoption("--seeds"))


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """Fails a test that leaves a thread or a child process behind."""
    threads, children = set(threading.enumerate()), _children()
    yield
    started = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in started:
        if not _may_stay(thread):
            thread.join(timeout=1.0)
    left = [thread.name for thread in started if thread.is_alive() and not _may_stay(thread)]
    assert not left, f"threads left behind: {left}"
    assert not _children() - children, "child processes left behind"


def _may_stay(thread: threading.Thread) -> bool:
    return thread.name.startswith(CACHED_THREADS) or type(thread).__name__ in LIBRARY_THREADS


def _children() -> set[int]:
    """Process ids of our children, ended ones that nobody has waited for included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    except AttributeError:  # not on this system
        return set()
    return {pid for pid, parent in _processes() if parent == os.getpid()}


def _processes() -> Iterator[tuple[int, int]]:
    """(process id, parent's id) of every process, where the system shows them as files."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = file.read_text()
        except OSError:  # it has just ended
            continue
        # The name stands in brackets and may hold anything; the parent is the second field after.
        yield int(file.parent.name), int(text.rpartition(")")[2].split()[1])


def _has_accelerator() -> bool:
    import mlx.core as mx

    return mx.default_device() == mx.Device(mx.gpu)
