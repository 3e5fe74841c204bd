"""A headless Chromium, for tests of the web page and for its pictures.

Debian's packages `chromium` and `chromium-driver`, driven by selenium. Nothing is fetched, and the
browser knows nothing of any other: its profile is new and empty.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    # Every name but this machine's own is unknown, so that nothing can be reached by mistake.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((found) => found.innerText)"
# A lane that has ended goes after a while, and whoever waits for it may look too late.
RECORD_LANES = """
window.lanesSeen = [];
const known = new Set();
const note = (lane) => {
  const { state, ticket } = lane.dataset;
  if (known.has(`${ticket} ${state}`)) return;
  known.add(`${ticket} ${state}`);
  const text = (name) => lane.querySelector(name).textContent;
  window.lanesSeen.push({ state, who: text(".who"), what: text(".what") });
};
const look = () => document.querySelectorAll("#lanes li").forEach(note);
const options = { attributes: true, childList: true, subtree: true };
new MutationObserver(look).observe(document.querySelector("#lanes"), options);
look();
"""
LOOK_SECONDS = 0.03
LOGS = {"browser": "ALL", "performance": "ALL"}


def browser_is_here() -> bool:
    return all(shutil.which(program) for program in ("chromium", "chromedriver"))


class Browser:
    """One window. `requests` and `complaints` are what happened since they were last asked for."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def size(self, width: int, height: int, scale: float = 1) -> None:
        """The size of the page in CSS pixels, and how many of the screen's make one of them."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, **features: str) -> None:
        """What the person prefers: `prefer(color_scheme="dark", reduced_motion="reduce")`."""
        listed = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})

    def open(self, address: str) -> None:
        """A page at the size and in the colours that are usual; what was before is forgotten."""
        self.size(1280, 800)
        self.prefer(color_scheme="light")
        self.complaints()
        self.requests()
        self.driver.get(address)
        self.run(RECORD_LANES)

    def lanes(self) -> list[dict[str, str]]:
        """Each state of each lane that was seen since the page was opened, in order: `state`, and
        the words of `who` and `what`."""
        found: list[dict[str, str]] = self.run("return window.lanesSeen")
        return found

    def type(self, *keys: str) -> None:
        """Press keys on what has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, held: str, key: str) -> None:
        """Press a key while another one is held."""
        ActionChains(self.driver).key_down(held).send_keys(key).key_up(held).perform()

    def click(self, selector: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns that runs in the page."""
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """What can be read in each element that is there, in one look."""
        found: list[str] = self.run(TEXTS, selector)
        return found

    def count(self, selector: str) -> int:
        return len(self.texts(selector))

    def until(self, holds: Callable[[], object], *, within: float = 60.0) -> None:
        """Wait for what the page does in its own time. Raises `TimeoutError`."""
        deadline = time.monotonic() + within
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within} s; the page: {self.texts('body')}")
            time.sleep(LOOK_SECONDS)

    def complaints(self) -> list[str]:
        """What stood in the console as a warning or an error."""
        entries = self.driver.get_log("browser")
        return [e["message"] for e in entries if e["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [str(params["request"]["url"]) for params in sent]

    def hosts(self) -> set[str]:
        """The hosts that were asked, with their ports."""
        parts = [urlsplit(address) for address in self.requests()]
        return {part.netloc for part in parts if part.scheme in ("http", "https", "ws", "wss")}


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Raises `LookupError` where Chromium or its driver is missing."""
    if not browser_is_here():
        raise LookupError("chromium and chromedriver are not installed")
    with tempfile.TemporaryDirectory(prefix="headrace-browser-") as profile:
        options = ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", LOGS)
        # Its own proxies and its manager of downloads are not for us.
        environment = os.environ | {"SE_OFFLINE": "true", "SE_AVOID_STATS": "true"}
        service = ChromeService(shutil.which("chromedriver"), env=environment)
        driver = Chrome(options, service)
        try:
            yield Browser(driver)
        finally:
            driver.quit()
