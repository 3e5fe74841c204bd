"""The web page, as a browser uses it, against the real server and the real model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from headrace.runtime.testing.browser import Browser, browser_is_here, open_browser
from headrace.runtime.testing.serving import Serving

pytestmark = pytest.mark.timeout(600)

BODY = "#log .answer:last-of-type .body"


@pytest.fixture
def page(served: Serving) -> Iterator[Browser]:
    if not browser_is_here():
        pytest.skip("chromium and chromedriver are not installed")
    with open_browser() as browser:
        browser.open(served.base_url)
        browser.until(lambda: "ready" in browser.texts("#models .what"), within=120)
        yield browser
        assert browser.complaints() == []
        assert browser.hosts() == {f"127.0.0.1:{served.port}"}


def cancelled(served: Serving) -> float:
    return served.metric("headrace_cancelled_total", reason="disconnect")


def test_stop_in_the_page_takes_the_row_away(page: Browser, nothing_left: Serving) -> None:
    """In which step is shown where the steps of others are in the test's hands."""
    before = cancelled(nothing_left)
    page.run("document.querySelector('#temperature').value = 0")
    page.type("Tell a long story about a mill by a river.", Keys.ENTER)
    page.until(lambda: len(page.texts(BODY)[0]) > 20, within=60)
    assert nothing_left.metric("headrace_rows_running") == 1
    (row,) = nothing_left.get_json("/v1/requests")["data"]
    assert row["id"].startswith("page-")
    assert row["generated_tokens"] > 0
    page.type(Keys.ESCAPE)
    nothing_left.until(lambda: nothing_left.metric("headrace_rows_running") == 0)
    nothing_left.until(lambda: cancelled(nothing_left) == before + 1)
    assert nothing_left.get_json("/v1/requests")["data"] == []
    events = nothing_left.get_json("/debug/trace")["data"]
    removed = next(e for e in reversed(events) if e["name"] == "row.removed")
    assert removed["fields"]["reason"] == "disconnect"
    decoded = nothing_left.metric("headrace_tokens_total", kind="decoded")
    page.until(lambda: "cancelled" in [lane["state"] for lane in page.lanes()])
    assert page.texts("#log .notes")[0].startswith("stopped")
    assert nothing_left.metric("headrace_tokens_total", kind="decoded") == decoded
