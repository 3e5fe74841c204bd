"""Two real servers for the tests of this folder that ask for them: the command line, a worker
process, and sockets. One has the default model; the other has a model whose steps cost next to
nothing, for what depends on no weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import openai
import pytest

from headrace.runtime.testing.serving import Serving, serving

# The first test waits for the model too, and machines may be busy with other things.
PATIENCE_SECONDS = 600


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
