"""The web page in a real browser, over a scripted model behind real sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import attrs
import pytest
import trio

from headrace.runtime.testing import Script, ScriptedModel, Timings
from headrace.runtime.testing.browser import Browser, browser_is_here, open_browser
from headrace.runtime.testing.site import Site, open_site

T = TypeVar("T")

START_SECONDS = 60.0
CODE = "Here is `one` line:\n```python\nprint('<b>bold</b>')\n```\nand <i>that</i> is all."
SCRIPTS = {
    # By what was said before, if it is there.
    "spilled": Script(tokens="I remember."),
    "code": Script(tokens=CODE),
    "mill": Script(tokens="A gate shuts it, and nothing is spilled. ", end=False),
    "break": Script(tokens="Half an answer", fail_at=7),
}


@attrs.frozen
class Hosted:
    """A site that runs on a thread of its own, since a browser's driver waits as it likes."""

    site: Site
    port: int
    _token: trio.lowlevel.TrioToken

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, question: Callable[[], T]) -> T:
        """What the site's own thread answers."""
        return trio.from_thread.run_sync(question, trio_token=self._token)


@contextmanager
def hosted(model: ScriptedModel, **settings: Any) -> Iterator[Hosted]:
    ready, stop = threading.Event(), trio.Event()
    found: list[Hosted] = []

    async def run() -> None:
        async with open_site(model, **settings) as site:
            found.append(Hosted(site, site.port, trio.lowlevel.current_trio_token()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=trio.run, args=(run,), name="site")
    thread.start()
    assert ready.wait(START_SECONDS), "the site did not start"
    try:
        yield found[0]
    finally:
        found[0].ask(stop.set)
        thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Started for the first test that asks, and stopped after all tests."""
    if not browser_is_here():
        pytest.skip("chromium and chromedriver are not installed")
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def host() -> Iterator[Hosted]:
    """Two rows at once; a step takes 10 ms."""
    model = ScriptedModel(
        load_seconds=0, scripts=SCRIPTS, timings=Timings(0.0001, seconds_per_decode=0.01)
    )
    with hosted(model, max_rows=2, test_jobs=True) as host:
        yield host


@pytest.fixture(scope="session")
def hosting() -> Callable[..., AbstractContextManager[Hosted]]:
    """Hosts a model with the settings that are given."""
    return hosted
