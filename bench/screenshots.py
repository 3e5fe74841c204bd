"""Pictures of the web page under load, for the README: `design/images/live-*.png`.

A real server with the default model and more clients than rows: some wait, some read their prompt,
most are being answered, one hangs up, and the page has an answer of its own. Needs Debian's
`chromium` and `chromium-driver`. The figures on a picture are those of the machine it was made on.
"""

from __future__ import annotations

import argparse
import http.client
import json
import time
from contextlib import ExitStack, closing
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from headrace.runtime.testing.browser import Browser, open_browser
from headrace.runtime.testing.serving import Serving, serving

FOLDER = Path(__file__).resolve().parent.parent / "design" / "images"
ROWS = 6
# Tokens of each client's answer; they come a little apart, and the second one hangs up.
LENGTHS = (300, 300, 12, 300, 24, 300, 300, 300, 300)
APART_SECONDS = 0.3
# Of the longest answer, when the second one hangs up.
TOKENS = 40
STORY = "Tell a long story about a river, a mill and the people who live beside it."
ASKED = "How does a water mill work? Explain it step by step."


def client(scopes: ExitStack, server: Serving, length: int) -> http.client.HTTPConnection:
    """One that asks for a stream, and leaves it unread."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    scopes.enter_context(closing(connection))
    body = {
        "messages": [{"role": "user", "content": STORY}],
        "max_tokens": length,
        "stream": True,
        "seed": length,
    }
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return connection


def ready(browser: Browser) -> bool:
    return "ready" in browser.texts("#models .what")


def tokens(browser: Browser) -> int:
    """Of the longest answer that is under way."""
    found = browser.texts("#lanes li[data-state=decoding] .what b")
    return max((int(text.split()[0]) for text in found), default=0)


def picture(server: Serving, scheme: str, file: Path) -> None:
    with ExitStack() as scopes, open_browser() as browser:
        browser.open(server.base_url)
        browser.size(1360, 900, scale=1.25)
        browser.prefer(color_scheme=scheme)
        browser.until(lambda: ready(browser), within=120)
        browser.run("document.querySelector('#temperature').value = 0")
        browser.type(ASKED, Keys.ENTER)
        clients = []
        for length in LENGTHS:
            clients.append(client(scopes, server, length))
            time.sleep(APART_SECONDS)
        browser.until(lambda: tokens(browser) >= TOKENS, within=120)
        clients[1].close()
        browser.until(lambda: browser.count("#lanes li[data-state=cancelled]"))
        # The gate has fallen, and the water behind it is running off.
        time.sleep(0.35)
        browser.driver.save_screenshot(str(file))
    server.until(lambda: server.metric("headrace_requests_in_flight") <= 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with serving("--max-rows", str(ROWS)) as server:
        for scheme in ("light", "dark"):
            file = folder / f"live-{scheme}.png"
            picture(server, scheme, file)
            print(f"{file.name}: {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
