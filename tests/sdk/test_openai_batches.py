"""The official client's way through a batch."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import httpx
import openai
import pytest

from headrace.actors.library import DEFAULT_MODEL
from headrace.runtime.testing.serving import Serving

CHAT: Final = "/v1/chat/completions"
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 240


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """A line's answer is compared with the route's, whatever the weights are."""
    return served_small


def body(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "default", "messages": messages, "max_tokens": 8, "temperature": 0, **more}


def ended(client: openai.OpenAI, name: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (batch := client.batches.retrieve(name)).status in ("validating", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(LOOK_SECONDS)
    return batch


def test_a_batch_from_upload_to_download(client: openai.OpenAI, nothing_left: Serving) -> None:
    texts = ["Say hello.", "Name a colour.", "Count to three."]
    lines = [
        {"custom_id": f"n{number}", "method": "POST", "url": CHAT, "body": body(text)}
        for number, text in enumerate(texts)
    ]
    lines[1]["body"] = body("Name a colour.", max_tokens=-1)
    data = b"\n".join(json.dumps(line).encode() for line in lines)
    file = client.files.create(file=("lines.jsonl", data), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint=CHAT,
        completion_window="24h",
        metadata={"of": "a test"},
    )
    assert (batch.object, batch.metadata) == ("batch", {"of": "a test"})
    batch = ended(client, batch.id)
    assert batch.status == "completed"
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (3, 2, 1)
    answers = [json.loads(line) for line in client.files.content(batch.output_file_id).iter_lines()]
    assert [answer["custom_id"] for answer in answers] == ["n0", "n2"]
    for answer, text in zip(answers, (texts[0], texts[2]), strict=True):
        # Greedy, so a line's answer is that of the route.
        alone = client.chat.completions.create(**body(text))
        told = answer["response"]["body"]["choices"][0]["message"]["content"]
        assert told == alone.choices[0].message.content
    (failure,) = client.files.content(batch.error_file_id).text.splitlines()
    assert json.loads(failure)["response"]["status_code"] == 400
    assert batch.id in [found.id for found in client.batches.list(limit=5).data]
    for name in (file.id, batch.output_file_id, batch.error_file_id):
        assert client.files.delete(name).deleted
    left = {found.id for found in client.files.list()}
    assert not left & {file.id, batch.output_file_id, batch.error_file_id}


def test_a_pull_of_what_is_there_tells_where_it_is(served: Serving) -> None:
    with httpx.Client(base_url=served.base_url, timeout=240) as client:
        job = client.post("/api/jobs", json={"kind": "pull"}).json()["job"]
        with client.stream("GET", f"/api/jobs/{job['id']}/stream") as stream:
            text = stream.read().decode()
        assert text.endswith("event: end\ndata: {}\n\n")
        done = client.get(f"/api/jobs/{job['id']}").json()["job"]
    assert done["status"] == "done", done
    assert done["summary"]["model"] == DEFAULT_MODEL
    assert done["summary"]["made"] is False
    assert done["summary"]["bytes"] > 0
