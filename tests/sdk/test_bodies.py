"""Every body in `bodies/` through the whole app, over a scripted model: each is taken as it is.

`test_chat_bodies.py` and the files of the clients have them answered over sockets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from headrace.http.app import create_app
from headrace.runtime.testing.fuzzing import terse
from headrace.runtime.testing.inprocess import post
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.verdicts import complaint

BODIES = sorted((Path(__file__).parent / "bodies").glob("*.json"))
# A token is a character, near enough.
WINDOW_TOKENS = 32_768
ROUTES = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}


def body_of(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return body | {"model": "default"}


def route_of(path: Path) -> str:
    if "count-tokens" in path.stem:
        return "/v1/messages/count_tokens"
    return ROUTES[path.stem.partition("-")[0]]


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
async def test_what_agents_send_is_answered_o1_o6(autojump_clock: MockClock, path: Path) -> None:
    body = body_of(path)
    async with open_scene(attrs.evolve(terse(), context_window=WINDOW_TOKENS)) as scene:
        route = route_of(path)
        answer = await post(create_app(scene.runtime), route, json.dumps(body).encode())
        assert (answer.status, answer.complete) == (200, True), answer.body
        content_type = answer.headers["content-type"]
        assert not complaint(route, answer.status, content_type, answer.body)
        assert ("event-stream" in content_type) == body.get("stream", False)
        await scene.baseline.settle()
