"""One real server for the tests of this folder that ask for it: the command line, the default
model in its worker process, and sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from headrace.runtime.testing.serving import Serving, serving

# The first test waits for the model too, and machines may be busy with other things.
PATIENCE_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "served" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


@pytest.fixture(scope="session")
def notes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that server may write notes."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, notes_folder: Path) -> Iterator[Serving]:
    """Started for the first test that asks, and stopped after all tests."""
    # Beside others on this machine, so it keeps its responses to itself.
    responses = tmp_path_factory.mktemp("served") / "responses.db"
    options = ("--responses-file", str(responses), "--memory-folders", str(notes_folder))
    with serving(*options, "--debug-trace") as server:
        yield server


@pytest.fixture(scope="module")
def client(served: Serving) -> Iterator[openai.OpenAI]:
    """The official client, as its users make it. It tries nothing twice: no fault is hidden."""
    base_url = f"{served.base_url}/v1"
    with openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=240) as client:
        yield client


@pytest.fixture
def nothing_left(served: Serving) -> Iterator[Serving]:
    """After the test every gauge is back where it is with nobody connected."""
    yield served
    served.until(lambda: not _busy(served))


def _busy(served: Serving) -> list[str]:
    gauges = ["requests_in_flight", "queue_depth", "rows_running", "leases"]
    return [gauge for gauge in gauges if served.metric(f"headrace_{gauge}") != 0]
