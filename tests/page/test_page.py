"""The page in a browser: a conversation, its end, the lanes of the batch, and who can use it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Protocol

import pytest
from selenium.webdriver.common.keys import Keys

from headrace.runtime.testing.browser import Browser
from headrace.runtime.testing.site import Site

# The first test starts the browser, and machines may be busy with other things.
pytestmark = pytest.mark.timeout(600)

ANSWER = "#log .answer:last-of-type"
LANES = "#lanes li"
ENDED = ("finished", "cancelled", "failed", "refused")
# The step that runs, and one that begins while the cancel is on its way to the model.
STEPS = 2


class Hosted(Protocol):
    """What conftest.py gives: a site on a thread of its own."""

    site: Site
    port: int
    base_url: str

    def ask(self, question: Any) -> Any: ...


@pytest.fixture
def page(browser: Browser, host: Hosted) -> Iterator[Browser]:
    """The page, just opened. At the end it complained of nothing, asked nobody else, and left
    nothing behind in the server."""
    browser.open(host.base_url)
    browser.until(lambda: browser.texts("#link") == ["connected"])
    browser.until(lambda: browser.texts("#model option"))
    yield browser
    assert browser.complaints() == []
    assert browser.hosts() <= {f"127.0.0.1:{host.port}"}
    browser.driver.get("about:blank")
    # Its idle connections stay; nothing of its requests does.
    browser.until(lambda: not held(host))


def held(host: Hosted) -> int:
    now = host.ask(host.site.scene.runtime.statistics)
    return int(now.requests_in_flight + now.queue_depth + now.rows_running + now.leases)


def metric(host: Hosted, name: str, label: str = "") -> float:
    with closing(http.client.HTTPConnection("127.0.0.1", host.port, timeout=120)) as connection:
        connection.request("GET", "/metrics", headers={"Connection": "close"})
        lines = connection.getresponse().read().decode().splitlines()
    samples = [line for line in lines if line.startswith(name) and label in line]
    return sum(float(sample.rpartition(" ")[2]) for sample in samples)


def steps_to_leave(host: Hosted) -> list[int]:
    """For each row that was cancelled, the steps that its model made until it was gone."""
    events = host.ask(host.site.scene.runtime.trace.events)
    gone = [event for event in events if event.name == "row.removed"]
    return [
        sum(e.name == "step" and g.at - g.fields["seconds"] < e.at <= g.at for e in events)
        for g in gone
    ]


def ask(scopes: ExitStack, host: Hosted, text: str, **fields: Any) -> http.client.HTTPConnection:
    """A client that streams beside the page, and does not read."""
    body = {"messages": [{"role": "user", "content": text}], "stream": True, **fields}
    connection = post(host, "/v1/chat/completions", body)
    scopes.enter_context(closing(connection))
    return connection


def post(host: Hosted, path: str, body: Any) -> http.client.HTTPConnection:
    """A request whose answer nobody has read yet."""
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=120)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    return connection


def flowing(page: Browser) -> list[str]:
    """The states of the lanes that have not ended."""
    states = f"return [...document.querySelectorAll('{LANES}')].map((lane) => lane.dataset.state)"
    return [state for state in page.run(states) if state not in ENDED]


def cut(page: Browser) -> list[str]:
    """What was said of each lane that was seen ending before its time."""
    return [
        f"{lane['who']}: {lane['what']}" for lane in page.lanes() if lane["state"] == "cancelled"
    ]


def said(page: Browser) -> str:
    return page.texts(f"{ANSWER} .body")[0]


class TestConversation:
    def test_tokens_arrive_and_stop_takes_the_row_away(self, page: Browser, host: Hosted) -> None:
        cancelled = ("headrace_cancelled_total", 'reason="disconnect"')
        before = metric(host, *cancelled)
        page.type("Tell me of the mill", Keys.ENTER)
        page.until(lambda: len(said(page)) > 10)
        sooner = said(page)
        page.until(lambda: len(said(page)) > len(sooner))
        assert said(page).startswith(sooner)
        assert metric(host, "headrace_rows_running") == 1
        page.until(lambda: flowing(page) == ["decoding"])
        page.click("#stop")
        page.until(lambda: metric(host, "headrace_rows_running") == 0)
        page.until(lambda: metric(host, *cancelled) == before + 1)
        assert steps_to_leave(host)[-1] <= STEPS
        page.until(lambda: cut(page))
        assert cut(page)[-1].startswith("chatfrom this page: hung up at ")
        assert " freed in " in cut(page)[-1]
        stopped = said(page)
        assert page.texts(f"{ANSWER} .notes")[0].startswith("stopped")
        assert page.texts("#told") == ["Stopped."]
        assert said(page) == stopped

    def test_what_was_said_is_kept_until_a_new_chat(self, page: Browser) -> None:
        page.type("Tell me of the mill", Keys.ENTER)
        page.until(lambda: "spilled" in said(page))
        page.type(Keys.ESCAPE)
        page.type("And then?", Keys.ENTER)
        page.until(lambda: said(page) == "I remember.")
        page.click("#new")
        assert page.count("#log article") == 0
        page.type("break", Keys.ENTER)
        page.until(lambda: page.count("#log .failed"))
        assert page.texts("#log .failed .notes") == ["The generation failed."]

    def test_an_answer_is_text_whatever_it_says(self, page: Browser) -> None:
        page.type("Some code, please", Keys.ENTER)
        page.until(lambda: page.texts(f"{ANSWER} .notes"))
        assert page.texts(f"{ANSWER} pre") == ["print('<b>bold</b>')"]
        assert page.texts(f"{ANSWER} code") == ["one"]
        assert page.texts(f"{ANSWER} p")[1] == "and <i>that</i> is all."
        assert page.count("#log b, #log i") == 0

    def test_a_refusal_gives_the_message_back(self, page: Browser, host: Hosted) -> None:
        host.ask(host.site.scene.runtime.close_to_new)
        page.type("Tell me of the mill", Keys.ENTER)
        page.until(lambda: page.count("#log .failed"))
        host.ask(host.site.scene.runtime.open_to_new)
        assert page.run("return document.querySelector('#prompt').value") == "Tell me of the mill"
        # A browser puts each refusal of its own accord into the console.
        assert all("503" in complaint for complaint in page.complaints())


class TestLiveView:
    def test_lanes_follow_the_rows_from_the_queue_to_the_end(
        self, page: Browser, host: Hosted
    ) -> None:
        with ExitStack() as scopes:
            first = ask(scopes, host, "mill one")
            ask(scopes, host, "mill two")
            page.until(lambda: flowing(page) == ["decoding", "decoding"])
            ask(scopes, host, "mill three")
            page.until(lambda: flowing(page) == ["decoding", "decoding", "queued"])
            assert page.texts("#rows") == ["2 of 2"]
            assert page.texts("#queued") == ["1"]
            page.until(lambda: float(page.texts("#rate")[0]) > 0)
            first.close()
            page.until(lambda: flowing(page) == ["decoding", "decoding"])
            page.until(lambda: "hung up at" in "".join(cut(page)))
            page.run(f"document.querySelector('{LANES}[data-state=decoding] button').click()")
            page.until(lambda: "cancelled at" in "".join(cut(page)))

    def test_models_and_memory_are_told(self, page: Browser) -> None:
        assert page.texts("#models .name") == ["scripted"]
        assert page.texts("#models .what") == ["ready"]
        assert page.texts("#parts .weights") == ["100 MB models"]

    def test_jobs_are_told_of_when_there_are_any(self, page: Browser, host: Hosted) -> None:
        heading = "return document.querySelector('#jobs-part').checkVisibility()"
        assert not page.run(heading)
        with closing(post(host, "/api/jobs", {"kind": "noop"})) as asker:
            assert asker.getresponse().status == 201
        page.until(lambda: page.texts("#jobs .what") == ["done"])
        assert page.texts("#jobs .name") == ["noop"]
        assert page.run("return document.querySelector('#jobs progress').value") == 1

    def test_water_stands_still_for_those_who_want_no_motion(
        self, page: Browser, host: Hosted
    ) -> None:
        page.prefer(reduced_motion="reduce")
        lane = f"{LANES}[data-state=decoding]"
        surface = f"return document.querySelectorAll('{lane} .front')[1].getAttribute('d')"
        with ExitStack() as scopes:
            ask(scopes, host, "mill")
            page.until(lambda: page.texts(f"{lane} .what"))
            tokens = page.texts(f"{lane} .what")
            page.until(lambda: page.texts(f"{lane} .what") != tokens)
            still = page.run(surface)
            tokens = page.texts(f"{lane} .what")
            page.until(lambda: page.texts(f"{lane} .what") != tokens)
            assert page.run(surface) == still


def is_named(page: Browser, part: str) -> bool:
    """Whether the navigation tells of this part as the one that is shown."""
    return page.texts("nav a[aria-current=true]") == [part.title()]


class TestForEverybody:
    def test_the_keyboard_is_enough(self, page: Browser) -> None:
        def focused() -> str:
            return str(page.run("return document.activeElement.id"))

        assert focused() == "prompt"
        page.type("Tell me of the mill", Keys.ENTER)
        page.until(lambda: len(said(page)) > 3)
        page.type(Keys.TAB)
        assert focused() == "stop"
        page.type(Keys.ENTER)
        page.until(lambda: page.texts(f"{ANSWER} .notes"))
        assert focused() == "prompt"
        page.type(Keys.TAB, Keys.TAB, Keys.SPACE)
        for _ in range(4):
            page.type(Keys.TAB)
        assert focused() == "max_tokens"
        page.type("3")
        page.run("document.querySelector('#prompt').focus()")
        page.type("The mill again")
        page.chord(Keys.SHIFT, Keys.ENTER)
        page.type("please", Keys.ENTER)
        page.until(lambda: "3 tokens" in "".join(page.texts(f"{ANSWER} .notes")))
        assert page.texts(f"{ANSWER} .notes")[0].startswith("the limit of tokens was reached")
        assert page.texts("#log .user:nth-last-of-type(2) .body") == ["The mill again\nplease"]

    def test_everything_that_can_be_used_has_a_name(self, page: Browser) -> None:
        page.run("document.querySelector('#sampling').open = true")
        tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        used = {"button", "textbox", "combobox", "spinbutton", "link", "list", "log", "status"}
        nodes = [node for node in tree if node.get("role", {}).get("value") in used]
        shown = [node for node in nodes if not node["ignored"]]
        nameless = [n["role"]["value"] for n in shown if not n.get("name", {}).get("value")]
        assert [role for role in nameless if role != "status"] == []
        assert len(shown) > 10

    def test_text_can_be_read_in_both_schemes(self, page: Browser) -> None:
        page.type("Some code, please", Keys.ENTER)
        page.until(lambda: page.texts(f"{ANSWER} .notes"))
        for scheme in ("light", "dark"):
            page.prefer(color_scheme=scheme)
            found = page.run(CONTRASTS)
            assert (found["luminance"] < 0.1) is (scheme == "dark")
            assert {text: ratio for text, ratio in found["ratios"].items() if ratio < 4.5} == {}
            assert len(found["ratios"]) > 20

    def test_a_narrow_screen_shows_one_part_at_a_time(self, page: Browser) -> None:
        page.size(360, 740)
        for part, other in (("chat", "live"), ("live", "chat")):
            page.click(f"nav a[href='#{part}']")
            page.until(partial(is_named, page, part))
            visible = "return document.querySelector(arguments[0]).checkVisibility()"
            assert page.run(visible, f"#{part}")
            assert not page.run(visible, f"#{other}")
            assert page.run("return document.documentElement.scrollWidth") <= 360
        page.click("nav a[href='#chat']")


# The contrast of each text with what it stands on, by the text (WCAG 2.2, 1.4.3).
CONTRASTS = """
const light = (css) => {
  const [r, g, b] = css.match(/[\\d.]+/g).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const found = getComputedStyle(node).backgroundColor;
    if (!/, 0\\)$/.test(found)) return light(found);
  }
  return 1;
};
const ratios = {};
for (const node of document.querySelectorAll("body *")) {
  const text = [...node.childNodes].filter((child) => child.nodeType === 3 && child.data.trim());
  if (!text.length || !node.checkVisibility() || node.closest("[aria-hidden], .unseen")) continue;
  const [a, b] = [light(getComputedStyle(node).color), ground(node)].sort((x, y) => y - x);
  ratios[text[0].data.trim()] = (a + 0.05) / (b + 0.05);
}
return { luminance: light(getComputedStyle(document.documentElement).backgroundColor), ratios };
"""
