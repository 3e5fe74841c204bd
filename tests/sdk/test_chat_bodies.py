"""Bodies of chat and completions as agents and tools send them: taken as they are.

Texts are ours and short, and so are the caps; the fields and their forms are theirs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from headrace.runtime.testing.serving import Serving

BODIES = Path(__file__).parent / "bodies"
CAPS = ("max_tokens", "max_completion_tokens")


def bodies(route: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted(BODIES.glob(f"{route}-*.json"))]


def posted(served: Serving, path: Path, route: str) -> tuple[dict[str, Any], httpx.Response]:
    body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    caps = [cap for cap in CAPS if cap in body] or ["max_completion_tokens"]
    capped = body | {"model": "default"} | dict.fromkeys(caps, 4)
    reply = httpx.post(f"{served.base_url}/v1/{route}", json=capped, timeout=240)
    assert reply.status_code == 200, reply.text
    return body, reply


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """Some of their prompts are long, and their forms are what is looked at."""
    return served_small


@pytest.mark.parametrize("path", bodies("chat"))
def test_a_chat_is_answered_in_the_clients_own_types(served: Serving, path: Path) -> None:
    body, reply = posted(served, path, "chat/completions")
    if not body.get("stream"):
        ChatCompletion.model_validate(reply.json(), strict=True)
        return
    lines = [line for line in reply.text.split("\n") if line.startswith("data: ")]
    *frames, done = [line.removeprefix("data: ") for line in lines]
    assert done == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(frame, strict=True) for frame in frames]
    wants_usage = (body.get("stream_options") or {}).get("include_usage", False)
    assert (chunks[-1].usage is not None) == wants_usage
    assert all(chunk.choices for chunk in chunks[: -1 if wants_usage else None])


@pytest.mark.parametrize("path", bodies("completions"))
def test_a_completion_is_answered_in_the_clients_own_types(served: Serving, path: Path) -> None:
    body, reply = posted(served, path, "completions")
    (choice,) = reply.json()["choices"]
    if body.get("echo"):
        scores = choice["logprobs"]
        assert scores["token_logprobs"][0] is None
        # Nothing comes before the first token, so nothing can be said of it.
        assert (
            len(scores["tokens"])
            == len(body["prompt"][0]) + reply.json()["usage"]["completion_tokens"]
        )
    else:
        Completion.model_validate(reply.json(), strict=True)
