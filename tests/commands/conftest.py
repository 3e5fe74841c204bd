"""The commands as a shell would run them, and a scripted server for them to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.http.cli import main
from headrace.runtime.testing.scripted_process import scripted_serving
from headrace.runtime.testing.serving import Serving


@pytest.fixture
def shell() -> Callable[..., Result]:
    def run(*arguments: object, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the scripted server."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Serving]:
    with scripted_serving(home) as serving:
        yield serving


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home in which no server runs; nor does one at the usual address."""
    monkeypatch.setattr("headrace.http.commands.remote.USUAL_URL", "http://127.0.0.1:9")
    folder = tmp_path / "nobody"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of the hub that happen to be on this machine are not looked at."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
