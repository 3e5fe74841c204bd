"""The page of a server that has keys: it asks for one, and keeps it as long as its tab."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.browser import Browser

pytestmark = pytest.mark.timeout(600)


def test_a_key_is_asked_for_and_kept(
    browser: Browser, hosting: Callable[..., AbstractContextManager[Any]]
) -> None:
    with hosting(ScriptedModel(load_seconds=0), api_keys=["open sesame"]) as host:
        browser.open(host.base_url)
        asks = "dialog[open] h2"
        browser.until(lambda: browser.texts(asks) == ["This server asks for a key"])
        # Whoever has none is left alone until they ask for something.
        browser.type(Keys.ESCAPE)
        browser.until(lambda: browser.texts("#link") == ["no key"])
        assert browser.count(asks) == 0
        browser.run("document.querySelector('#prompt').focus()")
        browser.type("Hello", Keys.ENTER)
        browser.until(lambda: browser.count(asks))
        browser.type("open barley", Keys.ENTER)
        browser.until(lambda: browser.texts("#key-refused") != [""])
        browser.type("open sesame", Keys.ENTER)
        browser.until(lambda: browser.texts("#link") == ["connected"])
        assert browser.count(asks) == 0
        browser.until(lambda: len(browser.texts("#log .answer .body")[0]) > 3)
        browser.driver.refresh()
        browser.until(lambda: browser.texts("#link") == ["connected"])
        assert browser.count(asks) == 0
        browser.driver.get("about:blank")
