"""What the official clients make of a worker that dies and of a server that is started anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from headrace.runtime.testing.serving import Serving, serving

# Two starts of a server and three loads of its model, on a machine that others use too.
pytestmark = pytest.mark.timeout(500)

TURNS: Any = [{"role": "user", "content": "Count to a thousand."}]
# Nothing ends these but their caps.
ENDLESS: dict[str, Any] = {"model": "default", "stream": True, "extra_body": {"ignore_eos": True}}
MANY = 8000


@contextmanager
def started(model: Path | None, responses: Path) -> Iterator[tuple[Serving, openai.OpenAI]]:
    options = ("--responses-file", str(responses), "--shutdown-timeout-s", "0.2")
    with (
        serving(*options, model=None if model is None else str(model)) as server,
        openai.OpenAI(
            base_url=f"{server.base_url}/v1", api_key="any", max_retries=0, timeout=200
        ) as client,
    ):
        yield server, client


def streams(server: Serving, client: openai.OpenAI) -> dict[str, Any]:
    """One stream of each kind, each after its first event."""
    claude = anthropic.Anthropic(
        base_url=server.base_url, api_key="any", max_retries=0, timeout=200
    )
    running: dict[str, Any] = {
        "chat": client.chat.completions.create(
            messages=TURNS, max_completion_tokens=MANY, **ENDLESS
        ),
        "completions": client.completions.create(prompt="1, 2, 3,", max_tokens=MANY, **ENDLESS),
        "responses": client.responses.create(input=TURNS, max_output_tokens=MANY, **ENDLESS),
        "messages": claude.messages.create(messages=TURNS, max_tokens=MANY, **ENDLESS),
    }
    for stream in running.values():
        next(iter(stream))
    return running


def kill_worker(server: Serving) -> None:
    (worker,) = server.get_json("/engine")["workers"]
    os.kill(worker["pid"], signal.SIGKILL)


def check_told(running: dict[str, Any]) -> None:
    """Each stream ends as its client has failures end, and none as if it were whole."""
    for name in ("chat", "completions"):
        with pytest.raises(openai.APIError) as told:
            list(running[name])
        assert told.value.code == "engine_unavailable"
    with pytest.raises(anthropic.APIStatusError) as refused:
        list(running["messages"])
    assert "engine_unavailable" in str(refused.value.body)
    *_, error, failed = running["responses"]
    assert (error.type, error.code) == ("error", "engine_unavailable")
    assert (failed.type, failed.response.status) == ("response.failed", "failed")


def test_a_death_is_told_and_a_conversation_outlives_its_server(
    small_model: Path | None, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"model": "default", "max_output_tokens": 4, "temperature": 0}
    with started(small_model, tmp_path / "responses.db") as (server, client):
        running = streams(server, client)
        kill_worker(server)
        check_told(running)
        # The worker is started again unasked; a client only has to ask again.
        server.until(lambda: server.get_json("/health")["status"] == "ok", within=200)
        first = client.responses.create(input="My name is Bo.", **asked)
        unfinished = client.responses.create(
            input=TURNS, background=True, **asked | {"max_output_tokens": MANY}
        )
    with started(small_model, tmp_path / "responses.db") as (_, client):
        assert client.responses.retrieve(first.id) == first
        second = client.responses.create(
            input="What is my name?", previous_response_id=first.id, **asked
        )
        assert second.previous_response_id == first.id
        assert second.usage is not None
        assert first.usage is not None
        assert second.usage.input_tokens > first.usage.total_tokens
        assert client.responses.retrieve(unfinished.id).status in ("failed", "cancelled")
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(input="Go on.", previous_response_id=unfinished.id, **asked)
        assert caught.value.code == "previous_response_not_usable"
