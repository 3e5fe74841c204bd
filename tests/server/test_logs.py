"""What is logged: each line about a request carries its id, and no line anything of its text."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from headrace.actors.runtime import Runtime
from headrace.http.logs import configure, log_lifecycle, on_one_line, where_from
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.memory_site import MemorySite, open_memory_site
from headrace.runtime.testing.site import CHAT, Site, http, open_site

SECRET = "xyzzy plugh"
LOGGERS = ("headrace", "hypercorn")
# Lines of these events are about models and the server.
NOT_OF_A_REQUEST = ("model.", "worker.", "cache.")


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Standard error of a server that logs JSON."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    configure("info", as_json=True)
    yield out
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def asking(name: str, text: str = SECRET, **fields: Any) -> bytes:
    body = {"messages": [{"role": "user", "content": text}], **fields}
    return http("POST", CHAT, json.dumps(body).encode(), headers={"X-Request-ID": name})


class Fault(Exception):
    """One that nobody foresaw, with words of the client in it."""


@pytest.fixture
def sometimes_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Runtime._begin

    def breaking(self: Runtime, request: Any, *arguments: Any, **more: Any) -> Any:
        if request.id == "crashed":
            raise Fault(SECRET)
        return begin(self, request, *arguments, **more)

    monkeypatch.setattr(Runtime, "_begin", breaking)


async def leave(site: Site | MemorySite, name: str) -> None:
    async with site.dial() as caller:
        await caller.send(asking(name, stream=True))
        await caller.read_until(b'"content":"')
        caller.reset()


async def cancelled(site: MemorySite, name: str) -> None:
    async with site.dial() as caller:
        await caller.send(asking(name, stream=True))
        await caller.read_until(b'"content":"')
        await site.call(http("DELETE", f"/v1/requests/{name}", headers={"X-Request-ID": "del"}))
        await caller.read_to_end()


async def every_ending(site: MemorySite) -> None:
    await site.call(asking("whole", max_tokens=2))
    await site.call(asking("stream", max_tokens=2, stream=True))
    await site.call(asking("invalid", temperature=-1))
    await site.call(asking("unknown", model=SECRET.replace(" ", "-")))
    await site.call(asking("fails", f"fails {SECRET}"))
    await site.call(asking("raises", f"raises {SECRET}"))
    await site.call(asking("crashed"))
    await site.call(asking("timeout", max_tokens=4000))
    await leave(site, "left")
    await cancelled(site, "cancelled")
    await site.call(http("POST", CHAT, SECRET.encode(), headers={"X-Request-ID": "no-json"}))
    # For the step in which the last one left.
    await trio.sleep(1)
    await site.idle()


async def test_each_line_of_a_request_has_its_id_and_none_its_text(
    logged: io.StringIO, sometimes_broken: None, virtual_clock: MockClock
) -> None:
    scripts = {"fails": Script(fail_at=2), "raises": Script(raise_at=2)}
    model = ScriptedModel(load_seconds=0, scripts=scripts)
    async with open_memory_site(model, request_timeout_s=2) as site:
        log_lifecycle(site.scene.runtime)
        await every_ending(site)
        found = lines(logged)
        of_requests = [line for line in found if not line["event"].startswith(NOT_OF_A_REQUEST)]
        assert all(line.get("request_id") for line in of_requests), of_requests
        answers = Counter(
            line["request_id"] for line in found if line["logger"] == "headrace.http.access"
        )
        names = "whole stream invalid unknown fails raises crashed timeout left cancelled no-json"
        assert answers == Counter([*names.split(), "del"])
        # What failed inside is told with its cause, beside the line of the answer.
        causes = {
            line["request_id"]: line["event"] for line in found if "row.failed" in line["event"]
        }
        assert set(causes) == {"fails", "raises"}
        (crash,) = (line for line in found if "exception" in line)
        assert crash["request_id"] == "crashed"
        assert f"{__name__}.Fault" in crash["exception"]
        for word in (*SECRET.split(), "content"):
            assert word not in logged.getvalue().replace("xyzzy-plugh", "")


async def test_one_request_is_found_again_by_the_id_of_its_answer(logged: io.StringIO) -> None:
    async with open_site() as site:
        reply = await site.call(http("GET", "/health"))
        await site.idle()
        (line,) = lines(logged)
        assert line["request_id"] == reply.headers["x-request-id"]
        assert (line["client"], line["outcome"], line["level"]) == ("127.0.0.1", "ok", "info")


async def test_a_client_is_one_by_its_key_however_it_is_sent_q3(logged: io.StringIO) -> None:
    async with open_site(api_keys=["one", "two"]) as site:
        for headers in ({"x-api-key": " one "}, {"Authorization": "bearer one"}):
            await site.call(http("GET", "/v1/models", headers=headers))
        await site.call(http("GET", "/v1/models", headers={"x-api-key": "two"}))
        await site.idle()
        first, second, other = (line["client"] for line in lines(logged))
        assert first == second != other
        assert '"one"' not in logged.getvalue()


async def test_a_request_that_leaves_is_no_error(logged: io.StringIO) -> None:
    async with open_site() as site:
        await leave(site, "left")
        await site.idle()
        (line,) = lines(logged)
        assert (line["level"], line["outcome"], line["request_id"]) == ("info", "cancelled", "left")


def test_a_path_cannot_look_like_lines() -> None:
    shown = on_one_line("/x\r\nERROR all is lost\x1b[31m\u2028" + "y" * 1000)
    assert shown.isprintable()
    assert len(shown) == 200


def test_an_exception_is_shown_by_its_place() -> None:
    try:
        try:
            raise Fault(SECRET)
        except Fault as error:
            raise ExceptionGroup(SECRET, [KeyError(SECRET)]) from error
    except ExceptionGroup as group:
        text = where_from((type(group), group, group.__traceback__))
    assert "test_an_exception_is_shown_by_its_place" in text
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        f"{__name__}.Fault",
        "then:",
        "builtins.ExceptionGroup",
        "builtins.KeyError",
    ]
    assert "xyzzy" not in text


async def test_what_fails_while_nobody_asks_has_the_models_name(logged: io.StringIO) -> None:
    async with open_site(ScriptedModel(load_seconds=0)) as site:
        log_lifecycle(site.scene.runtime)
        for what in ("unload", "load"):
            await site.call(http("POST", f"/admin/models/scripted/{what}"))
        await trio.testing.wait_all_tasks_blocked()
        events = [line["event"] for line in lines(logged) if line["logger"].endswith("models")]
        assert any(event.startswith("model.loaded: model scripted") for event in events)
